"""The columns of a split: the tokens, texts and numbers that a model can read, and the labels."""

import mmap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, overload

import numpy as np

from nlp_core.config.column import NUMBERS, SINGLE_TEXTS, TEXTS
from nlp_core.data.batching import LookedUp, Ragged, list_places
from nlp_core.errors import DataError, suggest
from nlp_core.kinds import LABEL, LABELS, OUTPUT, TREE
from reglue_runtime.tree import OPEN, REDUCE, SHIFT, opens

ROWS_A_CHUNK = 1 << 14
Encode = Callable[[list[str]], np.ndarray]
"""Return ids of words [N], or of the characters of words [N, C]."""


class Rows(Protocol):
    """An array, or a file that is read where it is indexed."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray: ...


class RowMaker:
    def __init__(self, make: Callable[[np.ndarray], np.ndarray]) -> None:
        self._make = make

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        return self._make(rows)


@dataclass(frozen=True)
class TextColumn:
    """The tokens of one text of each example, as numbers of the words of a lexicon.

    The numbers may be those of a mapped file: then memory does not grow with the texts, as long as
    neither `tokens` nor all rows are asked for.

    Attributes:
        lexicon: the word of each number.
        numbers: of the tokens, flat, [total].
        starts: where each example begins, [N].
        lengths: tokens of each example, [N].
        dropped: number of the words that were too rare to be kept; None: all were kept.
    """

    lexicon: list[str]
    numbers: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    dropped: int | None = None

    @classmethod
    def build(cls, tokens: Sequence[str], offsets: np.ndarray) -> "TextColumn":
        """Number the words of a column; `offsets` are the bounds of its examples, [N + 1]."""
        number = {word: idx for idx, word in enumerate(dict.fromkeys(tokens))}
        numbers = np.array([number[word] for word in tokens], dtype=np.int32)
        return cls(list(number), numbers, offsets[:-1], np.diff(offsets))

    @classmethod
    def join(cls, rows: Sequence[Sequence[str]]) -> "TextColumn":
        """Number the words of rows of tokens."""
        return cls.build([*chain.from_iterable(rows)], np.cumsum([0, *map(len, rows)]))

    @cached_property
    def tokens(self) -> list[str]:
        return list(chain.from_iterable(self.list_rows()))

    @property
    def offsets(self) -> np.ndarray:
        """Where each example begins in `tokens`, and the end, [N + 1]."""
        offsets: np.ndarray = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        return offsets

    def count(self) -> Counter[str]:
        """Return how often each word occurs; dropped words are left out."""
        counts = np.zeros(len(self.lexicon), dtype=np.int64)
        for start in range(0, len(self.starts), ROWS_A_CHUNK):
            counts += np.bincount(self._read(start), minlength=len(counts))
            # no page of the file stays resident; Windows cannot be asked
            if isinstance(self.numbers.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                self.numbers.base.madvise(mmap.MADV_DONTNEED)
        if self.dropped is not None:
            counts[self.dropped] = 0
        found = np.flatnonzero(counts)
        return Counter({self.lexicon[number]: int(counts[number]) for number in found})

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens, which are looked up when a batch is taken."""
        return self._look_up(encode(self.lexicon))

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return the place of each token's word in sorted order, and the words' characters."""
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
        start = int(self.starts[row])
        numbers = self.numbers[start : start + int(self.lengths[row])]
        return [self.lexicon[number] for number in numbers.tolist()]

    def list_rows(self) -> list[list[str]]:
        return [self.row(row) for row in range(len(self.starts))]

    def subset(self, rows: np.ndarray) -> "TextColumn":
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def _look_up(self, values: np.ndarray) -> Ragged:
        return LookedUp(values, self.starts, self.lengths, self.numbers)

    def _read(self, start: int) -> np.ndarray:
        chunk = slice(start, start + ROWS_A_CHUNK)
        found: np.ndarray = self.numbers[list_places(self.starts[chunk], self.lengths[chunk])]
        return found


@dataclass(frozen=True)
class NumberColumn:
    """The numbers of one column.

    Attributes:
        values: of all examples, [N, W], or all their tokens, flat, [total, W]; W = 1 for a number.
        offsets: start of each example's tokens, and the end, [N + 1]; None: numbers of examples.
        where: file, for error messages.
    """

    values: np.ndarray
    offsets: np.ndarray | None
    where: str = "input"

    @classmethod
    def build(
        cls, name: str, rows: Sequence[Sequence[Any]], where: str = "input"
    ) -> "NumberColumn":
        """Make a column of dense.NAME, token_dense.NAME or token_vectors.NAME."""
        widths = {len(row) for row in rows} if name.startswith(NUMBERS) else set[int]()
        if len(widths) > 1:
            raise DataError(
                f"{where}: found {min(widths)} numbers in one row of '{name}' and {max(widths)} in "
                "another, expected as many in each."
            )
        if name.startswith(NUMBERS):
            return cls(np.array(rows, dtype=np.float64), None, where)
        values = np.array([value for row in rows for value in row], dtype=np.float64)
        return cls(values.reshape(len(values), -1), np.cumsum([0, *map(len, rows)]), where)

    def list_rows(self) -> list[list[Any]]:
        """Return the numbers of each example: one, or a vector, for each of its tokens."""
        if self.offsets is None:
            return [row.tolist() for row in self.values]
        values = self.values if self.values.shape[1] > 1 else self.values[:, 0]
        return [row.tolist() for row in np.split(values, self.offsets[1:-1])]

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""
        assert self.offsets is not None, self.where
        return Ragged(np.empty(0), self.offsets)

    def subset(self, rows: np.ndarray) -> "NumberColumn":
        if self.offsets is None:
            return replace(self, values=self.values[rows])
        sizes = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        values = self.values[list_places(self.offsets[rows], sizes)]
        return replace(self, values=values, offsets=offsets)


@dataclass(frozen=True)
class RawText:
    """The text, or both texts, of each example, for a model's own tokenizer."""

    first: Sequence[str]
    second: Sequence[str] | None

    def subset(self, rows: np.ndarray) -> "RawText":
        chosen = rows.tolist()
        second = None if self.second is None else [self.second[row] for row in chosen]
        return RawText([self.first[row] for row in chosen], second)

    def list_columns(self) -> dict[str, "RawText"]:
        """Return by column what a model can read: the texts and, of two, each by itself."""
        if self.second is None:
            return {TEXTS: self}
        first, second = SINGLE_TEXTS
        return {TEXTS: self, first: RawText(self.first, None), second: RawText(self.second, None)}


@dataclass(frozen=True)
class WordText:
    """The tokens of one text of each example, to be cut into pieces.

    Attributes:
        before: the tokens of the text before it; None if an example has one text.
    """

    words: TextColumn
    before: TextColumn | None


Column = TextColumn | NumberColumn | RawText | WordText
"""What a raw-input layer can read."""


@dataclass(frozen=True)
class LabelColumn(Sequence[Any]):
    """The answers of each example: a label, a tuple of labels, a list of tags or symbols, a text.

    Attributes:
        target: label, labels, tags, tree or output.
        where: the file, for error messages.
        lines: first line of each label in the user's file.
        is_measured: whether the column is only measured, so that an unknown label gets the id -1.
    """

    target: str
    words: TextColumn
    where: str = "input"
    lines: Mapping[str, int] = field(default_factory=dict)
    is_measured: bool = False

    @classmethod
    def build(cls, target: str, rows: Sequence[Any]) -> "LabelColumn":
        lists = [[row] if target == LABEL else [*row] for row in rows]
        return cls(target, TextColumn.join(lists))

    def __len__(self) -> int:
        return len(self.words.starts)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[idx] for idx in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        found = self.words.row(row)
        if self.target == LABEL:
            return found[0]
        if self.target == OUTPUT:
            return " ".join(found)
        return tuple(found) if self.target == LABELS else found

    def encode(self, labels: list[str]) -> Ragged | Rows:
        """Return ids of labels or actions, or of several labels 1 at each.

        Raises:
            DataError: a label is unknown.
        """
        number = {label: idx for idx, label in enumerate(labels)}
        is_tree = self.target == TREE
        for label in list_openers(self.words.lexicon) if is_tree else self.words.lexicon:
            if label not in number and not self.is_measured:
                raise self._refuse(label, labels)
        if is_tree:
            return self.words.look_up(lambda symbols: _number_actions(symbols, number))
        ids = self.words.look_up(lambda words: np.array([number.get(word, -1) for word in words]))
        if self.target == LABEL:
            return RowMaker(lambda rows: ids.take(rows)[:, 0])
        if self.target != LABELS:
            return ids
        every = np.arange(len(labels))
        return RowMaker(
            lambda rows: (
                (ids.take(rows, padding=-1)[:, :, None] == every).any(axis=1).astype(np.float32)
            )
        )

    def subset(self, rows: np.ndarray) -> "LabelColumn":
        return replace(self, words=self.words.subset(rows))

    def _refuse(self, label: str, labels: list[str]) -> DataError:
        line, hint = self.lines.get(label), suggest(label, labels)
        if line is None:
            place, other = self.where, "the task's manifest does not name"
        else:
            place, other = f"{self.where}: line {line}", "the training file does not have"
        return DataError(f"{place}: found the label '{label}', which {other}. {hint}")


def list_openers(symbols: Iterable[str]) -> list[str]:
    """Return the labels of the constituents that symbols of a tree open."""
    return [symbol[1:] for symbol in symbols if opens(symbol)]


def _number_actions(symbols: list[str], number: Mapping[str, int]) -> np.ndarray:
    """Return the action that writes each symbol of a tree."""
    actions = {"]": REDUCE} | {f"[{label}": OPEN + idx for label, idx in number.items()}
    return np.array([actions.get(symbol, SHIFT) for symbol in symbols], dtype=np.int64)
