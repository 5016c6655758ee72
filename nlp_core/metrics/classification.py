"""Metrics of a task with one label an example."""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions


def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of examples whose label is right."""
    return float(accuracy_score(_labels(predictions.target), _labels(predictions.prediction)))


def measure_f1(predictions: Predictions) -> float:
    """Return F1 = 2 p r / (p + r) of the last label against all others; 0 where undefined."""
    positive = predictions.labels[-1]
    target = _labels(predictions.target) == positive
    prediction = _labels(predictions.prediction) == positive
    return float(f1_score(target, prediction, zero_division=0))


def measure_macro_f1(predictions: Predictions) -> float:
    """Return the mean of F1 over all labels of the task, each counting the same."""
    return float(
        f1_score(
            _labels(predictions.target),
            _labels(predictions.prediction),
            labels=list(predictions.labels),
            average="macro",
            zero_division=0,
        )
    )


def measure_matthews(predictions: Predictions) -> float:
    """Return Matthews' correlation; 0 when the targets or the predictions are all the same."""
    target, prediction = _labels(predictions.target), _labels(predictions.prediction)
    if len(set(target)) == 1 or len(set(prediction)) == 1:
        return 0.0
    return float(matthews_corrcoef(target, prediction))


def measure_auc(predictions: Predictions) -> float:
    """Return the area under the ROC curve of the last label's probability, over all examples.

    Raises:
        DataError: the predictions hold no scores, or all examples are of one class.
    """
    if predictions.score is None:
        raise DataError("metrics: auc: found no scores, expected the probability of each label.")
    positive = predictions.labels[-1]
    target = _labels(predictions.target) == positive
    if target.all() or not target.any():
        found = f"only examples {'labelled' if target.all() else 'not labelled'} '{positive}'"
        raise DataError(
            f"metrics: auc: found {found}, expected both classes: the curve is not defined "
            "without them. Measure a larger split, or another metric."
        )
    return float(roc_auc_score(target, predictions.score[:, -1]))


def _labels(values: object) -> NDArray[np.str_]:
    return np.asarray(values, dtype=np.str_)


COMPUTE = {
    "accuracy": measure_accuracy,
    "auc": measure_auc,
    "f1": measure_f1,
    "macro_f1": measure_macro_f1,
    "matthews": measure_matthews,
}
