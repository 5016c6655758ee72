"""Decode a linear-chain random field, as the head crf_tagging does, in 64-bit floats.

Shape letters: B batch, T tokens, L labels; I the labels of the token before.
"""

from pathlib import Path

import numpy as np

CHUNK = 1 << 15
"""Pairs of labels of all sentences that are looked at in one step; more do not fit the cache."""


class Field:
    """The scores of pairs of labels.

    Args:
        start_L: of the first label.
        end_L: of the last label.
        transition_IL: from the label of a row to that of a column.
    """

    def __init__(self, start_L: np.ndarray, end_L: np.ndarray, transition_IL: np.ndarray) -> None:
        self._start_L, self._end_L = start_L, end_L
        self._transition_LI = np.ascontiguousarray(transition_IL.T)
        self._start_odds_L = np.exp(start_L - start_L.max())
        self._end_odds_L = np.exp(end_L - end_L.max())
        self._odds_IL = np.exp(transition_IL - transition_IL.max())
        self._odds_LI = np.ascontiguousarray(self._odds_IL.T)

    @classmethod
    def read(cls, path: Path) -> "Field":
        """Read a file of [L + 2, L]: start, end, and the transitions from the label of a row."""
        found = np.load(path, allow_pickle=False).astype(np.float64)
        return cls(found[0], found[1], found[2:])

    def decode(
        self, scores_BTL: np.ndarray, sizes_B: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the likeliest labels of each sentence, and the probability of each of them.

        Args:
            scores_BTL: of each label at each token.
            sizes_B: tokens of each sentence, at least 1.
        """
        paths: list[np.ndarray] = []
        chances: list[np.ndarray] = []
        step = max(CHUNK // len(self._start_L) ** 2, 1)
        for first in range(0, len(sizes_B), step):
            sizes = sizes_B[first : first + step]
            part = scores_BTL[first : first + step, : sizes.max()].transpose(1, 0, 2)
            emission_TBL = part.astype(np.float64)
            own = self._find_best_paths(emission_TBL, sizes)
            odds_TBL = self._find_marginals(emission_TBL, sizes)
            paths += own
            chances += [odds_TBL[np.arange(len(path)), row, path] for row, path in enumerate(own)]
        return paths, chances

    def _find_best_paths(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> list[np.ndarray]:
        """Return the labels of the highest score (Viterbi) of each sentence."""
        score_BL = emission_TBL[0] + self._start_L
        scores = [score_BL]
        for emission_BL in emission_TBL[1:]:
            score_BL = (score_BL[:, None] + self._transition_LI).max(-1) + emission_BL
            scores.append(score_BL)
        paths = []
        for row, size in enumerate(sizes_B.tolist()):
            label = int((scores[size - 1][row] + self._end_L).argmax())
            path = [label]
            # the maximum is looked for again where the path is: cheaper than to keep all of them
            for score_BL in scores[size - 2 :: -1] if size > 1 else ():
                label = int((score_BL[row] + self._transition_LI[label]).argmax())
                path.append(label)
            paths.append(np.array(path[::-1]))
        return paths

    def _find_marginals(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [T, B, L].

        The forward and the backward algorithm in probabilities that are scaled anew at each token.
        """
        weight_TBL = np.exp(emission_TBL - emission_TBL.max(-1, keepdims=True))
        before_BL = _scale(weight_TBL[0] * self._start_odds_L)
        forward = [before_BL]
        for weight_BL in weight_TBL[1:]:
            before_BL = _scale((before_BL @ self._odds_IL) * weight_BL)
            forward.append(before_BL)
        after_BL = np.broadcast_to(self._end_odds_L, before_BL.shape)
        backward = [after_BL]
        is_ragged = bool((sizes_B < len(weight_TBL)).any())
        for idx in range(len(weight_TBL) - 1, 0, -1):
            after_BL = _scale((after_BL * weight_TBL[idx]) @ self._odds_LI)
            if is_ragged:
                after_BL = np.where((idx < sizes_B)[:, None], after_BL, self._end_odds_L)
            backward.append(after_BL)
        return _scale(np.stack(forward) * np.stack(backward[::-1]))


def _scale(weight: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = weight / weight.sum(-1, keepdims=True)
    return scaled
