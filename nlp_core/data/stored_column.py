"""The columns of a parquet file, read a chunk of rows at a time.

Memory does not grow with the texts: words are numbered, and from MOST_IN_MEMORY tokens on the
numbers are those of a mapped file.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.column import NUMBERS, TOKEN_VECTORS
from nlp_core.data.batching import list_places
from nlp_core.data.split_column import NumberColumn, TextColumn

ROWS_A_CHUNK = 8192
MOST_IN_MEMORY = 1 << 24
"""Tokens of a column whose numbers are kept in memory: 64 MiB."""
NUMBERS_A_CHUNK = 1 << 20
LIVE_WORDS = 8
"""Words that are counted at once, in multiples of max_words; above it the rarest are forgotten."""
DROPPED = 0
"""Number of the words that were too rare to be kept."""
DROPPED_WORD = "\0"
"""The word of that number, which no text can hold."""


def view_numbers(numbers: pa.Array) -> np.ndarray:
    """Return an array's numbers, not copied.

    Arrow's to_numpy and to_pandas_dtype import pandas, which takes a tenth of a second.
    """
    found: np.ndarray = np.from_dlpack(numbers)
    return found


class StoredNumbers(NamedTuple):
    """A column of numbers.

    Attributes:
        values: flat.
        lengths: numbers of each row; empty where each row has one number, not a list.
    """

    values: np.ndarray
    lengths: np.ndarray

    def build_column(self, name: str, where: str, sizes: np.ndarray) -> NumberColumn:
        """Return dense.NAME, token_dense.NAME or token_vectors.NAME.

        Args:
            where: the file, for error messages.
            sizes: tokens of each row, of which each has a vector.
        """
        if name.startswith(NUMBERS):
            return NumberColumn(self.values.reshape(len(self.lengths), -1), None, where)
        is_vector = name.startswith(TOKEN_VECTORS)
        lengths = sizes if is_vector else self.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        width = len(self.values) // max(int(offsets[-1]), 1) if is_vector else 1
        return NumberColumn(self.values.reshape(int(offsets[-1]), width), offsets, where)


class StoredColumns(NamedTuple):
    """Columns of a file, by name.

    Attributes:
        lacking: the names of those that lack a value in some row, and are not read.
    """

    words: dict[str, TextColumn]
    numbers: dict[str, StoredNumbers]
    lacking: set[str]


def read_columns(
    file: pq.ParquetFile, names: Iterable[str], folder: Path, limits: Mapping[str, int]
) -> StoredColumns:
    """Read columns of a file.

    Args:
        folder: of the file that numbers of words are mapped from.
        limits: by column the most words to keep.
    """
    words: dict[str, _WordReader] = {}
    numbers: dict[str, _NumberReader] = {}
    for name in names:
        form = file.schema_arrow.field(name).type
        if pa.types.is_string(form.value_type if pa.types.is_list(form) else form):
            words[name] = _WordReader(folder, limits.get(name, sys.maxsize))
        else:
            numbers[name] = _NumberReader()
    readers: dict[str, _WordReader | _NumberReader] = {**words, **numbers}
    lacking: set[str] = set()
    for chunk in file.iter_batches(ROWS_A_CHUNK, columns=[*readers]):
        for name, reader in readers.items():
            if chunk.column(name).null_count:
                lacking.add(name)
            if name not in lacking:
                reader.add(chunk.column(name))
    return StoredColumns(
        {name: reader.close() for name, reader in words.items() if name not in lacking},
        {name: reader.close() for name, reader in numbers.items() if name not in lacking},
        lacking,
    )


class _WordReader:
    """A column of words, of one each row or several.

    At most `max_words` are kept, the most frequent ones, and of equally frequent ones the first.
    """

    def __init__(self, folder: Path, max_words: int) -> None:
        self._max_words = max_words
        # numbers words as they come, and never gives a number twice
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._has_dropped = False
        self._counts = np.zeros(1024, dtype=np.int64)
        self._lengths = [np.empty(0, dtype=np.int32)]
        self._spool = _Spool(folder)

    def add(self, rows: pa.Array) -> None:
        is_list = pa.types.is_list(rows.type)
        found = (rows.flatten() if is_list else rows).dictionary_encode()
        words, places = found.dictionary.to_pylist(), view_numbers(found.indices)
        numbers = np.array([self._numbers[word] for word in words], dtype=np.int32)
        self._spool.add(numbers[places])
        sizes = np.diff(view_numbers(rows.offsets)) if is_list else np.ones(len(rows), np.int32)
        self._lengths.append(sizes)
        needed = int(numbers.max(initial=-1)) + 1
        if needed > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(needed, dtype=np.int64)])
        self._counts[numbers] += np.bincount(places, minlength=len(numbers))
        if len(self._numbers) > LIVE_WORDS * self._max_words:
            self._forget(LIVE_WORDS * self._max_words // 2)

    def close(self) -> TextColumn:
        self._forget(self._max_words)
        numbers, lengths = self._spool.close(), np.concatenate(self._lengths)
        starts = np.cumsum(lengths, dtype=np.int64)
        starts -= lengths
        if not self._has_dropped:
            return TextColumn(list(self._numbers), numbers, starts, lengths)
        lexicon = [DROPPED_WORD, *self._numbers]
        final = np.full(len(self._counts), DROPPED, dtype=np.int32)
        final[np.fromiter(self._numbers.values(), np.int64)] = np.arange(1, len(lexicon))
        for start in range(0, len(numbers), NUMBERS_A_CHUNK):
            chunk = slice(start, start + NUMBERS_A_CHUNK)
            numbers[chunk] = final[numbers[chunk]]
        return TextColumn(lexicon, numbers, starts, lengths, DROPPED)

    def _forget(self, size: int) -> None:
        if len(self._numbers) <= size:
            return
        self._has_dropped = True
        words = list(self._numbers)
        counts = self._counts[np.fromiter(self._numbers.values(), np.int64)]
        for idx in np.argsort(-counts, kind="stable")[size:]:
            del self._numbers[words[idx]]


class _NumberReader:
    """A column of numbers, of one each row or several."""

    def __init__(self) -> None:
        self._values: list[np.ndarray] = []
        self._lengths = [np.empty(0, dtype=np.int32)]

    def add(self, rows: pa.Array) -> None:
        is_list = pa.types.is_list(rows.type)
        self._values.append(view_numbers(rows.flatten() if is_list else rows))
        if is_list:
            self._lengths.append(np.diff(view_numbers(rows.offsets)))

    def close(self) -> StoredNumbers:
        values = np.concatenate(self._values) if self._values else np.empty(0)
        return StoredNumbers(values, np.concatenate(self._lengths))


class _Spool:
    """Collect numbers in memory, or if they are many in a file without a name, and map it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None

    def add(self, numbers: np.ndarray) -> None:
        self._parts.append(numbers)
        if sum(map(len, self._parts)) > MOST_IN_MEMORY:
            self._flush()

    def close(self) -> np.ndarray:
        if self._file is None:
            return np.concatenate([np.empty(0, dtype=np.int32), *self._parts])
        self._flush()
        with self._file as file:
            file.flush()
            return np.memmap(file, np.int32, "r+")

    def _flush(self) -> None:
        self._file = self._file or TemporaryFile(dir=self._folder)  # noqa: SIM115  # kept open
        for part in self._parts:
            part.tofile(self._file)
        self._parts = []


NO_ANSWER = -1
"""First and last token of a question that its passage does not answer."""


@dataclass(frozen=True)
class Passages:
    """Passages with the offsets of their tokens.

    Attributes:
        texts: the passage of each example, [N].
        offsets: where each example begins in `starts` and `ends`, and the end, [N + 1].
        starts: offset of each token's first character, flat.
        ends: offset after each token's last character, flat.
        positions: first and last token of each answer, [N, 2], -1 without an answer; None if an
            answer is unknown or not found.
    """

    texts: pa.Array
    offsets: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    positions: np.ndarray | None

    @classmethod
    def read(cls, table: pa.Table) -> "Passages":
        """Read the columns of a processed split, as `columns.write_rows` writes them."""
        starts = table.column("starts_b").combine_chunks()
        offsets = view_numbers(starts.offsets)
        return cls(
            texts=table.column("text_b").combine_chunks(),
            offsets=offsets - offsets[0],
            starts=view_numbers(starts.flatten()),
            ends=view_numbers(table.column("ends_b").combine_chunks().flatten()),
            positions=_read_positions(table),
        )

    def subset(self, rows: np.ndarray) -> "Passages":
        sizes = np.diff(self.offsets)[rows]
        places = list_places(self.offsets[rows], sizes)
        return Passages(
            texts=self.texts.take(pa.array(rows)),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            starts=self.starts[places],
            ends=self.ends[places],
            positions=None if self.positions is None else self.positions[rows],
        )

    def cut(self, row: int, first: int, last: int) -> str:
        """Return the text from one token to another of an example; empty for NO_ANSWER."""
        if first == NO_ANSWER:
            return ""
        begin, end = self.offsets[row], self.offsets[row + 1]
        assert 0 <= first <= last < end - begin, (row, first, last)
        text: str = self.texts[row].as_py()
        return text[self.starts[begin + first] : self.ends[begin + last]]


def _read_positions(table: pa.Table) -> np.ndarray | None:
    columns = [table.column(name).to_pylist() for name in ("first", "last")]
    answerable = table.column("answerable").to_pylist()
    rows = []
    for first, last, has_answer in zip(*columns, answerable, strict=True):
        if has_answer is None or (has_answer and last is None):
            return None
        rows.append((first, last) if has_answer else (NO_ANSWER, NO_ANSWER))
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
