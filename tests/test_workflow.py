"""Both engines on the project's own dvc.yaml and Snakefile, with cheap stages in place of ours."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.workflow_project import Project, make_stub_project

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow

DVC = ("dvc", "repro")
SNAKEMAKE = ("snakemake", "--cores", "4")
ONE_JOB = ("snakemake", "--cores", "1")
DOCTOR = ("reglue", "doctor", "--mend")
UNLOCK = ("snakemake", "--unlock", "--cores", "1")
DIRECT = (*SNAKEMAKE, "--config", "via=direct")
CATALOGUE = (*ONE_JOB, "--snakefile", "workflow/Snakefile")
CHANGED = ["evaluate large", "finetune large_two", "report large"]
UP_TO_DATE = "Nothing to be done"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workflow")


@pytest.fixture(scope="module")
def by_dvc(folder: Path) -> Project:
    (folder / "dvc").mkdir()
    project = make_stub_project(folder / "dvc")
    assert len(project.build(*DVC)) == 9
    return project


@pytest.fixture
def built(by_dvc: Project, tmp_path: Path) -> Project:
    return by_dvc.copy(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return make_stub_project(tmp_path)


@pytest.mark.parametrize(
    "command",
    [SNAKEMAKE, ONE_JOB, DIRECT, CATALOGUE],
    ids=["four", "one", "direct", "catalogue"],
)
def test_snakemake_gives_the_bytes_of_dvc_and_then_nobody_works(
    fresh: Project, by_dvc: Project, command: tuple[str, ...]
) -> None:
    assert len(fresh.build(*command)) == 9
    assert fresh.digest_outputs() == by_dvc.digest_outputs()
    assert fresh.read_lock() == by_dvc.read_lock()
    again = fresh.run(*command)
    assert UP_TO_DATE in again.stderr
    assert "up to date" in fresh.run("dvc", "status").stdout
    assert fresh.build(*DVC) == []
    assert UP_TO_DATE in fresh.run(*command).stderr


def test_an_unknown_way_of_running_is_an_error(fresh: Project) -> None:
    done = fresh.run(*SNAKEMAKE, "--config", "via=unknown")
    assert done.returncode != 0
    assert "--config via: found 'unknown', expected dvc or direct." in done.stderr


def test_after_dvc_neither_engine_works(built: Project) -> None:
    assert built.build(*DVC) == []
    assert UP_TO_DATE in built.run(*SNAKEMAKE).stderr
    assert built.build(*DVC) == []


@pytest.mark.parametrize("command", [DVC, SNAKEMAKE, DIRECT], ids=["dvc", "snakemake", "direct"])
def test_changed_recipe_reruns_its_cell_and_its_table(
    built: Project, command: tuple[str, ...]
) -> None:
    built.set_recipe("slow", lr=0.5)
    assert built.build(*command) == CHANGED
    assert built.build(*DVC) == []
    assert UP_TO_DATE in built.run(*SNAKEMAKE).stderr


def test_changed_numerics_reruns_every_cell(built: Project) -> None:
    path = built.root / "params.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("numerics: 1", "numerics: 2"), encoding="utf-8")
    calls = built.build(*SNAKEMAKE)
    assert [call for call in calls if call.startswith("finetune")] == [
        "finetune large_one",
        "finetune large_two",
        "finetune small_one",
    ]
    assert not [call for call in calls if call.startswith("preprocess")]


@pytest.mark.parametrize("command", [DVC, SNAKEMAKE], ids=["dvc", "snakemake"])
def test_student_is_trained_after_its_teacher_and_again_when_that_changes(
    built: Project, command: tuple[str, ...]
) -> None:
    built.add_student()
    new = ["evaluate pupils", "finetune alone", "finetune young", "report pupils"]
    new.append("teach words_taught")
    assert built.build(*command) == new
    assert built.build(*DVC) == []
    built.set_recipe("fast", lr=0.2)
    calls = set(built.build(*command))
    assert {"finetune large_one", *new} - {"finetune alone"} <= calls
    assert not [call for call in calls if call.endswith((" alone", " small"))]
    assert UP_TO_DATE in built.run(*SNAKEMAKE).stderr


def test_one_table_builds_nothing_of_the_other(fresh: Project) -> None:
    calls = fresh.build(*SNAKEMAKE, "reports/small.md")
    assert "finetune small_one" in calls
    assert not [call for call in calls if "large" in call]


@pytest.mark.parametrize("command", [DVC, SNAKEMAKE, DIRECT], ids=["dvc", "snakemake", "direct"])
def test_failed_stage_is_named_and_is_run_again(built: Project, command: tuple[str, ...]) -> None:
    built.set_recipe("slow", fail=True)
    failed = built.run(*command)
    assert failed.returncode != 0
    assert "large_two" in failed.stderr
    assert "the stub was told to fail" in failed.stderr
    calls = built.take_calls()
    assert "finetune large_two" in calls
    assert "report large" not in calls
    built.set_recipe("slow", fail=False)
    assert set(built.build(*command)) == set(CHANGED)


def test_undone_change_is_restored_from_the_cache(built: Project, by_dvc: Project) -> None:
    before = (built.root / "grid/large.yaml").read_bytes()
    built.set_recipe("slow", lr=0.5)
    assert built.build(*DVC) == CHANGED
    (built.root / "grid/large.yaml").write_bytes(before)
    assert not [call for call in built.build(*SNAKEMAKE) if call.startswith("finetune")]
    assert built.digest_outputs() == by_dvc.digest_outputs()


def test_folder_without_git_works_after_one_setting(fresh: Project, by_dvc: Project) -> None:
    shutil.rmtree(fresh.root / ".git")
    fresh.build("dvc", "config", "--local", "core.no_scm", "true")
    fresh.build(*DVC)
    assert fresh.digest_outputs() == by_dvc.digest_outputs()


def test_lost_artifacts_come_back_from_the_cache(built: Project, by_dvc: Project) -> None:
    for path in sorted((built.root / "artifacts").rglob("*.json")):
        path.unlink()
    calls = built.build(*SNAKEMAKE)
    assert not [call for call in calls if call.startswith("finetune")]
    assert built.digest_outputs() == by_dvc.digest_outputs()


@pytest.mark.parametrize("command", [DVC, SNAKEMAKE], ids=["dvc", "snakemake"])
def test_killed_run_is_taken_up_again_with_the_same_bytes(
    fresh: Project, by_dvc: Project, command: tuple[str, ...]
) -> None:
    assert f"`{' '.join(UNLOCK)}`" in (ROOT / "docs/workflow.md").read_text(encoding="utf-8")
    fresh.set_recipe("slow", sleep=300)
    _kill_when(fresh, command, "artifacts/cells/large/large_two/seed-1/model.safetensors")
    assert not (fresh.root / "artifacts/cells/large/large_two/cell.json").exists()
    (fresh.root / "grid/large.yaml").write_bytes((by_dvc.root / "grid/large.yaml").read_bytes())
    if command == SNAKEMAKE:
        assert "lock" in fresh.run(*command).stderr
        fresh.run(*DOCTOR)  # the kill may have cut DVC's lock, which the Snakefile reads
        fresh.build(*UNLOCK)
    calls = fresh.build(*command)
    assert "finetune large_two" in calls
    assert fresh.digest_outputs() == by_dvc.digest_outputs()
    assert fresh.build(*DVC) == []


def _kill_when(project: Project, command: tuple[str, ...], path: str) -> None:
    """Start a command in a group of its own and kill the group as soon as `path` exists."""
    log = (project.root / "killed.log").open("w", encoding="utf-8")
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=project.environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 240
        while not (project.root / path).exists():
            assert process.poll() is None, "the engine ended before the stage began"
            assert time.monotonic() < deadline, f"{path} did not appear"
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()
