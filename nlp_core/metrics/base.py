"""What is measured and by which names: plain tables, without the libraries that compute them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import ConfigError, suggest

_CLASSIFICATION = ("accuracy", "auc", "f1", "macro_f1", "matthews")
_REGRESSION = ("pearson", "spearman")

METRICS: Mapping[str, tuple[str, ...]] = {
    "classification": _CLASSIFICATION,
    "pair_classification": _CLASSIFICATION,
    "regression": _REGRESSION,
    "pair_regression": _REGRESSION,
    "ranking": ("auc", "map", "mrr"),
    "tagging": ("accuracy", "f1"),
}
"""The metrics that each kind of task can be measured by. For all of them, higher is better."""


@dataclass(frozen=True)
class Predictions:
    """What a model said about each example of a split, beside what was right.

    Attributes:
        labels: every label or tag of the task, in the order of its manifest; empty for regression.
        target: the right answer of each example: a label, a number or a list of tags.
        prediction: the model's answer, of the same sort as `target`.
        score: probability of each label, [examples, labels]; needed by `auc`, `map` and `mrr`.
        group: number of the question that each candidate belongs to; needed by `map` and `mrr`.
        scheme: how tags write entities, BIO or BIOES; None reads it off the tags.
    """

    labels: Sequence[str]
    target: Sequence[object]
    prediction: Sequence[object]
    score: NDArray[np.floating] | None = None
    group: NDArray[np.integer] | None = None
    scheme: str | None = None


def check_metrics(kind: str, metrics: Sequence[str], *, where: str = "metrics") -> None:
    """Refuse a metric that the kind of task does not have.

    Args:
        kind: the task's kind.
        metrics: names of metrics.
        where: the file and key that an error message begins with.

    Raises:
        ConfigError: the kind or a metric is unknown; the nearest name is given.
    """
    if kind not in METRICS:
        raise ConfigError(f"{where}: nothing measures the kind '{kind}'. {suggest(kind, METRICS)}")
    for name in metrics:
        if name not in METRICS[kind]:
            hint = suggest(name, METRICS[kind])
            raise ConfigError(f"{where}: unknown metric '{name}' of the kind '{kind}'. {hint}")
