"""What vendor-independent arithmetic costs: training with it and with torch's own kernels (MKL).

    python benchmarks/arithmetic_cost.py [CELL ...] [--rounds N] [--steps N]

Two processes train the same cell in turn, one thread each. Prints medians over the rounds:
sentences per second of processor time, and the ratio.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CELLS = ["ccnn_wlstm_crf", "bilstm_matchattn", "sst2_minilm"]


def serve(name: str, *, installed: bool) -> None:
    """Make as many steps as each line of the standard input says, and print the speed."""
    from nlp_core import arithmetic

    if not installed:
        arithmetic.install = lambda: None  # before a block is imported, which calls it
    from steps import build_run

    from nlp_core.config.params import read_params
    from nlp_core.training.cell import read_cell
    from nlp_core.training.determinism import seed_everything
    from nlp_core.training.run import prepare_tasks

    cell = read_cell(name, read_params(Path("params.yaml")))
    seed_everything(1)
    model, _, (task,) = prepare_tasks(cell)
    run = build_run(model, cell.task, task.train, cell.recipe)
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(int(line)).speed, flush=True)


def start(name: str, way: str) -> Callable[[int], float]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", way, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    assert stdout.readline() == "ready\n", f"{name}: the training did not start"

    def ask(count: int) -> float:
        stdin.write(f"{count}\n")
        stdin.flush()
        return float(stdout.readline())

    return ask


def compare(name: str, rounds: int, steps: int) -> None:
    """Train a cell both ways in turn and print the speeds; the processes end with this one."""
    ways = {way: start(name, way) for way in ("torch", "ours")}
    for ask in ways.values():
        ask(3)
    found = [[ask(steps) for ask in ways.values()] for _ in range(rounds)]
    torch_speed, own_speed = (statistics.median(column) for column in zip(*found, strict=True))
    ratios = [ours / torch for torch, ours in found]
    print(
        f"{name:20} torch {torch_speed:7.0f}  ours {own_speed:7.0f}"
        f"  ratio {statistics.median(ratios):.3f}"
        f"  ({min(ratios):.3f} to {max(ratios):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--serve", choices=["torch", "ours"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.cells[0], installed=options.serve == "ours")
        return
    for name in options.cells:
        compare(name, options.rounds, options.steps)


if __name__ == "__main__":
    main()
