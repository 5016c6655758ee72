"""Decode a linear-chain random field, as the head crf_tagging does, in 64-bit floats.

Shape letters: B batch, T tokens, L labels.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Field:
    """The scores of pairs of labels.

    Attributes:
        start: of the first label, [L].
        end: of the last label, [L].
        transition: to the label of a row from that of a column, [L, L].
    """

    start: np.ndarray
    end: np.ndarray
    transition: np.ndarray

    @classmethod
    def read(cls, path: Path) -> "Field":
        """Read a file of [L + 2, L]: start, end, and from the label of a row to that of a column."""
        found = np.load(path, allow_pickle=False).astype(np.float64)
        return cls(found[0], found[1], np.ascontiguousarray(found[2:].T))

    def find_best_path(self, scores_BTL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the labels of the highest score (Viterbi), [B, T]; those behind an end are 0.

        Args:
            scores_BTL: of each label at each token.
            sizes_B: tokens of each sentence, at least 1.
        """
        emission_TBL = scores_BTL.astype(np.float64).transpose(1, 0, 2)
        score_BL = emission_TBL[0] + self.start
        last_BL = score_BL
        pointers = []
        for idx, emission_BL in enumerate(emission_TBL[1:], start=1):
            joint_BLL = score_BL[:, None, :] + self.transition
            best_BL = joint_BLL.argmax(-1)
            score_BL = np.take_along_axis(joint_BLL, best_BL[..., None], -1)[..., 0] + emission_BL
            last_BL = np.where((idx < sizes_B)[:, None], score_BL, last_BL)
            pointers.append(best_BL)
        path_BT = np.zeros(scores_BTL.shape[:2], dtype=np.int64)
        finish_B = (last_BL + self.end).argmax(-1)
        for row, (label, size) in enumerate(zip(finish_B, sizes_B, strict=True)):
            path_BT[row, size - 1] = label
            for idx in range(size - 2, -1, -1):
                path_BT[row, idx] = label = pointers[idx][row, label]
        return path_BT

    def find_marginals(self, scores_BTL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [B, T, L].

        The forward and the backward algorithm in probabilities that are scaled anew at each token.
        """
        emission_TBL = scores_BTL.astype(np.float64).transpose(1, 0, 2)
        weight_TBL = np.exp(emission_TBL - emission_TBL.max(-1, keepdims=True))
        step_LL = np.exp(self.transition - self.transition.max())
        end_L = np.exp(self.end - self.end.max())
        forward = [_scale(weight_TBL[0] * np.exp(self.start - self.start.max()))]
        for weight_BL in weight_TBL[1:]:
            forward.append(_scale((forward[-1] @ step_LL.T) * weight_BL))
        after_BL = np.broadcast_to(end_L, forward[0].shape)
        odds_TBL = np.empty_like(emission_TBL)
        for idx in range(len(forward) - 1, -1, -1):
            if idx + 1 < len(forward):
                passed_BL = _scale((after_BL * weight_TBL[idx + 1]) @ step_LL)
                after_BL = np.where((idx + 1 < sizes_B)[:, None], passed_BL, end_L)
            odds_TBL[idx] = _scale(forward[idx] * after_BL)
        return odds_TBL.transpose(1, 0, 2)


def _scale(weight_BL: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = weight_BL / weight_BL.sum(-1, keepdims=True)
    return scaled
