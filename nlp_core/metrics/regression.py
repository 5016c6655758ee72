"""Metrics of a task with one number an example."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr

from nlp_core.metrics.base import Predictions

Numbers = NDArray[np.float64]


def measure_pearson(predictions: Predictions) -> float:
    """Return Pearson's correlation; 0 when the targets or the predictions are all the same."""
    return _correlate(predictions, lambda x, y: float(pearsonr(x, y).statistic))


def measure_spearman(predictions: Predictions) -> float:
    """Return Spearman's rank correlation; 0 when targets or predictions are all the same."""
    return _correlate(predictions, lambda x, y: float(spearmanr(x, y).statistic))


def _correlate(predictions: Predictions, statistic: Callable[[Numbers, Numbers], float]) -> float:
    target = np.asarray(predictions.target, dtype=np.float64)
    prediction = np.asarray(predictions.prediction, dtype=np.float64)
    if np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return 0.0
    with warnings.catch_warnings():
        # An untrained model says nearly the same of every example; that is no news to warn of.
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return statistic(target, prediction)


COMPUTE = {"pearson": measure_pearson, "spearman": measure_spearman}
