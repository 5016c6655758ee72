"""Metrics of a task with one number an example."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr
from sklearn.metrics import mean_absolute_error, mean_squared_error, root_mean_squared_error

from nlp_core.metrics.base import Predictions
from nlp_core.metrics.binary import Decision, compute_auc

Numbers = NDArray[np.float64]


def measure_pearson(predictions: Predictions) -> float:
    """Return Pearson's correlation; 0 when the targets or the predictions are all the same."""
    return _correlate(predictions, lambda x, y: float(pearsonr(x, y).statistic))


def measure_spearman(predictions: Predictions) -> float:
    """Return Spearman's rank correlation; 0 when targets or predictions are all the same."""
    return _correlate(predictions, lambda x, y: float(spearmanr(x, y).statistic))


def measure_mse(predictions: Predictions) -> float:
    """Return the mean squared difference, in squared units of the target."""
    return float(mean_squared_error(*_numbers(predictions)))


def measure_rmse(predictions: Predictions) -> float:
    """Return the root of the mean squared difference, in units of the target."""
    return float(root_mean_squared_error(*_numbers(predictions)))


def measure_mae(predictions: Predictions) -> float:
    """Return the mean absolute difference, in units of the target."""
    return float(mean_absolute_error(*_numbers(predictions)))


def measure_auc(predictions: Predictions, threshold: float) -> float:
    """Return the area under the ROC curve of: is the target at least the threshold?

    Raises:
        DataError: all targets are below it, or none is.
    """
    target, prediction = _numbers(predictions)
    what = f"at least {threshold:g}"
    return compute_auc(Decision(what, target >= threshold, prediction))


def _numbers(predictions: Predictions) -> tuple[Numbers, Numbers]:
    """Return the targets and the predictions."""
    target = np.asarray(predictions.target, dtype=np.float64)
    return target, np.asarray(predictions.prediction, dtype=np.float64)


def _correlate(predictions: Predictions, statistic: Callable[[Numbers, Numbers], float]) -> float:
    target, prediction = _numbers(predictions)
    if np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return 0.0
    with warnings.catch_warnings():
        # An untrained model says nearly the same of every example; that is no news to warn of.
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return statistic(target, prediction)


COMPUTE = {
    "auc@THRESHOLD": measure_auc,
    "mae": measure_mae,
    "mse": measure_mse,
    "pearson": measure_pearson,
    "rmse": measure_rmse,
    "spearman": measure_spearman,
}
