"""Metrics of masked-language modelling.

The target of a text is the number of its masked pieces, the prediction the sum of their log
probabilities, the score the share of them that had the highest one; so the means are over all
masked pieces of a split, however they came in batches.
"""

from typing import cast

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions
from nlp_core.metrics.language_model import measure_perplexity


def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of all masked pieces that had the highest score.

    Raises:
        DataError: no piece is masked.
    """
    counts = [cast(float, value) for value in predictions.target]
    assert predictions.score is not None, "each text has the share predicted"
    if sum(counts) == 0:
        raise DataError("accuracy: found no masked piece, expected at least one.")
    right = sum(n * float(share) for n, (share,) in zip(counts, predictions.score, strict=True))
    return right / sum(counts)


COMPUTE = {"accuracy": measure_accuracy, "perplexity": measure_perplexity}
