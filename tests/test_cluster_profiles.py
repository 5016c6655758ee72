"""What the workflow asks of a scheduler: resources, retries, and the submit script's commands."""

import os
import subprocess
from pathlib import Path

import pytest

from nlp_core.dag import Resources, load_stages
from nlp_core.errors import ConfigError
from tests.workflow_project import ROOT, make_stub_project

SUBMIT, STATUS = (ROOT / "profiles/lsf-pbs" / name for name in ("submit.sh", "status.sh"))
KILLED_ONCE = """case $script in *finetune*) [ -e ../once ] || {
  touch ../once; echo 271 >../$$.done; echo $$; exit; } ;; esac"""
"""Part of a stand-in for qsub: the first training is killed, so its script writes no mark."""


def test_every_stage_states_its_resources() -> None:
    found = {stage.name: stage.resources for stage in load_stages(ROOT)}
    assert found["report@sample"] == Resources(memory_mb=4000, minutes=10)
    trained = [name for name in found if name.startswith(("finetune", "pretrain", "teach"))]
    assert {name for name, resources in found.items() if resources.gpu} == set(trained)


def test_retry_asks_for_more_memory() -> None:
    resources = Resources(memory_mb=100, minutes=1)
    assert [resources.count_memory(None, attempt) for attempt in (1, 2, 3)] == [100, 200, 300]


def test_stage_without_memory_is_an_error(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    path = project.root / "dvc.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("memory_mb:", "megabytes:"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"stages\.preprocess@words\.meta: found .*megabytes"):
        load_stages(project.root)


@pytest.mark.parametrize(
    ("program", "gpus", "expected"),
    [
        ("bsub", 0, "-J finetune__cnn -n 1 -M 8000MB -R rusage[mem=8000MB] span[hosts=1] -W 90"),
        ("bsub", 1, "-W 90 -gpu num=1"),
        ("qsub", 0, "-N finetune__cnn -l select=1:ncpus=1:mem=8000mb -l walltime=01:30:00"),
        ("qsub", 1, "-l select=1:ncpus=1:mem=8000mb:ngpus=1"),
    ],
)
def test_submit_script_asks_the_scheduler_and_prints_the_job(
    tmp_path: Path, program: str, gpus: int, expected: str
) -> None:
    add_program(tmp_path, program, 'echo "$@" >asked; echo "Job <123> is submitted"')
    (tmp_path / "job.sh").write_text("true\n", encoding="utf-8")
    job = ("finetune__cnn", "1", "8000", "90", str(gpus), "job.sh")
    done = submit(tmp_path, *job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("123" if program == "bsub" else "Job <123> is submitted")
    assert expected in (tmp_path / "asked").read_text(encoding="utf-8")


def test_submit_script_without_a_scheduler_is_an_error(tmp_path: Path) -> None:
    done = submit(tmp_path, "report__glue", "1", "4000", "10", "0", "job.sh")
    assert done.returncode == 2
    assert "neither bsub (LSF) nor qsub (PBS)" in done.stderr


@pytest.mark.parametrize("program", ["bsub", "qsub"])
def test_a_scheduler_that_takes_no_job_fails(tmp_path: Path, program: str) -> None:
    add_program(tmp_path, program, "echo closed >&2; exit 255")
    (tmp_path / "job.sh").write_text("true\n", encoding="utf-8")
    done = submit(tmp_path, "report__glue", "1", "4000", "10", "0", "job.sh")
    assert (done.returncode, done.stdout, done.stderr) == (255, "", "closed\n")


@pytest.mark.parametrize(
    ("program", "answer", "expected"),
    [
        ("bjobs", "PEND", "running"),
        ("bjobs", "DONE", "success"),
        ("bjobs", "EXIT", "failed"),
        ("bjobs", "Job <7> is not found", "success"),
        ("bjobs", "LSF is down. Please wait ...", "running"),
        ("qstat", "    job_state = R", "running"),
        ("qstat", "    job_state = F\n    Exit_status = 0", "success"),
        ("qstat", "    job_state = F\n    Exit_status = 271", "failed"),
        ("qstat", "qstat: Unknown Job Id 7.pbs", "success"),
        ("qstat", "Connection refused", "running"),
    ],
)
def test_status_script_says_what_became_of_a_job(
    tmp_path: Path, program: str, answer: str, expected: str
) -> None:
    add_program(tmp_path, program, f"printf '%s\n' '{answer}' >&2; exit 1")
    done = call(tmp_path, STATUS, "7")
    assert (done.returncode, done.stdout) == (0, f"{expected}\n")


@pytest.mark.slow
def test_generic_profile_builds_what_dvc_builds(tmp_path: Path) -> None:
    for name in ("dvc", "pbs"):
        (tmp_path / name).mkdir()
    by_dvc, project = (make_stub_project(tmp_path / name) for name in ("dvc", "pbs"))
    assert len(by_dvc.build("dvc", "repro")) == 9
    run = '(sh "$script" >/dev/null 2>&1; echo $? >../$$.done) & echo $$'
    add_program(tmp_path, "qsub", f"for script; do :; done\n{KILLED_ONCE}\n{run}")
    state = 'if [ -e ../$3.done ]; then echo "job_state = F Exit_status = $(cat ../$3.done)"; fi'
    add_program(tmp_path, "qstat", state)
    done = subprocess.run(
        ("snakemake", "--profile", "profiles/lsf-pbs"),
        cwd=project.root,
        env=put_first(tmp_path, project.environment),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "once").exists()
    assert project.digest_outputs() == by_dvc.digest_outputs()


def add_program(folder: Path, name: str, line: str) -> None:
    """Write a stand-in for a scheduler's command."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def put_first(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    return environment | {"PATH": f"{folder}{os.pathsep}{environment['PATH']}"}


def submit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call(folder, SUBMIT, *arguments)


def call(folder: Path, script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    return subprocess.run(
        (str(script), *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
