"""The confusion matrix of a task with one label for each example."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.metrics.base import Predictions


class Confusion(NamedTuple):
    """A confusion matrix.

    Attributes:
        labels: all labels of the task, in the order of its manifest.
        counts: examples with the label of a row and the prediction of a column, [L, L].
    """

    labels: list[str]
    counts: NDArray[np.int64]


def count_confusions(predictions: Predictions) -> Confusion:
    from sklearn.metrics import confusion_matrix

    labels = [str(label) for label in predictions.labels]
    target = np.asarray(predictions.target, dtype=np.str_)
    prediction = np.asarray(predictions.prediction, dtype=np.str_)
    return Confusion(labels, confusion_matrix(target, prediction, labels=labels))
