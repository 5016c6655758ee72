"""The columns of a parquet file, read a chunk of rows at a time.

Memory does not grow with the texts: words are numbered, and from MOST_IN_MEMORY tokens on the
numbers are those of a mapped file.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.column import NUMBERS
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
    """Return an array's numbers; its to_numpy imports pandas, half a second of a start-up."""
    dtype = numbers.type.to_pandas_dtype()
    if not len(numbers):
        return np.empty(0, dtype)
    found = np.frombuffer(numbers.buffers()[1], dtype=dtype)
    return found[numbers.offset : numbers.offset + len(numbers)]


class StoredNumbers(NamedTuple):
    """A column of numbers.

    Attributes:
        values: flat.
        lengths: numbers of each row; empty where each row has one number, not a list.
    """

    values: np.ndarray
    lengths: np.ndarray

    def build_column(self, name: str, where: str) -> NumberColumn:
        """Return dense.NAME or token_dense.NAME.

        Args:
            name: of the column.
            where: file, for error messages.
        """
        if name.startswith(NUMBERS):
            return NumberColumn(self.values.reshape(len(self.lengths), -1), None, where)
        offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        return NumberColumn(self.values[:, None], offsets, where)


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
        file: an open file.
        names: of the columns.
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

    Args:
        folder: of the file that numbers are mapped from.
        max_words: of the lexicon; the most frequent are kept, of equally frequent ones the first.
    """

    def __init__(self, folder: Path, max_words: int) -> None:
        self._max_words = max_words
        self._numbers = _Numbers()
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
        needed = self._numbers.last
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
        if len(self._numbers) == self._numbers.last:
            return TextColumn(list(self._numbers), numbers, starts, lengths)
        lexicon = [DROPPED_WORD, *self._numbers]
        final = np.full(self._numbers.last, DROPPED, dtype=np.int32)
        final[np.fromiter(self._numbers.values(), np.int64)] = np.arange(1, len(lexicon))
        for start in range(0, len(numbers), NUMBERS_A_CHUNK):
            chunk = slice(start, start + NUMBERS_A_CHUNK)
            numbers[chunk] = final[numbers[chunk]]
        return TextColumn(lexicon, numbers, starts, lengths, DROPPED)

    def _forget(self, size: int) -> None:
        if len(self._numbers) <= size:
            return
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


class _Numbers(dict[str, int]):
    """Number words as they come; a number is never given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0

    def __missing__(self, word: str) -> int:
        number = self[word] = self.last
        self.last += 1
        return number


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
