"""The registry of metrics, and the predictions that they measure.

The functions import scikit-learn, SciPy and seqeval when they are called: these take more than a
second, and many commands measure nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

LABEL = "@LABEL"
PRECISION = "@PRECISION"
THRESHOLD = "@THRESHOLD"


@dataclass(frozen=True)
class Predictions:
    """The predictions for a split, with the right answers.

    Attributes:
        labels: all labels or tags of the task, in the order of its manifest; empty for regression.
        target: the right answer of each example: a label, a number, a list of tags or labels, a
            mapping with "label" and "tags" for intents and slots, the number of predicted words or
            masked pieces for language models, a list of right texts for spans.
        prediction: the model's answer, in the same form; the sum of log probabilities for language
            models, one text for spans.
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


class Metric(NamedTuple):
    """A metric of a kind of task.

    Attributes:
        compute: returns the value of `predictions`, and of the number and label in its name.
        better: whether a higher or a lower value is better; None: neither.
        in_points: whether it is reported in points, 100 times the value; if not, in its own unit.
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
    """Return the metric of a name with parameters, or of a result such as `dev.rmse`, of any kind.

    Its `compute` may be that of another kind.
    """
    base = name.partition("@")[0].removesuffix(".paper").rpartition(".")[2]
    items = (pair for metrics in METRICS.values() for pair in metrics.items())
    return next((metric for known, metric in items if known.partition("@")[0] == base), None)


def is_lower_better(metric: str) -> bool:
    found = find_metric(metric)
    return found is not None and found.better == "lower"


def is_better(metric: str, score: float, other: float) -> bool:
    return score < other if is_lower_better(metric) else score > other
