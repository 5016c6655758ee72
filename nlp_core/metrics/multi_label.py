"""Metrics of a task with any number of labels an example.

Averages are over labels: `macro` counts each the same, `weighted` by its examples, `micro` pools
the decisions of all labels.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.metrics.base import Predictions
from nlp_core.metrics.binary import (
    Decision,
    average_auc,
    compute_auc,
    compute_average_precision,
    find_operating_point,
)
from nlp_core.metrics.classification import AVERAGES, SCORES, Score, require_score

Indicator = NDArray[np.bool_]


def measure_exact_match(predictions: Predictions) -> float:
    """Return the share of examples whose labels are all right and no more (subset accuracy)."""
    target, prediction = _indicate_both(predictions)
    return float((target == prediction).all(1).mean())


def measure_label(score: Score, predictions: Predictions, label: str) -> float:
    """Return precision, recall or F1 of one label; 0 where undefined."""
    column = list(predictions.labels).index(label)
    target, prediction = _indicate_both(predictions)
    return float(score(target[:, column], prediction[:, column], zero_division=0))


def measure_average(score: Score, average: str, predictions: Predictions) -> float:
    """Return precision, recall or F1 over all labels of the task."""
    target, prediction = _indicate_both(predictions)
    if len(predictions.labels) == 1:  # scikit-learn takes one column for two classes
        return float(score(target[:, 0], prediction[:, 0], zero_division=0))
    return float(score(target, prediction, average=average, zero_division=0))


def measure_auc(predictions: Predictions, label: str) -> float:
    """Return the area under the ROC curve of a label's probability.

    Raises:
        DataError: the predictions hold no scores, or all or no examples have the label.
    """
    return compute_auc(_decide("auc", predictions, label))


def measure_macro_auc(predictions: Predictions) -> float:
    """Return the mean area under the ROC curves of the labels that some, not all, examples have.

    Raises:
        DataError: the predictions hold no scores, or there is no such label.
    """
    return average_auc([_decide("macro_auc", predictions, name) for name in predictions.labels])


def measure_weighted_auc(predictions: Predictions) -> float:
    """Return the mean of `macro_auc`, each label weighted by how many examples have it.

    Raises:
        DataError: the predictions hold no scores, or there is no such label.
    """
    decisions = [_decide("weighted_auc", predictions, name) for name in predictions.labels]
    return average_auc(decisions, weighted=True)


def measure_micro_auc(predictions: Predictions) -> float:
    """Return the area under one ROC curve of the decisions on all labels.

    Raises:
        DataError: the predictions hold no scores, or all or no decisions are right to be yes.
    """
    return compute_auc(_decide("micro_auc", predictions, None))


def measure_average_precision(predictions: Predictions, label: str | None = None) -> float:
    """Return the area below the precision-recall curve of a label, or its mean over the labels.

    The mean leaves out labels that no example has.

    Raises:
        DataError: the predictions hold no scores, or no example has the label, or any.
    """
    if label is not None:
        return compute_average_precision(_decide("average_precision", predictions, label))
    decisions = [_decide("average_precision", predictions, name) for name in predictions.labels]
    defined = [item for item in decisions if item.target.any()] or decisions[-1:]
    return float(np.mean([compute_average_precision(item) for item in defined]))


def measure_recall_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the recall at the best threshold of at least that precision.

    Of one label, or of the pooled decisions of all labels with one threshold for all.

    Raises:
        DataError: the predictions hold no scores, or no example has the label, or any.
    """
    decision = _decide("recall_at_precision", predictions, label)
    return find_operating_point(decision, precision).recall


def measure_threshold_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the threshold that gives the recall at a precision.

    Raises:
        DataError: the predictions hold no scores, or no example has the label, or any.
    """
    decision = _decide("threshold_at_precision", predictions, label)
    return find_operating_point(decision, precision).threshold


def _decide(metric: str, predictions: Predictions, label: str | None) -> Decision:
    score = require_score(metric, predictions)
    target = _indicate(predictions.target, predictions.labels)
    if label is None:
        return Decision("any of the labels", target.ravel(), score.ravel())
    column = list(predictions.labels).index(label)
    return Decision(label, target[:, column], score[:, column])


def _indicate_both(predictions: Predictions) -> tuple[Indicator, Indicator]:
    labels = predictions.labels
    return _indicate(predictions.target, labels), _indicate(predictions.prediction, labels)


def _indicate(values: Sequence[object], labels: Sequence[str]) -> Indicator:
    chosen = [frozenset(cast(Collection[str], value)) for value in values]
    return np.array([[label in item for label in labels] for item in chosen], dtype=np.bool_)


COMPUTE: dict[str, Callable[..., float]] = {
    "auc@LABEL": measure_auc,
    "average_precision": measure_average_precision,
    "average_precision@LABEL": measure_average_precision,
    "exact_match": measure_exact_match,
    "macro_auc": measure_macro_auc,
    "micro_auc": measure_micro_auc,
    "recall_at_precision@PRECISION": measure_recall_at_precision,
    "recall_at_precision@PRECISION@LABEL": measure_recall_at_precision,
    "threshold_at_precision@PRECISION": measure_threshold_at_precision,
    "threshold_at_precision@PRECISION@LABEL": measure_threshold_at_precision,
    "weighted_auc": measure_weighted_auc,
}
COMPUTE |= {f"{name}@LABEL": partial(measure_label, score) for name, score in SCORES.items()}
COMPUTE |= {
    f"{average}_{name}": partial(measure_average, score, average)
    for average in AVERAGES
    for name, score in SCORES.items()
}
