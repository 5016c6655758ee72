"""Several trainings of one model: the folds of a cross-validation, or seeds."""

import argparse
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from nlp_core.cli.output import open_console
from nlp_core.config.base import LAST_SEED
from nlp_core.data.task import Task
from nlp_core.data.user_task import Cut
from nlp_core.errors import UsageError
from nlp_core.files import write_json
from nlp_core.metrics import Predictions, measure
from nlp_core.prediction.trained_folder import PREDICTIONS
from nlp_core.report.cell import read_predictions
from nlp_core.statistics import build_score, resample
from nlp_core.training.processes import is_launched
from nlp_core.training.user_run import UserRun

MOST = 100
Make = Callable[[Path, int, Cut], UserRun]
"""Return a run into a folder, with a seed and how rows are held out."""
Train = Callable[[UserRun], object]


class Summary(NamedTuple):
    """A metric over folds or seeds; `low` and `high` bound a 95 % interval, if it has one."""

    mean: float
    low: float | None
    high: float | None
    values: list[float]


def check_repetition(options: argparse.Namespace) -> None:
    """Raise UsageError for numbers out of range, or options that exclude each other."""
    folds, seeds = options.folds, options.seeds
    for name, number in (("--folds", folds), ("--seeds", seeds)):
        if number is not None and not 2 <= number <= MOST:
            raise UsageError(f"{name}: found {number}, expected 2 to {MOST}.")
        if number is not None and options.time_limit is not None:
            raise UsageError(
                f"train: found {name} and --time-limit, expected one of them: only a single "
                "training can be resumed by the same command."
            )
        if number is not None and is_launched():
            raise UsageError(
                f"train: found {name} in processes that something else launched, where only the "
                "first would repeat the training; start the command without `accelerate launch`."
            )
    if seeds is not None and options.seed + seeds - 1 > LAST_SEED:
        raise UsageError(
            f"--seeds: found {seeds} from --seed {options.seed} on, expected none above "
            f"{LAST_SEED}; give a smaller --seed."
        )
    if folds is not None and (seeds is not None or options.test is not None):
        other = "--test" if seeds is None else "--seeds"
        raise UsageError(
            f"train: found --folds and {other}, expected one of them: each fold is measured on the "
            "rows that it leaves out."
        )


def make_folds(make: Make, output: Path, seed: int, folds: int) -> list[UserRun]:
    """Return the run of each fold of a cross-validation.

    Raises:
        UsageError: rows of that kind have no folds.
        DataError: there are too few rows.
    """
    work = output.with_name(f"{output.name}.folds")
    return [
        make(work / f"fold-{number}", seed, Cut(seed, number, folds)) for number in range(folds)
    ]


def cross_validate(train: Train, runs: Sequence[UserRun], output: Path) -> dict[str, Summary]:
    """Train a model for each fold and measure it on the fold; all rows are measured once.

    The interval is that of the predictions of all rows.
    """
    parts = []
    for run in runs:
        train(run)
        parts.append(_read(run, "test"))
    _remove(runs)
    return _summarise(runs[0].task, parts, [_pool(parts)], output / "folds.json")


def repeat_seeds(make: Make, train: Train, first: UserRun, seeds: int) -> dict[str, Summary]:
    """Train further seeds after the first, which is kept, and measure all on the same rows."""
    work = first.output.with_name(f"{first.output.name}.seeds")
    split = first.task.report_split
    parts, runs = [_read(first, split)], []
    for number in range(first.seed + 1, first.seed + seeds):
        run = make(work / f"seed-{number}", number, Cut(first.seed))
        train(run)
        runs.append(run)
        parts.append(_read(run, split))
    _remove(runs)
    return _summarise(first.task, parts, parts, first.output / "seeds.json")


def _remove(runs: Sequence[UserRun]) -> None:
    """Remove the folders of the runs, and the one they are in if nothing else is there."""
    for run in runs:
        shutil.rmtree(run.output)
    with suppress(OSError):
        runs[0].output.parent.rmdir()


def _read(run: UserRun, split: str) -> Predictions:
    found = read_predictions(run.output / PREDICTIONS, run.task, "")
    return next(item.predictions for item in found if item.split == split)


def _pool(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of all folds as those of one split."""
    scores = [part.score for part in parts if part.score is not None]
    groups, shift = [], 0
    for part in parts:
        if part.group is not None:
            groups.append(part.group + shift)
            shift = int(groups[-1].max()) + 1
    return Predictions(
        labels=parts[0].labels,
        target=[item for part in parts for item in part.target],
        prediction=[item for part in parts for item in part.prediction],
        score=np.concatenate(scores) if scores else None,
        group=np.concatenate(groups) if groups else None,
        scheme=parts[0].scheme,
    )


def _summarise(
    task: Task, parts: Sequence[Predictions], runs: Sequence[Predictions], path: Path
) -> dict[str, Summary]:
    """Measure each part, with intervals that are those of the runs, and write what was found."""
    kind, found = task.kind.name, dict[str, Summary]()
    for name in task.metrics:
        values = [measure(kind, [name], part)[name] for part in parts]
        score = build_score(kind, name, runs)
        interval = None if score is None else resample(score).interval
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        found[name] = Summary(float(np.mean(values)), low, high, values)
    write_json(path, {name: item._asdict() for name, item in found.items()})
    return found


def show_summaries(title: str, found: dict[str, Summary]) -> None:
    table = Table(title, "mean", "95 % interval", "each", box=None)
    for name, item in found.items():
        bounds = "" if item.low is None else f"{item.low:.2f} to {item.high:.2f}"
        table.add_row(name, f"{item.mean:.2f}", bounds, " ".join(f"{v:.2f}" for v in item.values))
    open_console().print(table)
