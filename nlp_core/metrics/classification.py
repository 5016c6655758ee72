"""Metrics of tasks with one label, or any number of labels, for each example.

A label's metrics compare it with all others. Averages are over labels: `macro` weighs all the same,
`weighted` by their examples, and `micro` pools the decisions on all labels.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError
from nlp_core.metrics.base import LABEL, PRECISION, Predictions, register
from nlp_core.metrics.binary import (
    Decision,
    average_auc,
    compute_auc,
    compute_average_precision,
    find_operating_point,
)

ONE_LABEL = ("classification", "pair_classification")
LABELS = (*ONE_LABEL, "multi_label")
Indicator = NDArray[np.bool_]
BINS = 15  # Guo et al. 2017, section 4


@register("accuracy", *ONE_LABEL)
def measure_accuracy(predictions: Predictions) -> float:
    return float(_compare(predictions).mean())


@register("exact_match", "multi_label")
def measure_exact_match(predictions: Predictions) -> float:
    """Return the share of examples all of whose labels are right (subset accuracy)."""
    target, prediction = _indicate_both(predictions)
    return float((target == prediction).all(1).mean())


@register("matthews", *ONE_LABEL)
def measure_matthews(predictions: Predictions) -> float:
    """Return Matthews' correlation; 0 if all targets or all predictions are the same."""
    from sklearn.metrics import matthews_corrcoef

    target, prediction = _texts(predictions.target), _texts(predictions.prediction)
    if len(set(target)) == 1 or len(set(prediction)) == 1:
        return 0.0
    return float(matthews_corrcoef(target, prediction))


@register("expected_calibration_error", *ONE_LABEL, better="lower")
def measure_calibration_error(predictions: Predictions) -> float:
    return compute_calibration_error(require_score(predictions).max(1), _compare(predictions))


def compute_calibration_error(
    confidence: NDArray[np.floating], right: NDArray[np.bool_], *, bins: int = BINS
) -> float:
    """Return the expected calibration error: sum_b n_b / n * |accuracy_b - mean confidence_b|.

    Args:
        confidence: probability of each answer, [N].
        right: whether the answer is right, [N].
        bins: number of bins b of equal width on (0, 1], each with its upper edge.

    Source: Guo et al. 2017 (calibration of modern neural networks), equation 3.
    """
    edges = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    place = np.digitize(confidence, edges, right=True)
    gap = np.bincount(place, right - confidence.astype(np.float64), minlength=bins)
    return float(np.abs(gap).sum() / len(right))


def measure_label(score: str, predictions: Predictions, label: str) -> float:
    """Return precision, recall or F1 = 2 p r / (p + r) of one label; 0 where undefined."""
    column = list(predictions.labels).index(label)
    target, prediction = _indicate_both(predictions)
    return _score(score, target[:, column], prediction[:, column])


def measure_average(score: str, average: str, predictions: Predictions) -> float:
    """Return precision, recall or F1 over all labels of the task."""
    target, prediction = _indicate_both(predictions)
    if len(predictions.labels) == 1:  # scikit-learn takes one column for two classes
        return _score(score, target[:, 0], prediction[:, 0])
    return _score(score, target, prediction, average=average)


def _score(score: str, target: Indicator, prediction: Indicator, **options: str) -> float:
    from sklearn import metrics

    compute = getattr(metrics, f"{score}_score")
    return float(compute(target, prediction, zero_division=0, **options))


@register("macro_auc", *LABELS)
def measure_macro_auc(predictions: Predictions) -> float:
    """Return the mean area under the ROC curves of the labels that some, not all, examples have."""
    return average_auc(_decide_each(predictions))


@register("weighted_auc", *LABELS)
def measure_weighted_auc(predictions: Predictions) -> float:
    """Return the mean of `macro_auc`, each label weighted by how many examples have it."""
    return average_auc(_decide_each(predictions), weighted=True)


@register("micro_auc", *LABELS)
@register(f"auc{LABEL}", *LABELS)
def measure_auc(predictions: Predictions, label: str | None = None) -> float:
    """Return the area under the ROC curve of a label; None: of the decisions on all labels."""
    return compute_auc(_decide(predictions, label))


@register(f"average_precision{LABEL}", *LABELS)
def measure_average_precision(predictions: Predictions, label: str) -> float:
    return compute_average_precision(_decide(predictions, label))


@register("average_precision", "multi_label")
def measure_mean_average_precision(predictions: Predictions) -> float:
    """Return the mean average precision over the labels that some example has."""
    decisions = _decide_each(predictions)
    defined = [item for item in decisions if item.target.any()] or decisions[-1:]
    return float(np.mean([compute_average_precision(item) for item in defined]))


@register(f"recall_at_precision{PRECISION}", "multi_label")
@register(f"recall_at_precision{PRECISION}{LABEL}", *LABELS)
def measure_recall_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the recall at the best threshold of at least a precision.

    Without a label, that of the decisions on all labels, with one threshold.
    """
    return find_operating_point(_decide(predictions, label), precision).recall


@register(f"threshold_at_precision{PRECISION}", "multi_label", better=None, in_points=False)
@register(f"threshold_at_precision{PRECISION}{LABEL}", *LABELS, better=None, in_points=False)
def measure_threshold_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the threshold of `recall_at_precision`."""
    return find_operating_point(_decide(predictions, label), precision).threshold


def of_last_label(compute: Callable[..., float]) -> Callable[..., float]:
    """Return the metric of the last label, which is the positive one by convention."""

    def measure_last(predictions: Predictions, *numbers: float) -> float:
        return compute(predictions, *numbers, predictions.labels[-1])

    return measure_last


for name in ("f1", "precision", "recall"):
    measure_one = partial(measure_label, name)
    register(f"{name}{LABEL}", *LABELS)(measure_one)
    register(name, *ONE_LABEL)(of_last_label(measure_one))
    for average in ("macro", "micro", "weighted"):
        register(f"{average}_{name}", *LABELS)(partial(measure_average, name, average))
register("auc", *ONE_LABEL, "ranking")(of_last_label(measure_auc))
register("average_precision", *ONE_LABEL)(of_last_label(measure_average_precision))
register(f"recall_at_precision{PRECISION}", *ONE_LABEL)(of_last_label(measure_recall_at_precision))
register(f"threshold_at_precision{PRECISION}", *ONE_LABEL, better=None, in_points=False)(
    of_last_label(measure_threshold_at_precision)
)


def require_score(predictions: Predictions) -> NDArray[np.floating]:
    if predictions.score is None:
        raise DataError("found no scores, expected the probability of each label.")
    return predictions.score


def _decide(predictions: Predictions, label: str | None) -> Decision:
    """Return the decision on a label; None: the pooled decisions on all labels."""
    score, target = require_score(predictions), _indicate(predictions.target, predictions.labels)
    if label is None:
        return Decision("any of the labels", target.ravel(), score.ravel())
    column = list(predictions.labels).index(label)
    return Decision(label, target[:, column], score[:, column])


def _decide_each(predictions: Predictions) -> list[Decision]:
    return [_decide(predictions, label) for label in predictions.labels]


def _texts(values: Sequence[object]) -> NDArray[np.str_]:
    return np.asarray(values, dtype=np.str_)


def _compare(predictions: Predictions) -> NDArray[np.bool_]:
    """Return whether each example's one label is right."""
    right: NDArray[np.bool_] = _texts(predictions.target) == _texts(predictions.prediction)
    return right


def _indicate_both(predictions: Predictions) -> tuple[Indicator, Indicator]:
    labels = predictions.labels
    return _indicate(predictions.target, labels), _indicate(predictions.prediction, labels)


def _indicate(values: Sequence[object], labels: Sequence[str]) -> Indicator:
    """Return which labels each example has, [examples, labels]; a value is a label or several."""
    if isinstance(values[0], str):
        found: Indicator = _texts(values)[:, None] == _texts(labels)
        return found
    chosen = [frozenset(cast(Collection[str], value)) for value in values]
    return np.array([[label in item for label in labels] for item in chosen], dtype=np.bool_)
