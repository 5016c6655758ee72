"""The columns of a split that a model can read: tokens, texts and numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from mmap import MADV_DONTNEED, mmap
from typing import Protocol

import numpy as np

from nlp_core.config.column import NUMBERS, SINGLE_TEXTS, TEXTS
from nlp_core.data.batching import LookedUp, Ragged

ROWS_A_CHUNK = 1 << 14
Encode = Callable[[list[str]], np.ndarray]
"""Return ids of words [N], or of the characters of words [N, C]."""


class Rows(Protocol):
    """An array, or a file that is read where it is indexed."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray: ...


class RowMaker:
    """Rows that a function makes when they are asked for."""

    def __init__(self, make: Callable[[np.ndarray], np.ndarray]) -> None:
        self._make = make

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        return self._make(rows)


@dataclass(frozen=True)
class TextColumn:
    """The tokens of one text of each example, as numbers of the words of a lexicon.

    Nothing in it depends on a model, and the numbers may be those of a mapped file: then memory
    does not grow with the texts, as long as neither `tokens` nor all rows are asked for.

    Attributes:
        lexicon: the word of each number.
        numbers: of the tokens, flat, [total].
        starts: where each example begins, [N].
        lengths: tokens of each example, [N].
        dropped: number of the words that were too rare to be kept; None: there are none.
    """

    lexicon: list[str]
    numbers: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    dropped: int | None = None

    @classmethod
    def build(cls, tokens: Sequence[str], offsets: np.ndarray) -> "TextColumn":
        """Number the words of a column.

        Args:
            tokens: all tokens of all examples, in order.
            offsets: where each example begins, and the end, [N + 1].
        """
        number = {word: idx for idx, word in enumerate(dict.fromkeys(tokens))}
        numbers = np.array([number[word] for word in tokens], dtype=np.int32)
        return cls(list(number), numbers, offsets[:-1], np.diff(offsets))

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens of all examples, in order."""
        return list(chain.from_iterable(self.list_rows()))

    @property
    def offsets(self) -> np.ndarray:
        """Where each example begins in `tokens`, and the end, [N + 1]."""
        offsets: np.ndarray = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        return offsets

    def count(self) -> Counter[str]:
        """Return the frequency of each word in the column; dropped words are left out."""
        counts = np.zeros(len(self.lexicon), dtype=np.int64)
        for start in range(0, len(self.starts), ROWS_A_CHUNK):
            counts += np.bincount(self._read(start), minlength=len(counts))
            if isinstance(self.numbers.base, mmap):
                self.numbers.base.madvise(MADV_DONTNEED)  # no page of the file stays resident
        if self.dropped is not None:
            counts[self.dropped] = 0
        found = np.flatnonzero(counts)
        return Counter({self.lexicon[number]: int(counts[number]) for number in found})

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens, which are looked up when a batch is taken."""
        return self._look_up(encode(self.lexicon))

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the place of its word in order, and what makes the characters."""
        order = sorted(range(len(self.lexicon)), key=self.lexicon.__getitem__)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        return self._look_up(places), RowMaker(
            lambda rows: encode([self.lexicon[order[row]] for row in rows])
        )

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""
        return self._look_up(np.empty(0))

    def row(self, row: int) -> list[str]:
        """Return the tokens of one example."""
        start = int(self.starts[row])
        numbers = self.numbers[start : start + int(self.lengths[row])]
        return [self.lexicon[number] for number in numbers.tolist()]

    def list_rows(self) -> list[list[str]]:
        """Return the tokens of every example."""
        return [self.row(row) for row in range(len(self.starts))]

    def subset(self, rows: np.ndarray) -> "TextColumn":
        """Return the column of some rows."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def _look_up(self, values: np.ndarray) -> Ragged:
        return LookedUp(values, self.starts, self.lengths, self.numbers)

    def _read(self, start: int) -> np.ndarray:
        """Return the numbers of a chunk of rows, of which some may be missing in between."""
        chunk = slice(start, start + ROWS_A_CHUNK)
        starts, sizes = self.starts[chunk], self.lengths[chunk]
        places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        found: np.ndarray = self.numbers[places + np.arange(len(places))]
        return found


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

    def subset(self, rows: np.ndarray) -> "RawText":
        """Return the texts of some rows."""
        first, second = (
            None if texts is None else [texts[row] for row in rows.tolist()]
            for texts in (self.first, self.second)
        )
        assert first is not None
        return RawText(first, second)

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


Column = TextColumn | NumberColumn | RawText | WordText
"""What a raw-input layer can read."""
