"""Kill an engine that runs several jobs: `python benchmarks/faults/interrupted_engines.py`.

Snakemake builds the tables of a small project with four jobs at once. It is killed at random
moments, with its jobs or without them (they then run on), and started again as docs/workflow.md
says. At the end every file must have the bytes of an undisturbed run. Prints what failed; exit
code 1 if anything did.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.faults.small_project import ROOT, digest_outputs, write_small_project
from tests.workflow_project import Project, copy_workflow

JOBS = 4
SECONDS = 600
TARGETS = ["reports/small.md", "reports/pretrain.md", "artifacts/cells/bundles/shipped"]
ENGINE = ["snakemake", "--cores", str(JOBS), *TARGETS]
UNLOCK = ["snakemake", "--unlock", "--cores", "1"]
MEND = ["reglue", "doctor", "--mend"]


def write_workflow(root: Path) -> Project:
    """Let the engines build the small project."""
    project = copy_workflow(root)
    path = root / "dvc.yaml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    sections = {"small": "experiments,ensembles", "pretrain": "encoders", "bundles": "exports"}
    listed = [f"grid/{table}.yaml:{section}" for table, section in sections.items()]
    workflow["vars"] = [{"tables": [*sections]}, *listed]
    path.write_text(yaml.safe_dump(workflow, sort_keys=False))
    return project


class Trial(NamedTuple):
    """A run of the engine that was killed some times.

    Attributes:
        fault: what went wrong; empty if nothing did.
    """

    what: str
    fault: str


def try_engine(folder: Path, *, trials: int, kills: int, seed: int) -> Iterator[Trial]:
    """Yield trials, in each of which the engine is killed some times and then runs to its end."""
    before, whole = folder / "before", folder / "whole"
    write_small_project(before)
    write_workflow(before)
    shutil.copytree(before, whole)
    begun = time.monotonic()
    fault = _finish(Project(whole))
    assert not fault, fault
    duration, expected = time.monotonic() - begun, digest_outputs(whole)
    draw = random.Random(seed)
    for _ in range(trials):
        project = Project(folder / "trial")
        shutil.copytree(before, project.root)
        done = [_kill(project, draw, duration) for _ in range(kills)]
        yield Trial(f"killed {', '.join(done)}", _finish(project) or _compare(project, expected))
        shutil.rmtree(project.root)


def _kill(project: Project, draw: random.Random, duration: float) -> str:
    """Start the engine and kill it after a random time; return when, and how much of it."""
    moment, has_jobs = draw.uniform(0.1, 0.7) * duration, draw.random() < 0.5
    process = subprocess.Popen(
        ENGINE,
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        kill, target = (os.killpg, process.pid) if has_jobs else (os.kill, process.pid)
        kill(target, signal.SIGKILL)
        process.communicate()
    _wait_for_jobs(process.pid)
    project.run(*UNLOCK)
    return f"after {moment:.0f} s {'with its jobs' if has_jobs else 'alone'}"


def _wait_for_jobs(group: int) -> None:
    """Wait until no job of a killed engine runs: docs/workflow.md asks for that."""
    for _ in range(SECONDS):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(1)
    raise AssertionError(f"jobs of the group {group} still run")


def _finish(project: Project) -> str:
    """Run the engine to its end; return what is wrong with how it ended."""
    project.run(*MEND)
    done = project.run(*ENGINE, timeout=SECONDS)
    output = (done.stdout + done.stderr)[-3000:]
    return "" if done.returncode == 0 else f"it could not be run again: {output}"


def _compare(project: Project, expected: dict[str, str]) -> str:
    found = digest_outputs(project.root)
    names = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    return f"other bytes in {', '.join(names[:5])}" if names else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--kills", type=int, default=2, help="of each trial, before its end")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }  # which the project's commands get
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        found = try_engine(
            Path(folder), trials=options.trials, kills=options.kills, seed=options.seed
        )
        for trial in found:
            faults += bool(trial.fault)
            print(f"{trial.what}: {trial.fault or 'same bytes'}", flush=True)
    print(f"{options.trials} trials of {options.kills} kills, {faults} faults")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
