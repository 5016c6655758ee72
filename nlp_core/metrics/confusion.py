"""Which label was taken for which: a table beside the metrics, which are numbers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.metrics.base import Predictions


class Confusion(NamedTuple):
    """How often each label was taken for each.

    Attributes:
        labels: every label of the task, in the order of its manifest.
        counts: examples of the label of a row that were given the label of a column, [L, L].
    """

    labels: list[str]
    counts: NDArray[np.int64]


def count_confusions(predictions: Predictions) -> Confusion:
    """Count which label was taken for which, for a task with one label an example."""
    # more than a second, which a command that only predicts does not need
    from sklearn.metrics import confusion_matrix

    labels = [str(label) for label in predictions.labels]
    target = np.asarray(predictions.target, dtype=np.str_)
    prediction = np.asarray(predictions.prediction, dtype=np.str_)
    return Confusion(labels, confusion_matrix(target, prediction, labels=labels))
