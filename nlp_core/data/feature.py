"""What a raw-input layer reads of a split, as arrays.

Shape letters: B batch, T tokens, U distinct words, C characters or pieces in a word, W numbers.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nlp_core.data.batching import Ragged
from nlp_core.data.split_column import Rows


class Feature(Protocol):
    """A column of a split as the arrays that a block reads."""

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the arrays of some examples, padded to the longest of them."""


@dataclass(frozen=True)
class TokenIds:
    """An id per token; 0 is padding."""

    ids: Ragged

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return ids [B, T]."""
        return (self.ids.take(rows),)


@dataclass(frozen=True)
class Numbers:
    """Numbers of an example or of its tokens.

    Attributes:
        values: of all examples, [N, W], or all their tokens, flat, [total, W].
        offsets: start of each example's tokens, and the end, [N + 1]; None: numbers of examples.
    """

    values: np.ndarray
    offsets: np.ndarray | None

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return numbers [B, W] or [B, T, W], 0 at padding."""
        if self.offsets is None:
            return (self.values[rows],)
        places = Ragged(np.arange(len(self.values)), self.offsets)
        inside = places.mask(rows)[..., None]
        return (np.where(inside, self.values[places.take(rows)], np.float32(0.0)),)


@dataclass(frozen=True)
class Spellings:
    """Several ids per token, stored once for each distinct word.

    Attributes:
        words: the number of each token's word.
        ids: pieces or characters of the distinct words, [U, C], 0 after the end.
    """

    words: Ragged
    ids: Rows

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the ids of the batch's distinct words, [U, C], and the word of each token, [B, T].

        At padding is any word of the batch.
        """
        words, mask = self.words.take(rows), self.words.mask(rows)
        distinct, index = np.unique(np.where(mask, words, words[0, 0]), return_inverse=True)
        ids = self.ids[distinct]
        width = max(int((ids != 0).sum(axis=1).max()), 1)
        return ids[:, :width], index.reshape(words.shape)
