"""Metrics of a model of running text.

The target of an example is the number of its predicted words, the prediction the sum of their log
probabilities; so the mean is over all words of a split, however they came in batches.
"""

import math
from typing import cast

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions

LARGEST_EXPONENT = 700.0


def measure_perplexity(predictions: Predictions) -> float:
    """Return exp(-sum of log p(word) / number of words), over all predicted words.

    Raises:
        DataError: no word is predicted, or the model gives the words next to no probability.
    """
    count = sum(cast(float, value) for value in predictions.target)
    if count == 0:
        raise DataError("perplexity: found no word to predict, expected at least one.")
    mean = -sum(cast(float, value) for value in predictions.prediction) / count
    if not mean < LARGEST_EXPONENT:
        raise DataError(
            f"perplexity: found a mean negative log probability of {mean:.6g} a word, expected "
            f"less than {LARGEST_EXPONENT:g}; the training diverged: lower its learning rate."
        )
    return math.exp(mean)


COMPUTE = {"perplexity": measure_perplexity}
