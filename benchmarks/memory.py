"""Measure the peak memory of each stage: `python benchmarks/memory.py [STAGE@NAME ...]`.

Runs the commands of dvc.yaml without DVC, in a copy of the project; by default the stages of the
sample table in their order.
"""

import argparse
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nlp_core import dag

ROOT = Path(__file__).resolve().parent.parent
COPIED = ["params.yaml", "grid", "sources", "zoo", "stages", "nlp_core", "reports", "results"]
KIB_A_MIB = 1024


class Cost(NamedTuple):
    name: str
    peak_mib: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE@NAME")
    names = parser.parse_args().stages
    stages = dag.load_stages(ROOT)
    chosen = [s for s in stages if s.name in names or (not names and "sample" in s.name)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy_project(root)
        print(f"{'stage':<40} {'peak MiB':>9} {'s':>7}")
        for stage in chosen:
            cost = measure(stage, root)
            print(f"{cost.name:<40} {cost.peak_mib:9.0f} {cost.seconds:7.1f}", flush=True)


def copy_project(root: Path) -> None:
    for name in [*COPIED, "data", "artifacts/cells"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name)
        elif source.exists():
            shutil.copy2(source, root / name)


def measure(stage: dag.Stage, root: Path) -> Cost:
    """Run a stage as the only child of a process, and return its peak and its seconds."""
    started = time.perf_counter()
    watcher = [sys.executable, __file__, "--watch", *shlex.split(stage.command)]
    done = subprocess.run(watcher, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{stage.name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return Cost(stage.name, int(done.stdout.split()[-1]) / KIB_A_MIB, time.perf_counter() - started)


def watch(command: list[str]) -> None:
    """Run a command and print its peak resident memory in KiB as the last word."""
    done = subprocess.run([sys.executable, *command[1:]], check=False)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        watch(sys.argv[2:])
    main()
