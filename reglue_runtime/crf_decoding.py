"""A conditional random field: the best tags of a sentence, and their probabilities.

In 64-bit floats. Shape letters: B batch, T tokens, L labels; I the labels of the token before.
"""

from pathlib import Path

import numpy as np

MARGIN = 1e-9
"""Far more than rounding may add to a difference of scores."""
MANY_LABELS = 32
"""From this many on it pays to skip labels that are on no best path."""


class CRF:
    """A linear-chain CRF, decoded in 64-bit floats as the head crf_tagging does."""

    def __init__(self, start_L: np.ndarray, end_L: np.ndarray, transition_IL: np.ndarray) -> None:
        self._start_L, self._end_L = start_L, end_L
        self._transition_IL = transition_IL
        self._transition_LI = np.ascontiguousarray(transition_IL.T)
        self._best_step_I = transition_IL.max(1)
        self._worst_step_I = transition_IL.min(1)
        self._start_odds_L = np.exp(start_L - start_L.max())
        self._end_odds_L = np.exp(end_L - end_L.max())
        self._odds_IL = np.exp(transition_IL - transition_IL.max())
        self._odds_LI = np.ascontiguousarray(self._odds_IL.T)

    @classmethod
    def read(cls, path: Path) -> "CRF":
        """Read a file of [L + 2, L]: start, end, and the transitions from each row's label."""
        found = np.load(path, allow_pickle=False).astype(np.float64)
        return cls(found[0], found[1], found[2:])

    def decode(
        self, scores_BTL: np.ndarray, sizes_B: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the best path of each sentence and the marginal probability of its labels.

        `sizes_B`: tokens of each sentence, at least 1.
        """
        emission_TBL = scores_BTL.transpose(1, 0, 2).astype(np.float64)
        odds_TBL = self._find_marginals(emission_TBL, sizes_B)
        paths = self._find_best_paths(emission_TBL, sizes_B)
        probs = [odds_TBL[np.arange(len(path)), row, path] for row, path in enumerate(paths)]
        return paths, probs

    def find_marginals(self, scores_BTL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [B, T, L]; any at padding."""
        found_TBL = self._find_marginals(scores_BTL.transpose(1, 0, 2).astype(np.float64), sizes_B)
        return found_TBL.transpose(1, 0, 2)

    def _find_best_paths(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> list[np.ndarray]:
        """Return the Viterbi path of each sentence."""
        is_large = len(self._start_L) >= MANY_LABELS
        is_ragged = bool((sizes_B < len(emission_TBL)).any())
        score_BL = emission_TBL[0] + self._start_L
        scores = [score_BL]
        for idx, emission_BL in enumerate(emission_TBL[1:], start=1):
            kept = self._find_rivals(score_BL, sizes_B > idx) if is_large else slice(None)
            step_BIL = score_BL[:, kept, None] + self._transition_IL[kept]
            score_BL = step_BIL.max(1) + emission_BL
            scores.append(score_BL)
        if is_ragged:
            score_BL = np.stack(scores)[sizes_B - 1, np.arange(len(sizes_B))]
        label_B = (score_BL + self._end_L).argmax(-1)
        labels = [label_B]
        # the maximum is computed again along the path: cheaper than keeping all of them
        for idx in reversed(range(len(scores) - 1)):
            before_B = (scores[idx] + self._transition_LI[label_B]).argmax(-1)
            label_B = np.where(idx < sizes_B - 1, before_B, label_B) if is_ragged else before_B
            labels.append(label_B)
        path_BT = np.stack(labels[::-1], axis=1)
        return [path[:size] for path, size in zip(path_BT, sizes_B.tolist(), strict=True)]

    def _find_rivals(self, score_BL: np.ndarray, is_on_B: np.ndarray) -> np.ndarray:
        """Return the labels that a best path can continue from, in any unfinished sentence.

        A label whose best step is worse than another one's worst is on no best path; so the maximum
        over the rest is the maximum over all.
        """
        least_B = (score_BL + self._worst_step_I).max(-1) - MARGIN
        least_B[~is_on_B] = np.inf
        is_kept_BL = score_BL + self._best_step_I >= least_B[:, None]
        kept = np.flatnonzero(is_kept_BL.any(0))
        # nan scores of a graph that overflowed compare with nothing
        return kept if len(kept) else np.arange(len(self._start_L))

    def _find_marginals(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [T, B, L].

        Forward-backward in probabilities that are rescaled at each token.
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
