"""Metrics of a task with one label an example.

A label's own metrics take it against all others; without a label they are of the last one.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
)

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions
from nlp_core.metrics.binary import (
    Decision,
    average_auc,
    compute_auc,
    compute_average_precision,
    find_operating_point,
    pool_decisions,
)
from nlp_core.metrics.calibration import compute_calibration_error

Score = Callable[..., float]
SCORES: dict[str, Score] = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
AVERAGES = ("macro", "micro", "weighted")


def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of examples whose label is right."""
    return float(accuracy_score(_labels(predictions.target), _labels(predictions.prediction)))


def measure_label(score: Score, predictions: Predictions, label: str | None = None) -> float:
    """Return precision, recall or F1 = 2 p r / (p + r) of one label; 0 where undefined."""
    positive = predictions.labels[-1] if label is None else label
    target = _labels(predictions.target) == positive
    prediction = _labels(predictions.prediction) == positive
    return float(score(target, prediction, zero_division=0))


def measure_average(score: Score, average: str, predictions: Predictions) -> float:
    """Return precision, recall or F1 over all labels of the task.

    Args:
        score: which of the three.
        average: `macro` counts each label the same, `weighted` by its examples, `micro` pools all
            decisions.
        predictions: what to measure.
    """
    return float(
        score(
            _labels(predictions.target),
            _labels(predictions.prediction),
            labels=list(predictions.labels),
            average=average,
            zero_division=0,
        )
    )


def measure_matthews(predictions: Predictions) -> float:
    """Return Matthews' correlation; 0 when the targets or the predictions are all the same."""
    target, prediction = _labels(predictions.target), _labels(predictions.prediction)
    if len(set(target)) == 1 or len(set(prediction)) == 1:
        return 0.0
    return float(matthews_corrcoef(target, prediction))


def measure_auc(predictions: Predictions, label: str | None = None) -> float:
    """Return the area under the ROC curve of a label's probability, over all examples.

    Raises:
        DataError: the predictions hold no scores, or all examples are of one class.
    """
    return compute_auc(_decide("auc", predictions, label))


def measure_macro_auc(predictions: Predictions) -> float:
    """Return the mean area under the ROC curves of the labels that some, not all, examples have.

    Raises:
        DataError: the predictions hold no scores, or all examples are of one class.
    """
    return average_auc([_decide("macro_auc", predictions, name) for name in predictions.labels])


def measure_weighted_auc(predictions: Predictions) -> float:
    """Return the mean of `macro_auc`, each label weighted by how many examples have it.

    Raises:
        DataError: the predictions hold no scores, or all examples are of one class.
    """
    decisions = [_decide("weighted_auc", predictions, name) for name in predictions.labels]
    return average_auc(decisions, weighted=True)


def measure_micro_auc(predictions: Predictions) -> float:
    """Return the area under one ROC curve of the decisions on all labels, each against the others.

    Labels that no example has count, as wrong answers.

    Raises:
        DataError: the predictions hold no scores.
    """
    decisions = [_decide("micro_auc", predictions, name) for name in predictions.labels]
    return compute_auc(pool_decisions(decisions))


def measure_average_precision(predictions: Predictions, label: str | None = None) -> float:
    """Return the area below the precision-recall curve of a label's probability.

    Raises:
        DataError: the predictions hold no scores, or no example has the label.
    """
    return compute_average_precision(_decide("average_precision", predictions, label))


def measure_recall_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the recall of a label at the best threshold of at least that precision.

    Raises:
        DataError: the predictions hold no scores, or no example has the label.
    """
    return find_operating_point(
        _decide("recall_at_precision", predictions, label), precision
    ).recall


def measure_threshold_at_precision(
    predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the threshold that gives the recall at a precision.

    Raises:
        DataError: the predictions hold no scores, or no example has the label.
    """
    decision = _decide("threshold_at_precision", predictions, label)
    return find_operating_point(decision, precision).threshold


def measure_calibration_error(predictions: Predictions) -> float:
    """Return by how much the probability of the chosen label and its accuracy differ.

    Raises:
        DataError: the predictions hold no scores.
    """
    score = require_score("expected_calibration_error", predictions)
    right = _labels(predictions.target) == _labels(predictions.prediction)
    return compute_calibration_error(score.max(1), right)


def require_score(metric: str, predictions: Predictions) -> NDArray[np.floating]:
    """Return the probabilities of the labels.

    Raises:
        DataError: the predictions hold none.
    """
    if predictions.score is None:
        raise DataError(
            f"metrics: {metric}: found no scores, expected the probability of each label."
        )
    return predictions.score


def _decide(metric: str, predictions: Predictions, label: str | None) -> Decision:
    score = require_score(metric, predictions)
    positive = predictions.labels[-1] if label is None else label
    column = list(predictions.labels).index(positive)
    return Decision(positive, _labels(predictions.target) == positive, score[:, column])


def _labels(values: object) -> NDArray[np.str_]:
    return np.asarray(values, dtype=np.str_)


COMPUTE: dict[str, Callable[..., float]] = {
    "accuracy": measure_accuracy,
    "auc": measure_auc,
    "auc@LABEL": measure_auc,
    "average_precision": measure_average_precision,
    "average_precision@LABEL": measure_average_precision,
    "expected_calibration_error": measure_calibration_error,
    "macro_auc": measure_macro_auc,
    "matthews": measure_matthews,
    "micro_auc": measure_micro_auc,
    "recall_at_precision@PRECISION": measure_recall_at_precision,
    "recall_at_precision@PRECISION@LABEL": measure_recall_at_precision,
    "threshold_at_precision@PRECISION": measure_threshold_at_precision,
    "threshold_at_precision@PRECISION@LABEL": measure_threshold_at_precision,
    "weighted_auc": measure_weighted_auc,
}
COMPUTE |= {name: partial(measure_label, score) for name, score in SCORES.items()}
COMPUTE |= {f"{name}@LABEL": partial(measure_label, score) for name, score in SCORES.items()}
COMPUTE |= {
    f"{average}_{name}": partial(measure_average, score, average)
    for average in AVERAGES
    for name, score in SCORES.items()
}
