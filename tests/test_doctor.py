"""`reglue doctor` finds and removes what killed runs leave, and checks what surrounds them."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from fabricated import make_project

from nlp_core import probe
from nlp_core.cli import main, workplace
from nlp_core.cli.workplace import check_workplace
from nlp_core.errors import NlpCoreError
from nlp_core.files import write_json
from tests.tiny_group import describe_groups

FOUND = probe.Probe({"gelu": "0"}, "0")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose probe agrees, and a process that has ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REGLUE_MIRROR", raising=False)
    monkeypatch.setattr(probe, "run_probe", lambda: FOUND)
    write_json(Path("reports/probe.json"), {"digest": "0", "operations": {"gelu": "0"}})
    return tmp_path


@pytest.fixture(scope="module")
def dead() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def find(name: str) -> workplace.Check:
    return next(check for check in check_workplace(Path()) if check.name == name)


def leave_stale(dead: int) -> list[Path]:
    """Leave what kills leave, and return it."""
    paths = [
        Path(".dvc/tmp/rwlock"),
        Path(".snakemake/locks/0.input.lock"),
        Path(f"artifacts/cells/small/.one.part{dead}/seed-1/model.safetensors"),
        Path(f"results/.small.json.part{dead}"),
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"write": {"a"')
    return [*paths[:2], paths[2].parent.parent, paths[3]]


def test_what_is_stale_is_named_and_removed(dead: int, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    assert "`reglue doctor --mend`" not in capsys.readouterr().out
    stale = leave_stale(dead)
    kept = Path(f"results/.live.part{os.getpid()}")
    kept.write_text("")
    with pytest.raises(SystemExit) as caught:
        main(["doctor"])
    assert caught.value.code == 1
    shown = capsys.readouterr().out
    assert "DVC's lock: stale, .dvc/tmp/rwlock was cut by a kill." in shown
    assert "Snakemake's lock: stale, no Snakemake runs here." in shown
    assert "`reglue doctor --mend` mends what is stale." in shown
    assert all(path.exists() for path in stale)
    main(["doctor", "--mend"])
    shown = capsys.readouterr().out
    assert all(f"{path}: removed" in shown for path in stale)
    assert not any(path.exists() for path in stale)
    assert kept.exists()


@pytest.mark.parametrize(("answer", "is_left"), [("y", False), ("", True)])
def test_a_terminal_is_asked(
    dead: int, answer: str, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = leave_stale(dead)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    if is_left:
        with pytest.raises(SystemExit):
            main(["doctor"])
    else:
        main(["doctor"])
    assert all(path.exists() is is_left for path in stale)


@pytest.mark.parametrize(("words", "found"), [(["repro"], 1), (["daemon", "-q", "analytics"], 0)])
def test_what_sends_statistics_is_no_engine(project: Path, words: list[str], found: int) -> None:
    program = project / "dvc"
    program.write_text("import time; time.sleep(60)")
    process = subprocess.Popen([sys.executable, str(program), *words], cwd=project)
    try:
        assert len(workplace._list_engines(project)) == found
    finally:
        process.kill()
        process.wait()


def test_locks_of_running_engines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_stale(1)
    monkeypatch.setattr(workplace, "_list_engines", lambda _: ["snakemake (7)", "dvc (8)"])
    assert find("DVC's lock").found == "being written by snakemake (7), dvc (8)"
    assert find("Snakemake's lock").found == "held by snakemake (7)"
    holder = {"pid": os.getpid(), "cmd": "dvc repro"}
    write_json(Path(".dvc/tmp/rwlock"), {"read": {"a": [holder]}, "write": {"b": holder}})
    assert find("DVC's lock").found == f"held by {os.getpid()} (dvc repro)"
    monkeypatch.setattr(workplace, "_list_engines", lambda _: [])
    assert find("DVC's lock").state == "stale"


def test_other_libraries_a_full_disk_and_a_lost_mirror_are_warnings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("requirements.lock").write_text("numpy==0.0.1 \\\n    --hash=sha256:0\nno-such==1\n")
    monkeypatch.setenv("REGLUE_MIRROR", "nowhere")
    usage = namedtuple("usage", "free")(1 << 20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["checks"]
    texts = {item["name"]: item["found"] for item in found if item["state"] == "warning"}
    assert {*texts} == {"libraries", "disk", "mirror"}
    assert "instead of 0.0.1; install requirements.lock" in texts["libraries"]
    assert "found no folder nowhere" in texts["mirror"]


def test_a_cut_lock_of_dvc_is_an_error_that_names_the_doctor(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nlp_core.dag import find_stale

    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    Path("a.txt").write_text("a")
    stage = {"cmd": "cp a.txt b.txt", "deps": ["a.txt"], "outs": ["b.txt"]}
    Path("dvc.yaml").write_text(json.dumps({"stages": {"one": stage}}))
    lock = Path(".dvc/tmp/rwlock")
    lock.parent.mkdir(exist_ok=True)
    lock.write_text('{"wri')
    with pytest.raises(NlpCoreError, match="`reglue doctor --mend` mends"):
        find_stale(project)
    main(["doctor", "--mend"])
    assert find_stale(project) != {}


BETWEEN = 0.5
"""Stands for a cut exactly between two entries."""


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, BETWEEN, 0.7, 0.98])
def test_a_cut_record_of_dvc_is_restored(project: Path, share: float) -> None:
    from nlp_core.dag import find_stale

    subprocess.run(["git", "init", "-q", "."], check=True)
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "-q"], check=True)
    for name in "abcd":
        Path(f"{name}.txt").write_text("1")
    stages = {
        f"copy_{name}": {"cmd": f"cp {name}.txt {name}.out", "deps": [f"{name}.txt"]}
        | {"outs": [f"{name}.out"]}
        for name in "abcd"
    }
    Path("dvc.yaml").write_text(json.dumps({"stages": stages}))
    subprocess.run([*dvc, "repro", "-q"], check=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "Build"], check=True)
    Path("a.txt").write_text("2")
    subprocess.run([*dvc, "repro", "-q"], check=True)
    record = Path("dvc.lock")
    whole = record.read_bytes()
    assert find("DVC's record").found == "4 stages"
    size = whole.index(b"  copy_c:") if share == BETWEEN else int(share * len(whole))
    record.write_bytes(whole[:size])
    assert find("DVC's record").state == "stale"
    with suppress(NlpCoreError):  # DVC reads some cut records as if they were whole
        assert find_stale(project) != {}
    main(["doctor", "--mend"])
    is_kept = share >= 0.4  # the whole entry of the stage that ran again, the first
    assert find_stale(project).keys() == (set() if is_kept else {"copy_a"})
    assert record.read_bytes() == whole or not is_kept
    subprocess.run([*dvc, "repro", "-q"], check=True)
    assert record.read_bytes() == whole


def test_folders_of_cells_that_the_grid_lost_are_named(project: Path) -> None:
    assert find("cells").found == "none trained here"
    make_project(project)
    assert find("cells").found == "3 folders"
    for name in ("renamed", ".x.part7"):
        Path(f"artifacts/cells/trial/{name}").mkdir(parents=True)
    found = find("cells")
    assert (found.state, found.paths) == ("warning", ())
    assert found.found == "grid/ and groups lack artifacts/cells/trial/renamed; remove them"
    Path("artifacts/cells/trial/renamed").rmdir()
    params = yaml.safe_load(Path("params.yaml").read_text())
    groups = describe_groups({"pair": params["tasks"][:2]})
    Path("params.yaml").write_text(yaml.safe_dump(params | {"groups": groups}))
    for name in (*params["tasks"][:2], "former"):
        Path(f"data/processed/pair/{name}").mkdir(parents=True)
    found = find("cells")
    assert found.found == "grid/ and groups lack data/processed/pair/former; remove them"
    Path("params.yaml").write_text("numerics: one\n")
    assert "not checked: " in find("cells").found


def test_a_cut_record_that_was_never_committed_goes(project: Path) -> None:
    Path("dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  one:\n    cmd: cp a b\n    outs:\n    - pa"
    )
    main(["doctor", "--mend"])
    assert not Path("dvc.lock").exists()
    assert find("DVC's record").found == "nothing was built here"
