"""The runtime's random field finds the path that trying all paths finds, and its probabilities."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from reglue_runtime import crf_decoding
from reglue_runtime.crf_decoding import CRF

Numbers = NDArray[np.float64]


def weigh(
    path: Sequence[int], scores_TL: Numbers, start_L: Numbers, end_L: Numbers, pairs_IL: Numbers
) -> float:
    """Return the score of a path."""
    own = sum(scores_TL[idx, label] for idx, label in enumerate(path))
    between = sum(pairs_IL[pair] for pair in itertools.pairwise(path))
    return float(start_L[path[0]] + own + between + end_L[path[-1]])


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("many", [1, 32])
@pytest.mark.parametrize("num_labels", [1, 2, 5])
def test_paths_and_probabilities_are_those_of_all_paths(
    num_labels: int, spread: float, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crf_decoding, "MANY_LABELS", many)
    rng = np.random.default_rng(num_labels)
    for _ in range(8):
        pairs_IL = rng.normal(size=(num_labels, num_labels)) * spread
        start_L, end_L = rng.normal(size=(2, num_labels))
        sizes = np.array([4, 1, int(rng.integers(1, 5))])
        scores_BTL = rng.normal(size=(3, 4, num_labels))
        for row, size in enumerate(sizes):
            scores_BTL[row, size:] = 0.0
        found, chances = CRF(start_L, end_L, pairs_IL).decode(scores_BTL, sizes)
        for row, size in enumerate(sizes):
            every = list(itertools.product(range(num_labels), repeat=int(size)))
            weights = np.array(
                [weigh(path, scores_BTL[row], start_L, end_L, pairs_IL) for path in every]
            )
            assert tuple(found[row]) == every[int(weights.argmax())]
            odds = np.exp(weights - weights.max())
            for idx, label in enumerate(found[row]):
                has_label = [path[idx] == label for path in every]
                expected = odds[has_label].sum() / odds.sum()
                assert chances[row][idx] == pytest.approx(expected, abs=1e-9)
