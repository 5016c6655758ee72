"""Metrics of language models, also of masked ones.

The target of an example is the number of its predicted words or masked pieces, the prediction the
sum of their log probabilities, so that means are over all words of a split.
"""

import math
from typing import cast

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions, register

LARGEST_EXPONENT = 700.0


@register("perplexity", "language_model", "masked_language_model", better="lower", in_points=False)
def measure_perplexity(predictions: Predictions) -> float:
    """Return exp(-sum of log p(word) / number of words), over all predicted words.

    Raises:
        DataError: no word is predicted, or their mean probability is almost 0.
    """
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
def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of all masked pieces that are predicted right.

    The score of a text is its share of such pieces.
    """
    counts = [cast(float, value) for value in predictions.target]
    assert predictions.score is not None, "the share of each text"
    if sum(counts) == 0:
        raise DataError("found no masked piece, expected at least one.")
    right = sum(n * float(share) for n, (share,) in zip(counts, predictions.score, strict=True))
    return right / sum(counts)
