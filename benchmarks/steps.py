"""Training steps of a model, and timing several of them in turn on a busy machine."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import order_training_batches
from nlp_core.data.task import Task
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.training.loop import Trainer
from nlp_core.training.task_run import TaskRun


class Timing(NamedTuple):
    """Examples of some steps, seconds of processor time, and tokens without padding."""

    examples: int
    seconds: float
    tokens: int = 0

    @property
    def speed(self) -> float:
        return self.examples / self.seconds


Run = Callable[[int], Timing]
"""Takes a number of steps."""

MARK = "timing: "
"""Before a timing on the standard output, where a library may also print."""


def build_run(model: GraphModel, task: Task, train: EncodedSplit, recipe: RecipeConfig) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        runs = [TaskRun(task, model, {"train": train}, {})]
        checkpoint = Path(folder) / "none"
        trainer = Trainer(model, runs, recipe=recipe, seed=1, checkpoint=checkpoint)
    batches = cycle(
        order_training_batches(
            train.lengths,
            batch_size=recipe.batch_size,
            bucket_batches=recipe.bucket_batches,
            seed=1,
            epoch=1,
        )
    )

    def run(num_steps: int) -> Timing:
        rows = [next(batches) for _ in range(num_steps)]
        started = time.process_time()
        for item in rows:
            trainer.step(task.name, item)
        seconds = time.process_time() - started
        tokens = sum(int(train.lengths[item].sum()) for item in rows)
        return Timing(sum(map(len, rows)), seconds, tokens)

    return run


def serve(run: Run) -> None:
    """Answer each line of the standard input, a number of steps, with a timing of them."""
    for line in sys.stdin:
        print(MARK + json.dumps(run(int(line))), flush=True)


def start(*arguments: str) -> Run:
    """Return the run that `python ARGUMENTS` serves in a process, which ends with this one."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def run(num_steps: int) -> Timing:
        stdin.write(f"{num_steps}\n")
        stdin.flush()
        for line in stdout:
            if line.startswith(MARK):
                return Timing(*json.loads(line.removeprefix(MARK)))
        raise SystemExit(f"{' '.join(arguments)}: ended without a timing; see its error above")

    return run


def time_in_turn(
    runs: Mapping[str, Run], *, rounds: int, steps: int, warm_up: int = 3
) -> dict[str, list[Timing]]:
    """Return the timings of each run; each round has one of each, so that load slows all alike."""
    for run in runs.values():
        run(warm_up)
    found: dict[str, list[Timing]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run(steps))
    return found
