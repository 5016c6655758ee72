"""The registry of metrics, the predictions that they measure, and their names with parameters.

`auc@spam` is the area of the label `spam`, `recall_at_precision@0.9` the recall at a precision of
at least 0.9, `auc@0.5` of a regression the area of the targets of at least 0.5, and `recall@10` of
retrieval the share of right passages among the first 10.

The functions import scikit-learn, SciPy and seqeval when they are called: these take more than a
second, and many commands measure nothing.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.kinds import KINDS

LABEL = "@LABEL"
PRECISION = "@PRECISION"
THRESHOLD = "@THRESHOLD"
DEPTH = "@DEPTH"
MOST_DIGITS = 9  # of a depth
HONEST, PAPER = "honest", "paper"
"""Ways of choosing the epoch: without the reported split, or as the paper did, on that one."""
MEASURED_COSTS = ("latency.", "size.")
"""How the names begin of what an export costs: milliseconds and megabytes."""


@dataclass(frozen=True)
class Predictions:
    """The predictions for a split, with the right answers.

    Attributes:
        labels: all labels or tags of the task, in the order of its manifest; empty for regression.
        target: the right answer of each example: a label, a number, a list of tags or labels, a
            mapping with "label" and "tags", the number of predicted words or masked pieces, or a
            list of right texts.
        prediction: the model's answer, in the same form; the sum of log probabilities for language
            models, one text for spans, the rank of a passage for retrieval.
        score: probability of each label, [examples, labels]; for masked pieces the share of a text
            that is right, [examples, 1].
        group: question number of each candidate.
        scheme: how tags mark entities, BIO or BIOES; None: guessed from the tags.
    """

    labels: Sequence[str]
    target: Sequence[object]
    prediction: Sequence[object]
    score: NDArray[np.floating] | None = None
    group: NDArray[np.integer] | None = None
    scheme: str | None = None

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """Which candidates or passages are right: those with the last label, [examples]."""
        found: NDArray[np.bool_] = np.asarray(self.target, dtype=np.str_) == self.labels[-1]
        return found

    @property
    def constant(self) -> str | None:
        """The only label, tag or number of all right answers; None: there are several."""
        parts: defaultdict[str, set[str]] = defaultdict(set)
        for answer in self.target:
            for name, item in (answer if isinstance(answer, Mapping) else {"": answer}).items():
                parts[name].update(map(str, item if isinstance(item, list) else [item]))
        return next((min(found) for found in parts.values() if len(found) == 1), None)


class Metric(NamedTuple):
    """A metric of a kind of task.

    Attributes:
        compute: returns the value of `predictions`, and of the number and label in its name.
        better: whether a higher or a lower value is better; None: neither.
        in_points: whether it is reported as 100 times the value.
    """

    compute: Callable[..., float]
    better: Literal["higher", "lower"] | None
    in_points: bool


METRICS: defaultdict[str, dict[str, Metric]] = defaultdict(dict)
"""By kind and name. Capitals in a name are parameters, such as `auc@LABEL`."""


def register(
    name: str,
    *kinds: str,
    better: Literal["higher", "lower"] | None = "higher",
    in_points: bool = True,
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Return a decorator that registers a function as a metric of some kinds of task."""

    def add(compute: Callable[..., float]) -> Callable[..., float]:
        for kind in kinds:
            assert name not in METRICS[kind], f"metric '{name}' of '{kind}' is registered twice"
            METRICS[kind][name] = Metric(compute, better, in_points)
        return compute

    return add


def find_metric(name: str) -> Metric | None:
    """Return the metric of a name with parameters, or of a result such as `dev.rmse`."""
    base = name.partition("@")[0].removesuffix(".paper").rpartition(".")[2]
    items = (pair for metrics in METRICS.values() for pair in metrics.items())
    return next((metric for known, metric in items if known.partition("@")[0] == base), None)


def is_lower_better(metric: str) -> bool:
    """Return whether less is better, of a metric or of what was measured of an export."""
    found = find_metric(metric)  # first: a task may be called size
    return metric.startswith(MEASURED_COSTS) if found is None else found.better == "lower"


def find_direction(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is."""
    return -1 if is_lower_better(metric) else 1


def is_in_points(metric: str) -> bool:
    found = find_metric(metric)
    return found is None or found.in_points


def is_better(metric: str, score: float, other: float) -> bool:
    direction = find_direction(metric)
    return direction * score > direction * other


class MetricCall(NamedTuple):
    """A parsed name of a metric; `pattern` is its name in the registry, such as `auc@LABEL`."""

    pattern: str
    number: float | None
    label: str | None

    @property
    def parameters(self) -> tuple[float | str, ...]:
        return tuple(item for item in (self.number, self.label) if item is not None)


def parse_metric(
    kind: str, name: str, *, labels: Sequence[str] | None = None, where: str = "metrics"
) -> MetricCall:
    """Parse a metric's name.

    Args:
        labels: those of the task; None: any label is allowed.
        where: the file and key that an error message begins with.

    Raises:
        ConfigError: the kind, the metric or its label is unknown, or its number out of range.
    """
    has_tags, patterns = KINDS.get(kind).has_tags, METRICS[kind]
    base, at, rest = name.partition("@")
    precision: float | None = None
    if at and f"{base}{PRECISION}" in patterns:
        number, at, rest = rest.partition("@")
        precision = _read_number(number)
        if not 0.0 < precision <= 1.0:
            raise ConfigError(
                f"{where}: {name}: found the precision '{number}', expected a number above 0 and "
                "at most 1, such as 0.9."
            )
    if at and f"{base}{THRESHOLD}" in patterns:
        threshold = _read_number(rest)
        if not math.isfinite(threshold):
            raise ConfigError(
                f"{where}: {name}: found the threshold '{rest}', expected a number such as 0.5."
            )
        return MetricCall(f"{base}{THRESHOLD}", threshold, None)
    if at and f"{base}{DEPTH}" in patterns:
        if not rest.isdecimal() or len(rest) > MOST_DIGITS or int(rest) < 1:
            raise ConfigError(
                f"{where}: {name}: found the depth '{rest}', expected a whole number above 0 of at "
                f"most {MOST_DIGITS} digits, such as 10."
            )
        return MetricCall(f"{base}{DEPTH}", int(rest), None)
    label = rest if at else None
    pattern = base + (PRECISION if precision is not None else "") + (LABEL if at else "")
    if pattern not in patterns:
        hint = suggest(name, sorted(patterns))
        raise ConfigError(f"{where}: unknown metric '{name}' of the kind '{kind}'. {hint}")
    if labels is not None and has_tags:
        labels = list_types(labels)
    if label is not None and labels is not None and label not in labels:
        raise ConfigError(
            f"{where}: {name}: found the label '{label}', which the task does not have. "
            f"{suggest(label, labels)}"
        )
    return MetricCall(pattern, precision, label)


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def list_types(tags: Sequence[str]) -> list[str]:
    """Return the entity types of tags, sorted: PER of B-PER and I-PER."""
    return sorted({tag.partition("-")[2] for tag in tags if "-" in tag})


def check_metrics(
    kind: str,
    metrics: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    where: str = "metrics",
) -> None:
    """Raise ConfigError if the kind of task does not have a metric; see `parse_metric`."""
    for name in metrics:
        parse_metric(kind, name, labels=labels, where=where)


def check_selecting_metric(metric: str, *, where: str) -> None:
    """Raise ConfigError if a metric cannot select an epoch."""
    found = find_metric(metric)
    if found is not None and found.better is None:
        raise ConfigError(
            f"{where}: metrics: found '{metric}' first, which selects the epoch, but no value of "
            "it is better than another; put another metric first."
        )


def has_metric(kind: str, name: str) -> bool:
    try:
        parse_metric(kind, name)
    except ConfigError:
        return False
    return True


def measure(kind: str, metrics: Sequence[str], predictions: Predictions) -> dict[str, float]:
    """Return the value of each metric, in points or in its own unit, not rounded."""
    calls = {name: parse_metric(kind, name, labels=predictions.labels) for name in metrics}
    size = len(predictions.target)
    for part in (predictions.prediction, predictions.score, predictions.group):
        assert part is None or len(part) == size, (len(part), size)
    if size == 0:
        raise DataError("metrics: found no examples, expected at least one with a label.")
    return {name: _compute(kind, name, call, predictions) for name, call in calls.items()}


def _compute(kind: str, name: str, call: MetricCall, predictions: Predictions) -> float:
    metric = METRICS[kind][call.pattern]
    try:
        value = metric.compute(predictions, *call.parameters)
    except DataError as err:
        raise DataError(f"metrics: {name}: {err}") from err
    return 100.0 * value if metric.in_points else value
