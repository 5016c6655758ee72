"""The columns of a split that a model can read: tokens, texts and numbers."""

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
    """An array, or a file that is read where it is indexed."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray: ...


class Text(Protocol):
    """The tokens of one text of each example, in memory or in a file."""

    def count(self) -> Counter[str]:
        """Return the frequency of each word."""

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return the number of each token's word, and the characters of those words."""

    def outline(self) -> Ragged:
        """Return only the lengths, for masks."""


@dataclass(frozen=True)
class TextColumn:
    """The tokens of one text of each example, flat.

    Attributes:
        offsets: start of each example, and the end, [N + 1].
    """

    tokens: list[str]
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, [N]."""
        return np.diff(self.offsets)

    def count(self) -> Counter[str]:
        return Counter(self.tokens)

    def look_up(self, encode: Encode) -> Ragged:
        return Ragged(encode(self.tokens), self.offsets)

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        distinct = sorted(set(self.tokens))
        number = {word: idx for idx, word in enumerate(distinct)}
        numbers = np.array([number[word] for word in self.tokens], dtype=np.int64)
        return Ragged(numbers, self.offsets), encode(distinct)

    def outline(self) -> Ragged:
        return Ragged(np.empty(0), self.offsets)

    def row(self, row: int) -> list[str]:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]


@dataclass(frozen=True)
class NumberColumn:
    """The numbers of one column.

    Attributes:
        values: of all examples, [N, W], or all their tokens, flat, [total, 1].
        offsets: start of each example's tokens, and the end, [N + 1]; None: numbers of examples.
        where: file, for error messages.
    """

    values: np.ndarray
    offsets: np.ndarray | None
    where: str = "input"

    @classmethod
    def build(
        cls, name: str, rows: Sequence[Sequence[float]], where: str = "input"
    ) -> "NumberColumn":
        """Make a column of dense.NAME or token_dense.NAME."""
        if name.startswith(NUMBERS):
            return cls(np.array(rows, dtype=np.float64), None, where)
        values = np.array([value for row in rows for value in row], dtype=np.float64)
        return cls(values[:, None], np.cumsum([0, *map(len, rows)]), where)

    def list_rows(self) -> list[list[float]]:
        if self.offsets is None:
            return [row.tolist() for row in self.values]
        return [row[:, 0].tolist() for row in np.split(self.values, self.offsets[1:-1])]

    def subset(self, rows: np.ndarray) -> "NumberColumn":
        if self.offsets is None:
            return replace(self, values=self.values[rows])
        sizes = np.diff(self.offsets)[rows]
        begins = np.repeat(self.offsets[rows] - np.cumsum(sizes) + sizes, sizes)
        places = begins + np.arange(len(begins))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return replace(self, values=self.values[places], offsets=offsets)


@dataclass(frozen=True)
class RawText:
    """The text, or both texts, of each example, for a model's own tokenizer.

    Attributes:
        second: None if an example has one text.
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
    """The tokens of one text of each example, which are to be cut into pieces.

    Attributes:
        before: the tokens of the text before it; None if an example has one text.
    """

    words: TextColumn
    before: TextColumn | None


Column = Text | NumberColumn | RawText | WordText
"""What a raw-input layer can read."""
