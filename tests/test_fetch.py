"""Outputs of stages go to a remote and come back, checked by their digests."""

import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from nlp_core import cli
from nlp_core.cli.plan import IN_REMOTE, mark_shared
from nlp_core.dag import NOT_BUILT, fetch, find_shared, find_stale, load_stages, push
from nlp_core.errors import ConfigError
from tests.workflow_project import ROOT, Project, make_stub_project

pytestmark = pytest.mark.slow

NAMES = ["preprocess@words", "preprocess@vectors", "finetune@large_one", "finetune@small_one"]
CELL = "finetune@small_one"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project whose outputs are in a folder next to it."""
    root = tmp_path_factory.mktemp("pushed") / "project"
    root.mkdir()
    project = make_stub_project(root)
    project.build("dvc", "repro")
    project.run("dvc", "remote", "add", "--default", "shared", "../remote")
    assert push(root, NAMES).num_files > 0
    return project


@pytest.fixture
def clone(pushed: Project, tmp_path: Path) -> Project:
    """What Git has of the project, with a remote of its own to damage."""
    shutil.copytree(pushed.root.parent / "remote", tmp_path / "remote")
    ignored = shutil.ignore_patterns("data", "artifacts", "cache", "tmp")
    shutil.copytree(pushed.root, tmp_path / "project", ignore=ignored)
    return Project(tmp_path / "project")


def test_second_push_copies_nothing(pushed: Project) -> None:
    assert push(pushed.root, NAMES).num_files == 0


def test_fetched_cell_is_not_trained_again(clone: Project, pushed: Project) -> None:
    assert find_shared(clone.root, NAMES) == NAMES
    assert NOT_BUILT in find_stale(clone.root)[CELL]
    found = fetch(clone.root, NAMES)
    assert (found.missing, found.damaged) == ([], [])
    assert not {*NAMES} & {*find_stale(clone.root)}
    cell = "artifacts/cells/small/small_one/cell.json"
    assert (clone.root / cell).read_bytes() == (pushed.root / cell).read_bytes()


def test_changed_cell_is_not_said_to_be_in_the_remote(clone: Project) -> None:
    clone.set_recipe("quick", lr=0.5)
    marked = mark_shared(find_stale(clone.root), NAMES, clone.root)
    assert [name for name in NAMES if IN_REMOTE in marked[name]] == NAMES[:3]
    fetch(clone.root, NAMES)
    assert {*find_stale(clone.root)} & {*NAMES} == {CELL}


def test_damaged_file_is_not_copied(clone: Project) -> None:
    names = {path.name for path in list_remote(clone) if path.suffix != ".dir"}
    assert fetch(clone.root, [CELL]).damaged == []
    shutil.rmtree(clone.root / "artifacts/cells/small")
    shutil.rmtree(clone.root / ".dvc/cache")
    for path in list_remote(clone):
        if path.name in names:
            path.chmod(0o644)
            path.write_bytes(path.read_bytes() + b" ")
    assert fetch(clone.root, [CELL]).damaged == [CELL]
    assert not (clone.root / "artifacts/cells/small/small_one").exists()


def test_file_that_is_not_recorded_is_kept(clone: Project) -> None:
    fetch(clone.root, NAMES)
    own = clone.root / "artifacts/cells/small/small_one/cell.json"
    own.unlink()
    own.write_text("trained here")
    assert fetch(clone.root, NAMES).kept == [CELL]
    assert own.read_text() == "trained here"


def test_mended_remote_is_copied(clone: Project, pushed: Project) -> None:
    for path in list_remote(clone):
        path.chmod(0o644)
        path.write_bytes(b"[]")
    assert fetch(clone.root, NAMES).damaged == NAMES
    shutil.copytree(pushed.root.parent / "remote", clone.root.parent / "remote", dirs_exist_ok=True)
    assert fetch(clone.root, NAMES).damaged == []


@pytest.mark.parametrize(
    ("address", "message"),
    [("http://127.0.0.1:9", r"did not take \d+ files"), ("s3://cells", "'dvc-s3' to be installed")],
)
def test_remote_that_takes_nothing_is_an_error(clone: Project, address: str, message: str) -> None:
    fetch(clone.root, NAMES)
    clone.run("dvc", "remote", "modify", "shared", "url", address)
    with pytest.raises(ConfigError, match=message):
        push(clone.root, NAMES)


def test_absent_cell_is_named(clone: Project) -> None:
    for path in list_remote(clone):
        path.unlink()
    assert find_shared(clone.root, NAMES) == []
    assert fetch(clone.root, NAMES).missing == NAMES


def test_without_a_remote_nothing_is_shared(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    names = [stage.name for stage in load_stages(project.root)]
    assert find_shared(project.root, names) == []
    with pytest.raises(ConfigError, match="dvc remote add"):
        fetch(project.root, names)


@pytest.mark.parametrize("command", ["fetch", "push"])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "arguments are required: TABLE. "),
        (["sampl"], "params.yaml: unknown table 'sampl'. Did you mean 'sample'?"),
        (["sample", "sample_answer_cn"], "Did you mean 'sample_answer_cnn'?"),
    ],
)
def test_wrong_names_are_errors(
    command: str, names: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(ROOT), pytest.raises(SystemExit) as stopped:
        cli.main([command, *names])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def list_remote(project: Project) -> list[Path]:
    return [path for path in (project.root.parent / "remote").rglob("*") if path.is_file()]
