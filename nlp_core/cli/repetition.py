"""Several trainings of one model: the folds of a cross-validation, or seeds."""

import argparse
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from nlp_core.cli.output import open_console
from nlp_core.config.base import LAST_SEED, read_mapping
from nlp_core.data.task import Task
from nlp_core.data.user_task import Cut
from nlp_core.errors import UsageError
from nlp_core.files import write_json
from nlp_core.metrics import Predictions, measure
from nlp_core.prediction.trained_folder import PREDICTIONS, RUN
from nlp_core.report.cell import read_predictions
from nlp_core.statistics import Resamples, build_score, resample
from nlp_core.training.processes import is_launched
from nlp_core.training.user_run import UserRun

log = logging.getLogger(__name__)

MOST = 100
Make = Callable[[Path, int, Cut], UserRun]
"""Return a run into a folder, with a seed and how rows are held out."""
Train = Callable[[UserRun], object]
Draw = Callable[[str, str, Sequence[Predictions]], Resamples | None]
"""Return resamples of the mean of a kind's metric over parts; None if it has none."""


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


def make_seeds(make: Make, output: Path, seed: int, seeds: int) -> list[UserRun]:
    """Return the runs of further seeds, which hold out the same rows as the first."""
    work = output.with_name(f"{output.name}.seeds")
    return [
        make(work / f"seed-{number}", number, Cut(seed)) for number in range(seed + 1, seed + seeds)
    ]


def train_parts(train: Train, runs: Sequence[UserRun]) -> None:
    """Train the runs but those that an interrupted command has finished."""
    for run in runs:
        note = run.output / RUN
        if note.is_file() and read_mapping(note).get("key") == run.key:
            log.info("train %s is trained already", run.output)
        else:
            train(run)


def summarise_folds(runs: Sequence[UserRun], output: Path) -> dict[str, Summary]:
    """Measure each fold's model on the fold, and remove the models.

    The interval is that of the mean over the folds, whose rows are drawn in each fold.
    """
    parts = [_read(run, "test") for run in runs]
    _remove(runs)
    return _summarise(runs[0].task, parts, _resample_folds, output / "folds.json")


def summarise_seeds(first: UserRun, runs: Sequence[UserRun]) -> dict[str, Summary]:
    """Measure all seeds on the same rows, and remove the models of all but the first."""
    split = first.task.report_split
    parts = [_read(run, split) for run in (first, *runs)]
    _remove(runs)
    return _summarise(first.task, parts, _resample_seeds, first.output / "seeds.json")


def _remove(runs: Sequence[UserRun]) -> None:
    """Remove the folders of the runs, and the one they are in if nothing else is there."""
    for run in runs:
        shutil.rmtree(run.output)
    with suppress(OSError):
        runs[0].output.parent.rmdir()


def _read(run: UserRun, split: str) -> Predictions:
    found = read_predictions(run.output / PREDICTIONS, run.task, "")
    return next(item.predictions for item in found if item.split == split)


def _resample_seeds(kind: str, metric: str, parts: Sequence[Predictions]) -> Resamples | None:
    score = build_score(kind, metric, parts)
    return None if score is None else resample(score)


def _resample_folds(kind: str, metric: str, parts: Sequence[Predictions]) -> Resamples | None:
    """Return the mean over folds, whose rows are drawn independently of those of other folds."""
    scores = [score for part in parts if (score := build_score(kind, metric, [part])) is not None]
    if len(scores) < len(parts):
        return None
    drawn = [resample(score, seed=seed) for seed, score in enumerate(scores, start=1)]
    return Resamples(
        mean=float(np.mean([fold.mean for fold in drawn])),
        rounds=np.mean([fold.rounds for fold in drawn], axis=0),
        seed_variance=0.0,
        num_seeds=1,
        num_units=sum(fold.num_units for fold in drawn),
        bounds=drawn[0].bounds,
    )


def _summarise(
    task: Task, parts: Sequence[Predictions], draw: Draw, path: Path
) -> dict[str, Summary]:
    """Measure each part and the interval of their mean, and write what was found."""
    kind, found = task.kind.name, dict[str, Summary]()
    for name in task.metrics:
        values = [measure(kind, [name], part)[name] for part in parts]
        drawn = draw(kind, name, parts)
        low, high = (None, None) if drawn is None else drawn.interval
        found[name] = Summary(float(np.mean(values)), low, high, values)
    write_json(path, {name: item._asdict() for name, item in found.items()})
    return found


def show_summaries(title: str, found: dict[str, Summary]) -> None:
    table = Table(title, "mean", "95 % interval", "each", box=None)
    for name, item in found.items():
        bounds = "" if item.low is None else f"{item.low:.2f} to {item.high:.2f}"
        table.add_row(name, f"{item.mean:.2f}", bounds, " ".join(f"{v:.2f}" for v in item.values))
    open_console().print(table)
