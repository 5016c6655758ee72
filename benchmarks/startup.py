"""Time a cell from the start of its process to its first batch: `python benchmarks/startup.py`.

Needs the processed sample data (`make demo`) and changes nothing in the project. A first start,
which may compile modules, is not counted. The bar is 1.5 s.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BAR_SECONDS = 1.5
MARK = "first batch"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell", nargs="?", default="sample_sentence_bilstm")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    _, *seconds = [measure(arguments.cell) for _ in range(arguments.runs + 1)]
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    print(f"{arguments.cell}: {shown} s from start to {MARK} (bar: {BAR_SECONDS} s)")


def measure(cell: str) -> float:
    """Return the seconds from the start of a cell's process to its first batch."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copy2(ROOT / "params.yaml", root)
        shutil.copytree(ROOT / "grid", root / "grid")
        for name in ["zoo", "sources", "stages", "nlp_core"]:
            (root / name).symlink_to(ROOT / name)
        (root / "data").symlink_to(ROOT / "data")
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "stages.finetune", cell],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            return wait_for_mark(process, started)
        finally:
            process.kill()
            process.wait()


def wait_for_mark(process: subprocess.Popen[str], started: float) -> float:
    """Read the process's log up to the mark; SystemExit with the log if it never comes."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        if MARK in line:
            return time.perf_counter() - started
        lines.append(line)
    raise SystemExit(f"no line with '{MARK}'; is the sample data made (`make demo`)?\n{lines}")


if __name__ == "__main__":
    main()
