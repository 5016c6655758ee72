"""Kill every stage, and fill its disk: `python benchmarks/faults/interrupted_stages.py`.

Each stage of a small project runs undisturbed; then it is killed at random moments, or may write no
file beyond a size, as on a full disk. A full disk must give one paragraph and exit code 2, and the
same command again must end with the bytes of the undisturbed run. Prints what failed; exit code 1
if anything did.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.faults.small_project import (
    SECONDS,
    STAGES,
    Stage,
    digest_outputs,
    finish,
    start,
    write_small_project,
)

SHARES = (0.0, 0.3, 0.9)
"""Sizes at which files are cut, as shares of the largest file that the stage writes."""
EXIT_ERROR = 2


class Trial(NamedTuple):
    """A stage that was disturbed once.

    Attributes:
        fault: what went wrong; empty if nothing did.
    """

    stage: Stage
    what: str
    fault: str


def try_stages(folder: Path, *, kills: int, seed: int, only: str = "") -> Iterator[Trial]:
    """Yield the trials of each stage with `only` in its name; the others run undisturbed."""
    whole, before = folder / "whole", folder / "before"
    write_small_project(whole)
    last = max(idx for idx, stage in enumerate(STAGES) if only in stage.name)
    for stage in STAGES[: last + 1]:
        shutil.copytree(whole, before)
        begun = time.monotonic()
        finish(stage, whole)
        duration = time.monotonic() - begun
        if only in stage.name:
            yield from _disturb(stage, before, whole, duration, kills=kills, seed=seed)
        shutil.rmtree(before)


def _disturb(
    stage: Stage, before: Path, whole: Path, duration: float, *, kills: int, seed: int
) -> Iterator[Trial]:
    expected, old = digest_outputs(whole), digest_outputs(before)
    largest = max((whole / name).stat().st_size for name in expected.keys() - old.keys())
    draw = random.Random(f"{seed} {stage}")
    for _ in range(kills):
        moment = draw.uniform(0.2, 1.0) * duration
        trial = before.with_name("trial")
        shutil.copytree(before, trial)
        _kill(stage, trial, moment)
        yield Trial(stage, f"killed after {moment:.1f} s", _compare(stage, trial, expected))
    for share in SHARES:
        trial = before.with_name("trial")
        shutil.copytree(before, trial)
        size = max(64, int(share * largest))
        fault = _fill(stage, trial, size)
        again = _compare(stage, trial, expected)
        yield Trial(stage, f"files of at most {size} bytes", fault or again)


def _kill(stage: Stage, root: Path, moment: float) -> None:
    """Start a stage and kill its group; it may have ended before."""
    process = start(stage, root)
    try:
        process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _fill(stage: Stage, root: Path, size: int) -> str:
    """Run a stage that cannot write larger files; return what is wrong with how it ended."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
    process = start(stage, root, preexec_fn=limit)
    _, errors = process.communicate(timeout=SECONDS)
    if "Traceback" in errors:
        return f"a traceback: {errors[-1500:]}"
    if process.returncode not in (0, EXIT_ERROR):
        return f"exit code {process.returncode}: {errors[-1500:]}"
    return ""


def _compare(stage: Stage, trial: Path, expected: dict[str, str]) -> str:
    """Run a stage to its end and remove the project; return what differs."""
    try:
        finish(stage, trial)
    except AssertionError as error:
        return f"it could not be run again: {error}"
    found = digest_outputs(trial)
    shutil.rmtree(trial)
    names = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    return f"other bytes in {', '.join(names[:5])}" if names else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=2, help="of each stage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="stages whose names contain this")
    options = parser.parse_args()
    faults = trials = 0
    with tempfile.TemporaryDirectory() as folder:
        found = try_stages(Path(folder), kills=options.kills, seed=options.seed, only=options.only)
        for trial in found:
            trials += 1
            faults += bool(trial.fault)
            name = f"{trial.stage.name} {trial.stage.key}"
            print(f"{name:28} {trial.what:28} {trial.fault or 'same bytes'}", flush=True)
            shutil.rmtree(Path(folder) / "trial", ignore_errors=True)
    print(f"{trials} trials, {faults} faults")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
