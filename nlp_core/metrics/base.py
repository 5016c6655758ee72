"""What is measured and by which names: plain tables, without the libraries that compute them.

A name may have parameters behind `@`: `auc@spam` is the area of the label `spam`,
`recall_at_precision@0.9` the recall where nine of ten chosen examples are right, and `auc@0.5` of a
task with one number an example the area of those that are 0.5 or above.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import KINDS

LABEL = "@LABEL"
PRECISION = "@PRECISION"
THRESHOLD = "@THRESHOLD"

LOWER_IS_BETTER = frozenset({"expected_calibration_error", "mae", "mse", "perplexity", "rmse"})
"""Metrics of which less is better; of all others more is, but for those without a direction."""

WITHOUT_DIRECTION = frozenset({"threshold_at_precision"})
"""What is reported beside a metric and is itself neither good nor bad."""

IN_OWN_UNITS = frozenset({"mae", "mse", "perplexity", "rmse", "threshold_at_precision"})
"""Metrics in the units of the task; all others are in points, 100 times their usual scale."""


@dataclass(frozen=True)
class Predictions:
    """What a model said about each example of a split, beside what was right.

    Attributes:
        labels: every label or tag of the task, in the order of its manifest; empty for regression.
        target: the right answer of each example: a label, a number, a list of tags or of labels, of
            intents and slots a mapping with "label" and "tags", of a language model the number of
            predicted words or masked pieces, of spans a list of right texts.
        prediction: the model's answer, of the same sort as `target`; of a language model the sum
            of log probabilities, of spans one text.
        score: probability of each label, [examples, labels], or the share of a text's masked pieces
            that were told, [examples, 1]; needed by metrics of a ranking, a
            threshold or a probability.
        group: number of the question that each candidate belongs to; needed by `map` and `mrr`.
        scheme: how tags write entities, BIO or BIOES; None reads it off the tags.
    """

    labels: Sequence[str]
    target: Sequence[object]
    prediction: Sequence[object]
    score: NDArray[np.floating] | None = None
    group: NDArray[np.integer] | None = None
    scheme: str | None = None


class MetricCall(NamedTuple):
    """A metric's name taken apart.

    Attributes:
        pattern: its name among the metrics of a kind, such as `auc@LABEL`.
        number: the precision or the threshold that it names, or None.
        label: the label that it names, or None.
    """

    pattern: str
    number: float | None
    label: str | None

    @property
    def arguments(self) -> tuple[float | str, ...]:
        """The parameters that are there, in their order."""
        return tuple(item for item in (self.number, self.label) if item is not None)


def parse_metric(
    kind: str, name: str, *, labels: Sequence[str] | None = None, where: str = "metrics"
) -> MetricCall:
    """Take a metric's name apart.

    Args:
        kind: the task's kind.
        name: the metric, with its parameters.
        labels: those of the task, of tags those that write the entities' types; None: any will do.
        where: the file and key that an error message begins with.

    Raises:
        ConfigError: the kind, the metric or its label is unknown (the nearest name is given), or
            its precision is no number above 0 and at most 1, or its threshold no finite one.
    """
    patterns, has_tags = KINDS.get(kind).metrics, KINDS.get(kind).has_tags
    base, at, rest = name.partition("@")
    precision: float | None = None
    if at and f"{base}{PRECISION}" in patterns:
        number, at, rest = rest.partition("@")
        precision = _read_precision(number, name, where)
    if at and f"{base}{THRESHOLD}" in patterns:
        return MetricCall(f"{base}{THRESHOLD}", _read_threshold(rest, name, where), None)
    label = rest if at else None
    pattern = base + (PRECISION if precision is not None else "") + (LABEL if at else "")
    if pattern not in patterns:
        hint = suggest(name, patterns)
        raise ConfigError(f"{where}: unknown metric '{name}' of the kind '{kind}'. {hint}")
    if labels is not None and has_tags:
        labels = list_types(labels)
    if label is not None and labels is not None and label not in labels:
        raise ConfigError(
            f"{where}: {name}: found the label '{label}', which the task does not have. "
            f"{suggest(label, labels)}"
        )
    return MetricCall(pattern, precision, label)


def list_types(tags: Sequence[str]) -> list[str]:
    """Return the types of the entities that tags write, sorted: PER of B-PER and I-PER."""
    return sorted({tag.partition("-")[2] for tag in tags if "-" in tag})


def check_metrics(
    kind: str,
    metrics: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    where: str = "metrics",
) -> None:
    """Refuse a metric that the kind of task does not have.

    Args:
        kind: the task's kind.
        metrics: names of metrics.
        labels: those of the task, which a metric's label must be one of; None: any will do.
        where: the file and key that an error message begins with.

    Raises:
        ConfigError: see `parse_metric`.
    """
    for name in metrics:
        parse_metric(kind, name, labels=labels, where=where)


def check_selecting_metric(metric: str, *, where: str) -> None:
    """Refuse a metric by which no epoch can be chosen.

    Raises:
        ConfigError: neither more nor less of it is better.
    """
    if _name_base(metric) in WITHOUT_DIRECTION:
        raise ConfigError(
            f"{where}: metrics: found '{metric}' first, which chooses the epoch, but neither more "
            "nor less of it is better; put another metric first."
        )


def has_metric(kind: str, name: str) -> bool:
    """Say whether a kind of task can be measured by a metric, whatever label it names."""
    try:
        parse_metric(kind, name)
    except ConfigError:
        return False
    return True


def is_lower_better(metric: str) -> bool:
    """Say whether less of a metric is better; `dev.rmse` of a results file is one too."""
    return _name_base(metric) in LOWER_IS_BETTER


def is_better(metric: str, score: float, other: float) -> bool:
    """Say whether a score of a metric is strictly better than another."""
    return score < other if is_lower_better(metric) else score > other


def scale(metric: str, value: float) -> float:
    """Return a value as it is reported: in points, or in the task's own units."""
    return value if _name_base(metric) in IN_OWN_UNITS else 100.0 * value


def _name_base(metric: str) -> str:
    return metric.partition("@")[0].removesuffix(".paper").rpartition(".")[2]


def _read_precision(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise ConfigError(
            f"{where}: {name}: found the precision '{text}', expected a number above 0 and at most "
            "1, such as 0.9."
        )
    return value


def _read_threshold(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(
            f"{where}: {name}: found the threshold '{text}', expected a number such as 0.5."
        )
    return value
