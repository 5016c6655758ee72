"""Time of an adversarial step relative to a plain one, on a cell of the grid.

    python benchmarks/adversarial_overhead.py [CELL] [--rounds N] [--steps N]

The same batches train two copies of the cell's model in turn, one thread. Prints medians over the
rounds: milliseconds of processor time per step, and the ratio of each pair. The bar for SMART with
one step of ascent is 2.2.

A backward pass costs about two forward ones, half of that for the weights. SMART with one step of
ascent has three forward passes, two whole backward ones and one without the weights, so if nothing
else costs anything the ratio is (3 + 4 + 1) / 3 = 2.7; torch's LSTM on a CPU has no backward pass
without the weights, so there it is 3.0. Other work of a step (optimizer, averaged weights, large
word tables) is done once and reduces the ratio. With `every: 2`, half of the steps are plain: (3 +
8) / 2 / 3 = 1.8.
"""

import argparse
import statistics
from pathlib import Path

from steps import Run, build_run, time_in_turn

from nlp_core.config.params import read_params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import seed_everything

BAR = 2.2
BALL = {"step_size": 0.1, "epsilon": 0.1, "norm": "l2", "level": "token"}
SMART = {**BALL, "name": "smart", "weight": 1.0, "noise_std": 1.0e-5, "divergence": "symmetric_kl"}
PROXIMAL = {"weight": 1.0, "early_momentum": 0.99, "momentum": 0.999, "early_share": 0.1}
METHODS: dict[str, dict[str, object]] = {
    "smart, K=1": {**SMART, "steps": 1},
    "smart, K=1, every 2nd": {**SMART, "steps": 1, "every": 2},
    "smart, K=1, proximal": {**SMART, "steps": 1, "proximal": PROXIMAL},
    "smart, K=3": {**SMART, "steps": 3},
    "vat, K=1": {
        "name": "vat", "weight": 1.0, "steps": 1, "probe": 0.1, "epsilon": 1.0, "level": "sentence",
    },
    "freelb, K=3": {**BALL, "name": "freelb", "steps": 3},
    "fgm": {"name": "fgm", "weight": 1.0, "epsilon": 1.0, "level": "sentence"},
}  # fmt: skip


def build(cell: Cell, featurizer: Featurizer, train: EncodedSplit, method: object) -> Run:
    seed_everything(1)
    values = {**cell.recipe.model_dump(mode="json"), "adversarial": method}
    model = build_model(cell.plan, featurizer, kind=cell.task.kind)
    return build_run(model, cell.task, train, RecipeConfig.model_validate(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", nargs="?", default="sst2_bilstm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    cell = read_cell(options.cell, read_params(Path("params.yaml")))
    split = cell.task.read_split("train")
    featurizer = Featurizer.build(cell.plan, cell.task, split, cell.init)
    train = featurizer.encode(split)
    print(f"{cell.name}: ms per step, medians of {options.rounds} rounds, one thread (bar: {BAR})")
    print(f"{'':22}{'plain':>8}{'method':>8}{'ratio':>8}")
    for name in options.methods:
        methods = {"plain": None, "method": METHODS[name]}
        runs = {key: build(cell, featurizer, train, method) for key, method in methods.items()}
        found = time_in_turn(runs, rounds=options.rounds, steps=options.steps)
        plain, method = ([item.seconds for item in found[key]] for key in runs)
        first, second = (1000 * statistics.median(item) / options.steps for item in (plain, method))
        ratio = statistics.median(b / a for a, b in zip(plain, method, strict=True))
        print(f"{name:22}{first:8.1f}{second:8.1f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
