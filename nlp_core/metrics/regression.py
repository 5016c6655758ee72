"""Metrics of a task with one number for each example."""

import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nlp_core.metrics.base import THRESHOLD, Predictions, register
from nlp_core.metrics.binary import Decision, compute_auc

KINDS = ("regression", "pair_regression")
Numbers = NDArray[np.float64]


def measure_correlation(statistic: str, predictions: Predictions) -> float:
    """Return a correlation of SciPy; 0 if all targets or all predictions are the same."""
    from scipy import stats

    target, prediction = _numbers(predictions)
    if np.ptp(target) == 0 or np.ptp(prediction) == 0:
        return 0.0
    with warnings.catch_warnings():
        # the predictions of an untrained model are nearly constant
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(getattr(stats, statistic)(target, prediction).statistic)


def measure_error(error: str, predictions: Predictions) -> float:
    from sklearn import metrics

    return float(getattr(metrics, error)(*_numbers(predictions)))


@register(f"auc{THRESHOLD}", *KINDS)
def measure_auc(predictions: Predictions, threshold: float) -> float:
    """Return the area under the ROC curve of the decision: is the target at least a threshold?"""
    target, prediction = _numbers(predictions)
    return compute_auc(Decision(f"at least {threshold:g}", target >= threshold, prediction))


register("pearson", *KINDS)(partial(measure_correlation, "pearsonr"))
register("spearman", *KINDS)(partial(measure_correlation, "spearmanr"))
for name, error in (
    ("mae", "mean_absolute_error"),
    ("mse", "mean_squared_error"),
    ("rmse", "root_mean_squared_error"),
):
    register(name, *KINDS, better="lower", in_points=False)(partial(measure_error, error))


def _numbers(predictions: Predictions) -> tuple[Numbers, Numbers]:
    target = np.asarray(predictions.target, dtype=np.float64)
    return target, np.asarray(predictions.prediction, dtype=np.float64)
