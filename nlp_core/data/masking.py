"""Which pieces of a batch are masked, and by what.

Shape letters: B batch, L pieces of a window, M masked pieces of a batch, V vocabulary.
"""

from typing import NamedTuple

import numpy as np

from nlp_core.config.pretraining import MaskingConfig

FIXED = -1
"""The word of a piece that is never masked: special pieces and padding."""


class Masked(NamedTuple):
    """A batch with masked pieces.

    Attributes:
        ids: what the model reads, [B, L].
        positions: where the flat batch is masked, sorted, [M].
        targets: the pieces that were masked, [M].
    """

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


def mask_pieces(
    ids_BL: np.ndarray,
    words_BL: np.ndarray,
    rule: MaskingConfig,
    *,
    mask: int,
    ordinary: np.ndarray,
    generator: np.random.Generator,
) -> Masked:
    """Choose pieces of each window and hide most of them.

    Of n pieces that may be masked, max(1, round(share n)) are, and at most `most`.

    Args:
        ids_BL: the pieces.
        words_BL: the number of each piece's word in its window; FIXED where it is not masked.
        rule: how many and how.
        mask: id of the piece that hides another.
        ordinary: the pieces that a random one is drawn from.
        generator: draws all of it.

    Source: Devlin et al. 2019 (BERT), section 3.1 and appendix A.1.
    """
    width = ids_BL.shape[1]
    chosen = [choose_pieces(words_L, rule, generator) for words_L in words_BL]
    positions_M = np.concatenate([row * width + np.sort(found) for row, found in enumerate(chosen)])
    targets_M = ids_BL.ravel()[positions_M]
    draw_M = generator.random(len(positions_M))
    other_M = ordinary[generator.integers(len(ordinary), size=len(positions_M))]
    is_random_M = draw_M < rule.hidden_prob + rule.random_prob
    read_M = np.where(is_random_M, other_M, targets_M)
    read_M = np.where(draw_M < rule.hidden_prob, mask, read_M)
    masked_BL = ids_BL.copy()
    masked_BL.ravel()[positions_M] = read_M
    return Masked(masked_BL, positions_M, targets_M)


def choose_pieces(
    words_L: np.ndarray, rule: MaskingConfig, generator: np.random.Generator
) -> np.ndarray:
    """Return the positions of a window that are masked; none where nothing may be.

    With whole words a word that would be too much is passed over, so that a few pieces less than
    the share may be masked; the first word drawn is taken as long as it has at most `most` pieces.
    """
    (candidates,) = np.nonzero(words_L != FIXED)
    if not len(candidates):
        return candidates
    wanted = min(max(1, round(rule.share * len(candidates))), rule.most)
    if not rule.whole_words:
        return generator.permutation(candidates)[:wanted]
    begins = np.flatnonzero(np.diff(words_L[candidates], prepend=FIXED))
    words = np.split(candidates, begins[1:])
    taken: list[np.ndarray] = []
    num_taken = 0
    for idx in generator.permutation(len(words)):
        limit = wanted if taken else max(wanted, rule.most)
        if num_taken + len(words[idx]) <= limit:
            taken.append(words[idx])
            num_taken += len(words[idx])
        if num_taken >= wanted:
            break
    return np.concatenate(taken) if taken else candidates[:0]
