"""Calibration: whether predicted probabilities are the frequencies of right answers."""

import numpy as np
from numpy.typing import NDArray

BINS = 15  # Guo et al. 2017, section 4


def compute_calibration_error(
    confidence: NDArray[np.floating], right: NDArray[np.bool_], *, bins: int = BINS
) -> float:
    """Return the expected calibration error: sum_b n_b / n * |accuracy_b - mean confidence_b|.

    Args:
        confidence: probability of each answer, [N].
        right: whether the answer is right, [N].
        bins: number of bins b of equal width on (0, 1], each with its upper edge.

    Source: Guo et al. 2017 (calibration of modern neural networks), equation 3.
    """
    edges = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    place = np.digitize(confidence, edges, right=True)
    gap = np.bincount(place, right - confidence.astype(np.float64), minlength=bins)
    return float(np.abs(gap).sum() / len(right))
