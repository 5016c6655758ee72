"""Time of an adversarial step beside a plain one, on a cell of the grid.

    python benchmarks/adversarial_overhead.py [CELL] [--rounds N] [--steps N]

The same batches train two copies of the cell's model, one thread, in turn within one process, so
that a busy machine slows both; printed are medians over the rounds, of milliseconds of processor
time a step and of the ratio of each pair. The bar for SMART with one step of ascent is 2.2.

A backward pass costs about two forward ones, half of that for the weights. SMART with one step of
ascent makes three forward passes, two whole backward ones and one without the weights, so where
nothing but these costs anything the ratio is (3 + 4 + 1) / 3 = 2.7; torch's LSTM has on a CPU no
backward pass without the weights, which makes it 3.0. What a step does beside its passes
(optimiser, averaged weights, large word tables) is done once and brings the ratio down. With
`every: 2`, half of the steps are plain: (3 + 8) / 2 / 3 = 1.8.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import order_training_batches
from nlp_core.models.features import EncodedSplit, Featurizer
from nlp_core.models.graph import build_model
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.task_run import TaskRun

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


def build_run(cell: Cell, featurizer: Featurizer, train: EncodedSplit, method: object) -> Callable:
    """Return a function that makes a number of steps on the batches of one epoch."""
    seed_everything(1)
    values = {**cell.recipe.model_dump(mode="json"), "adversarial": method}
    recipe = RecipeConfig.model_validate(values)
    with tempfile.TemporaryDirectory() as folder:
        model = build_model(cell.plan, featurizer, kind=cell.task.kind)
        trainer = Trainer(
            model,
            [TaskRun(cell.task, model, {"train": train}, {})],
            recipe=recipe,
            seed=1,
            checkpoint=Path(folder) / "none",
        )
    batches = cycle(
        order_training_batches(
            train.lengths,
            batch_size=recipe.batch_size,
            bucket_batches=recipe.bucket_batches,
            seed=1,
            epoch=1,
        )
    )

    def run(num_steps: int) -> float:
        """Return milliseconds of processor time a step."""
        started = time.process_time()
        for _ in range(num_steps):
            trainer.step(cell.task.name, next(batches))
        return 1000 * (time.process_time() - started) / num_steps

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", nargs="?", default="sst2_bilstm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments = parser.parse_args()
    cell = read_cell(arguments.cell, read_params(Path("params.yaml")))
    split = cell.task.read_split("train")
    featurizer = Featurizer.build(cell.plan, cell.task, split, cell.init)
    train = featurizer.encode(split)
    print(f"{cell.name}: ms a step, medians of {arguments.rounds} rounds, one thread (bar: {BAR})")
    print(f"{'':22}{'plain':>8}{'method':>8}{'ratio':>8}")
    for name in arguments.methods:
        plain = build_run(cell, featurizer, train, None)
        method = build_run(cell, featurizer, train, METHODS[name])
        plain(3)
        method(3)
        pairs = [(plain(arguments.steps), method(arguments.steps)) for _ in range(arguments.rounds)]
        first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(after / before for before, after in pairs)
        print(f"{name:22}{first:8.1f}{second:8.1f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
