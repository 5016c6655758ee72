"""Which window of a long text shows a word best."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a compiled library that only models of pieces need
    from tokenizers import Encoding


def find_words(windows: Sequence["Encoding"], size: int, *, sequence: int) -> list[tuple[int, int]]:
    """Return for each word the window that shows most of what is around it, and its first piece.

    A word without any piece, such as a control character, has the place of the first piece of all.

    Args:
        windows: of one example.
        size: its words.
        sequence: whether the words are those of the first (0) or the second (1) text.
    """
    best: list[tuple[int, int, int]] = [(-1, 0, 0)] * size
    for number, window in enumerate(windows):
        last = len(window.ids) - 1
        pieces = zip(window.word_ids, window.sequence_ids, window.offsets, strict=True)
        for place, (word, owner, (start, _)) in enumerate(pieces):
            if word is None or owner != sequence or start != 0:
                continue
            around = min(place, last - place)
            # a later piece of a word begins at 0 too where it stands for nothing of its own
            is_later = best[word][1] == number and best[word][0] >= 0
            if around > best[word][0] and not is_later:
                best[word] = (around, number, place)
    return [(window, place) for _, window, place in best]
