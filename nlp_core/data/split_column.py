"""The columns of a split that a model can read: tokens of texts, and numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from nlp_core.config.reader import NUMBERS, SINGLE_TEXTS, TEXTS
from nlp_core.data.batching import Ragged

Encode = Callable[[list[str]], np.ndarray]
"""Return ids of words [N], or of the characters of words [N, C]."""


class Rows(Protocol):
    """An array, or what makes rows of one when they are asked for."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        """Return some rows."""


class Text(Protocol):
    """A column of tokens: those of one text of each example, in memory or in a file."""

    def count(self) -> Counter[str]:
        """Return how often each word stands in the column."""

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the number of its word, and the characters of those words."""

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""


@dataclass(frozen=True)
class TextColumn:
    """The tokens of one text column, flat.

    Attributes:
        tokens: all tokens of all examples, in order.
        offsets: where each example begins, and the end, [N + 1].
    """

    tokens: list[str]
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, [N]."""
        return np.diff(self.offsets)

    def count(self) -> Counter[str]:
        """Return how often each word stands in the column."""
        return Counter(self.tokens)

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""
        return Ragged(encode(self.tokens), self.offsets)

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the number of its word, and the characters of those words."""
        distinct = sorted(set(self.tokens))
        number = {word: idx for idx, word in enumerate(distinct)}
        numbers = np.array([number[word] for word in self.tokens], dtype=np.int64)
        return Ragged(numbers, self.offsets), encode(distinct)

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""
        return Ragged(np.empty(0), self.offsets)

    def row(self, row: int) -> list[str]:
        """Return the tokens of one example."""
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True)
class NumberColumn:
    """The numbers of one column.

    Attributes:
        values: of all examples, [N, W], or all their tokens one behind the other, [total, 1].
        offsets: where the tokens of each example begin, and the end, [N + 1]; None: an example.
        where: the file that they come from, for error messages.
    """

    values: np.ndarray
    offsets: np.ndarray | None
    where: str = "input"

    @classmethod
    def build(
        cls, name: str, rows: Sequence[Sequence[float]], where: str = "input"
    ) -> "NumberColumn":
        """Return a column of the numbers of each example.

        Args:
            name: dense.NAME: as many in each row; else a number for each token.
            rows: the numbers.
            where: the file that they come from.
        """
        if name.startswith(NUMBERS):
            return cls(np.array(rows, dtype=np.float64), None, where)
        values = np.array([value for row in rows for value in row], dtype=np.float64)
        return cls(values[:, None], np.cumsum([0, *map(len, rows)]), where)

    def list_rows(self) -> list[list[float]]:
        """Return the numbers of every example."""
        if self.offsets is None:
            return [row.tolist() for row in self.values]
        return [row[:, 0].tolist() for row in np.split(self.values, self.offsets[1:-1])]

    def subset(self, rows: np.ndarray) -> "NumberColumn":
        """Return the column of some rows."""
        if self.offsets is None:
            return replace(self, values=self.values[rows])
        sizes = np.diff(self.offsets)[rows]
        begins = np.repeat(self.offsets[rows] - np.cumsum(sizes) + sizes, sizes)
        places = begins + np.arange(len(begins))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return replace(self, values=self.values[places], offsets=offsets)


@dataclass(frozen=True)
class RawText:
    """The texts of each example as they stand in the file, for tokenizers of their own.

    Attributes:
        first: the text, or the first of two.
        second: the second one; None where an example has one text.
    """

    first: Sequence[str]
    second: Sequence[str] | None

    def list_columns(self) -> dict[str, "RawText"]:
        """Return by column what a model can read: the texts and, of two, each by itself."""
        found = {TEXTS: self}
        if self.second is not None:
            texts = self.first, self.second
            for name, text in zip(SINGLE_TEXTS, texts, strict=True):
                found[name] = RawText(text, None)
        return found


@dataclass(frozen=True)
class WordText:
    """The tokens of one text of each example, each of which is to be cut into pieces.

    Attributes:
        words: the tokens.
        before: those of the text that is read before it; None where an example has one text.
    """

    words: TextColumn
    before: TextColumn | None


Column = Text | NumberColumn | RawText | WordText
"""What a raw-input layer can read."""
