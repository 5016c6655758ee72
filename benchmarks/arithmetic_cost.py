"""What vendor-independent arithmetic costs: training with it and with torch's own kernels (MKL).

    python benchmarks/arithmetic_cost.py [CELL ...] [--rounds N] [--steps N]

Two processes train the same cell in turn, one thread each. Prints medians over the rounds:
sentences per second of processor time, and the ratio.
"""

import argparse
import statistics
from pathlib import Path

from steps import Run, build_run, serve, start, time_in_turn

from nlp_core import arithmetic
from nlp_core.config.params import read_params
from nlp_core.training.cell import read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks

CELLS = ["ccnn_wlstm_crf", "bilstm_matchattn", "sst2_minilm"]


def build(name: str, *, installed: bool) -> Run:
    """Return the training of a cell, with our arithmetic or torch's."""
    if not installed:
        arithmetic.install = lambda: None  # type: ignore[assignment]
    cell = read_cell(name, read_params(Path("params.yaml")))
    seed_everything(1)
    model, _, (task,) = prepare_tasks(cell)
    return build_run(model, cell.task, task.train, cell.recipe)


def compare(name: str, rounds: int, steps: int) -> None:
    """Train a cell both ways in turn and print the speeds."""
    runs = {way: start(__file__, "--serve", way, name) for way in ("torch", "ours")}
    found = time_in_turn(runs, rounds=rounds, steps=steps)
    speeds = {way: [timing.speed for timing in timings] for way, timings in found.items()}
    ratios = [ours / torch for torch, ours in zip(*speeds.values(), strict=True)]
    print(
        f"{name:20} torch {statistics.median(speeds['torch']):7.0f}"
        f"  ours {statistics.median(speeds['ours']):7.0f}"
        f"  ratio {statistics.median(ratios):.3f}  ({min(ratios):.3f} to {max(ratios):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--serve", choices=["torch", "ours"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(build(options.cells[0], installed=options.serve == "ours"))
        return
    for name in options.cells:
        compare(name, options.rounds, options.steps)


if __name__ == "__main__":
    main()
