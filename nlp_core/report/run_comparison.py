"""Trained folders compared on the same rows: scores, differences, and which of them are real."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.data.user_task import build_user_task
from nlp_core.errors import UsageError
from nlp_core.files import name_local
from nlp_core.kinds import KINDS
from nlp_core.metrics import Predictions, find_direction, measure
from nlp_core.prediction.trained_folder import PREDICTIONS, RUN, read_trained_folder
from nlp_core.report.cell import read_predictions
from nlp_core.report.significance import find_p_values
from nlp_core.statistics import (
    LEVEL,
    Interval,
    Pair,
    Resamples,
    WeightedScore,
    build_score,
    name_groups,
    resample,
)

OF_LAST_LABEL = {"f1", "precision", "recall", "auc", "average_precision"}
"""Metrics of the positive label, which is the last one."""


class MeasuredRun(NamedTuple):
    """The predictions of a run on the rows that are compared.

    Attributes:
        rows: what names these rows; runs with another value were measured on other ones.
    """

    name: str
    kind: str
    metrics: list[str]
    rows: str
    predictions: Predictions


class RunScore(NamedTuple):
    """A score; the interval covers the variation between rows, not between seeds.

    Attributes:
        letters: runs that share one cannot be distinguished; empty without intervals.
    """

    run: str
    score: float
    interval: Interval | None
    letters: str


class RunDifference(NamedTuple):
    """The score of the first run minus that of the second; the p-value is Holm's."""

    first: str
    second: str
    difference: float
    interval: Interval
    p_value: float
    is_real: bool


class MetricComparison(NamedTuple):
    """The runs by one metric, the best first; no differences where a metric has no intervals."""

    metric: str
    rows: int
    scores: list[RunScore]
    differences: list[RunDifference]


def read_measured_run(folder: Path, plugins: Sequence[Path] = ()) -> MeasuredRun:
    """Return what `reglue train` measured last: its test file, or the rows that it held out.

    Raises:
        DataError: the folder has no predictions.
        UsageError: the folder is that of a cell, which has a report.
    """
    found = read_trained_folder(folder, plugins=plugins)
    if found.data is None:
        raise UsageError(
            f"{folder}: found a trained cell, expected a folder of `reglue train`; name a file "
            "with --data, or see the report of the cell's table."
        )
    note = read_mapping(folder / RUN)
    task = build_user_task(found.data, note["targets"], found.name, {})
    splits = {
        item.split: item.predictions for item in read_predictions(folder / PREDICTIONS, task, "")
    }
    split = "test" if "test" in splits else "dev"
    file = note["files"].get(split) or f"a part of {note['files']['train']}"
    ids = pq.read_table(name_local(folder / PREDICTIONS), columns=["split", "id"])
    # runs of two seeds hold out other rows of one file, whose labels may be equal
    numbers = ids.filter(pc.field("split") == split)["id"].to_pylist()
    rows, kind = f"{split} {file} {numbers}", found.data.kind.name
    return MeasuredRun(str(folder), kind, task.metrics, rows, splits[split])


def compare_runs(runs: Sequence[MeasuredRun]) -> list[MetricComparison]:
    """Compare runs by each metric that all of them have.

    A difference is real if both tests agree after Holm's correction over all pairs of runs and
    metrics: the paired bootstrap and the swap of rows, see `find_p_values`.

    Raises:
        UsageError: there are fewer than two runs, or they are of different kinds or rows.
    """
    _check_same(runs)
    runs = _share_labels(runs)
    metrics = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    scores = [_build_scores(metric, runs) for metric in metrics]
    samples = [{name: resample(score) for name, score in found.items()} for found in scores]
    tests = find_p_values(scores, samples)
    return [_describe(*item, runs) for item in zip(metrics, samples, tests, strict=True)]


def _share_labels(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Return runs that have the labels of all of them: a mean over labels needs the same ones.

    A run gives no probability to the labels of others. The label that F1 and areas are of is the
    last one, and stays the last one.

    Raises:
        UsageError: the runs have other last labels, and are measured by them.
    """
    most_first = sorted((run.predictions.labels for run in runs), key=len, reverse=True)
    labels = list(dict.fromkeys(label for own in most_first for label in own))
    last = list(dict.fromkeys(own[-1] for own in most_first if own))
    if len(last) == 1:
        labels = [label for label in labels if label != last[0]] + last
    elif KINDS.get(runs[0].kind).has_label and (named := OF_LAST_LABEL & {*runs[0].metrics}):
        raise _refuse_labels(runs, min(named))
    found = []
    for run in runs:
        own, score = [*run.predictions.labels], run.predictions.score
        if score is not None and own != labels:
            columns = {label: score[:, idx] for idx, label in enumerate(own)}
            absent = np.zeros(len(score))
            score = np.stack([columns.get(label, absent) for label in labels], 1)
        predictions = replace(run.predictions, labels=labels, score=score)
        found.append(run._replace(predictions=predictions))
    return found


def _refuse_labels(runs: Sequence[MeasuredRun], metric: str) -> UsageError:
    """Return the error for runs with other last labels, which names the first two such runs."""
    one = runs[0]
    last = one.predictions.labels[-1]
    other = next(run for run in runs if run.predictions.labels[-1] != last)
    lacks = "" if last in other.predictions.labels else f" It has no label '{last}'."
    return UsageError(
        f"{other.name}: found the last label '{other.predictions.labels[-1]}', expected '{last}' "
        f"as {one.name} has, since {metric} is of the last label.{lacks} Train them on files with "
        "the same labels."
    )


def _build_scores(metric: str, runs: Sequence[MeasuredRun]) -> dict[str, WeightedScore]:
    """Return a metric by run; nothing if it cannot be resampled."""
    found = {run.name: build_score(run.kind, metric, [run.predictions]) for run in runs}
    return {name: score for name, score in found.items() if score is not None}


def _check_same(runs: Sequence[MeasuredRun]) -> None:
    names = [run.name for run in runs]
    folders = {Path(name).resolve() for name in names}
    if len(folders) < max(2, len(names)):
        raise UsageError(
            f"compare: found {' and '.join(names)}, expected two or more different folders."
        )
    first = runs[0]
    for run in runs[1:]:
        if len({run.kind, first.kind}) > 1:
            raise UsageError(
                f"{run.name}: found a model of the kind {run.kind}, expected {first.kind} as "
                f"{first.name} has; only models of one kind have the same metrics."
            )
        both = first.predictions.target, run.predictions.target
        if run.rows != first.rows or [*both[0]] != [*both[1]]:
            raise UsageError(
                f"{run.name}: found other rows ({len(both[1])}) than those that {first.name} was "
                f"measured on ({len(both[0])}), expected the same. Name one file for all with "
                "--data, or train them with the same --test."
            )


def _describe(
    metric: str,
    samples: dict[str, Resamples],
    p_values: dict[Pair, float],
    runs: Sequence[MeasuredRun],
) -> MetricComparison:
    values = {run.name: measure(run.kind, [metric], run.predictions)[metric] for run in runs}
    direction = find_direction(metric)
    ranked = sorted(values, key=lambda name: -direction * values[name])
    letters = name_groups(ranked, p_values) if samples else dict.fromkeys(ranked, "")
    intervals = {name: found.interval for name, found in samples.items()}
    differences = []
    for first, second in combinations(ranked, 2) if samples else ():
        one, two = samples[first], samples[second]
        between = Resamples(one.mean - two.mean, one.rounds - two.rounds, 0.0, 1)
        p_value = min(p_values[pair] for pair in p_values if {*pair} == {first, second})
        differences.append(
            RunDifference(first, second, between.mean, between.interval, p_value, p_value < LEVEL)
        )
    return MetricComparison(
        metric,
        len(runs[0].predictions.target),
        [RunScore(name, values[name], intervals.get(name), letters[name]) for name in ranked],
        differences,
    )
