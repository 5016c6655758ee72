"""Scores of slices of a split: short and long examples, with unseen words, in train.

Shape letters: S seeds, N examples or questions.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.traits import Traits
from nlp_core.site.breakdown import (
    LENGTHS,
    UNBOUNDED,
    Breakdown,
    format_mean,
    name_range,
    note_seeds,
)

WORDS = ((0, 0), *LENGTHS)
"""Fewest and most words of each slice; a text of punctuation has none."""
UNSEEN = ((0, 0), (1, 1), (2, UNBOUNDED))
Masks = Mapping[str, NDArray[np.bool_]]
NOTE = "A word is in lower case, without punctuation."
OVERLAP_NOTE = "Texts are compared without case, punctuation and whitespace."


def slice_scores(
    traits: Traits | None, units: str, name: str, ids: Sequence[int], scores_SN: NDArray[np.generic]
) -> list[Breakdown]:
    """Return the mean score of each slice by length, by unseen words and by overlap with train.

    A trait that all examples share gives no table. Without traits, or if an example has none, there
    is no table.

    Args:
        units: what is scored, in the plural.
        name: of the score.
    """
    if traits is None:
        return []
    places = {found: place for place, found in enumerate(traits.id.tolist())}
    if not all(idx in places for idx in ids):
        return []  # other data, which the report of the table says
    chosen = [places[idx] for idx in ids]
    found = []
    for title, column, note, masks in _list_slices(traits):
        masks_N = {key: mask[chosen] for key, mask in masks.items()}
        rows = [
            [key, f"{mask_N.sum():,}", format_mean(scores_SN[:, mask_N].ravel())]
            for key, mask_N in masks_N.items()
            if mask_N.any()
        ]
        if len(rows) > 1:
            note = note_seeds(note, len(scores_SN))
            found.append(Breakdown(title, [column, units, name], rows, note))
    return found


def _list_slices(traits: Traits) -> Iterator[tuple[str, str, str, Masks]]:
    """Yield title, first column, note and slices of each trait."""
    yield "By length", "words", NOTE, _cut(traits.words, WORDS)
    yield "By unseen words", "words that train lacks", NOTE, _cut(traits.unseen, UNSEEN)
    overlap = {"in train": traits.in_train, "not in train": ~traits.in_train}
    yield "By overlap with train", "texts", OVERLAP_NOTE, overlap


def _cut(values_N: NDArray[np.int32], bounds: Sequence[tuple[int, int]]) -> Masks:
    return {name_range(low, high): (values_N >= low) & (values_N <= high) for low, high in bounds}
