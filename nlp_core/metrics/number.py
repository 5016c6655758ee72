"""Metrics of numbers: those of a regression, and the probabilities that language models give.

The target of an example of a language model is the number of its predicted words or masked pieces,
the prediction the sum of their log probabilities, so that means are over all words of a split.
"""

import math
import warnings
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError
from nlp_core.metrics.base import THRESHOLD, Predictions, register
from nlp_core.metrics.classification import Area, Decision

KINDS = ("regression", "pair_regression")
LARGEST_EXPONENT = 700.0
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


def decide(predictions: Predictions, threshold: float) -> Decision:
    """Return the decision whether the target is at least a threshold."""
    target, prediction = _numbers(predictions)
    return Decision(f"at least {threshold:g}", target >= threshold, prediction)


@register("perplexity", "language_model", "masked_language_model", better="lower", in_points=False)
def measure_perplexity(predictions: Predictions) -> float:
    """Return exp(-sum of log p(word) / number of words), over all predicted words."""
    count = sum(cast(float, value) for value in predictions.target)
    if count == 0:
        raise DataError("found no word to predict, expected at least one.")
    mean = -sum(cast(float, value) for value in predictions.prediction) / count
    if not mean < LARGEST_EXPONENT:
        raise DataError(
            f"found a mean negative log probability of {mean:.6g}, expected less than "
            f"{LARGEST_EXPONENT:g}; the training diverged: lower its learning rate."
        )
    return math.exp(mean)


@register("accuracy", "masked_language_model")
def measure_masked_accuracy(predictions: Predictions) -> float:
    """Return the share of all masked pieces that are right; a score is the share of a text."""
    counts = [cast(float, value) for value in predictions.target]
    assert predictions.score is not None, "the share of each text"
    if sum(counts) == 0:
        raise DataError("found no masked piece, expected at least one.")
    right = sum(n * float(share) for n, (share,) in zip(counts, predictions.score, strict=True))
    return right / sum(counts)


register(f"auc{THRESHOLD}", *KINDS)(Area(decide))
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
