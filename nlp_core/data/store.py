"""A file of examples as arrays on disk, read piece by piece: memory does not grow with the texts.

A store holds, for each text column, the numbers of its words (int32), the length of each text and a
lexicon of the words; labels and tags are kept in the same way. Nothing in it depends on a model:
vocabularies are made from the lexicon, and ids are looked up when a batch is read.
"""

import json
import logging
import os
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.config.reader import NUMBERS, PIECES, WHOLE_TEXTS
from nlp_core.data.batching import Ragged
from nlp_core.data.split_column import (
    Column,
    Encode,
    NumberColumn,
    RawText,
    Rows,
    TextColumn,
    WordText,
)
from nlp_core.data.task import join_answers
from nlp_core.errors import DataError, suggest
from nlp_core.kinds import LABEL, LABELS

log = logging.getLogger(__name__)

DROPPED = 0
"""Number of the words that were too rare to be told apart."""
DROPPED_WORD = "\0"
"""The word of that number, which no text can hold."""
NOTE = "note.json"
RAW = "raw_"
"""How the name of a column begins that holds a text as it stands, as one word."""
ROWS_A_CHUNK = 1 << 14


class NumberFile:
    """A file of int32 numbers of which slices are read; no page of it stays in the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def read(self, start: int, size: int) -> np.ndarray:
        """Return `size` numbers from place `start` on."""
        found = os.pread(self._file, 4 * size, 4 * start)
        assert len(found) == 4 * size, (start, size, len(found))
        return np.frombuffer(found, dtype=np.int32)


@dataclass(frozen=True)
class FileRagged(Ragged):
    """Rows of different lengths in a file.

    Attributes:
        values: what stands for each number of the file, [U].
        offsets: where each row begins, [N].
        sizes: length of each row, [N].
        file: the numbers.
    """

    sizes: np.ndarray
    file: NumberFile

    @property
    def lengths(self) -> np.ndarray:
        """Length of each row, [N]."""
        return self.sizes

    def take(self, rows: np.ndarray, padding: int = 0) -> np.ndarray:
        """Return some rows padded to the longest of them, [B, T]."""
        sizes = self.sizes[rows]
        shape = len(rows), max(int(sizes.max()), 1)
        taken: np.ndarray = np.full(shape, padding, dtype=self.values.dtype)
        for idx, (start, size) in enumerate(zip(self.offsets[rows], sizes, strict=True)):
            taken[idx, :size] = self.values[self.file.read(int(start), int(size))]
        return taken


class Made:
    """Rows that a function makes when they are asked for."""

    def __init__(self, make: Callable[[np.ndarray], np.ndarray]) -> None:
        self._make = make

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        return self._make(rows)


@dataclass(frozen=True)
class FileColumn:
    """The words of one text, or the labels or tags, of each example.

    Attributes:
        lexicon: the word of each number; the first one stands for all that were dropped.
        starts: where each example begins, [N].
        sizes: its length, [N].
        file: the numbers.
    """

    lexicon: list[str]
    starts: np.ndarray
    sizes: np.ndarray
    file: NumberFile

    def count(self) -> Counter[str]:
        """Return how often each word stands in the column; dropped words are left out."""
        counts = np.zeros(len(self.lexicon), dtype=np.int64)
        for start in range(0, len(self.starts), ROWS_A_CHUNK):
            rows = np.arange(start, min(start + ROWS_A_CHUNK, len(self.starts)))
            counts += np.bincount(self._read(rows), minlength=len(counts))
        counts[DROPPED] = 0
        found = np.flatnonzero(counts)
        return Counter({self.lexicon[number]: int(counts[number]) for number in found})

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""
        return self._ragged(encode(self.lexicon))

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the number of its word, and the characters of those words."""

        def make(numbers: np.ndarray) -> np.ndarray:
            return encode([self.lexicon[number] for number in numbers])

        return self._ragged(np.arange(len(self.lexicon))), Made(make)

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""
        return self._ragged(np.empty(0))

    def subset(self, rows: np.ndarray) -> "FileColumn":
        """Return the column of some rows."""
        return replace(self, starts=self.starts[rows], sizes=self.sizes[rows])

    def list_rows(self) -> list[list[str]]:
        """Return the words of every row."""
        return [
            [self.lexicon[number] for number in self.file.read(int(start), int(size))]
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]

    def gather(self) -> TextColumn:
        """Return the column in memory."""
        rows = self.list_rows()
        return TextColumn([*chain.from_iterable(rows)], np.cumsum([0, *map(len, rows)]))

    def _ragged(self, values: np.ndarray) -> FileRagged:
        return FileRagged(values, self.starts, self.sizes, self.file)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of a run of rows, of which some may be missing in between."""
        starts, sizes = self.starts[rows], self.sizes[rows]
        numbers = self.file.read(int(starts[0]), int(starts[-1] + sizes[-1] - starts[0]))
        places = np.repeat(starts - starts[0] - np.cumsum(sizes) + sizes, sizes)
        found: np.ndarray = numbers[places + np.arange(len(places))]
        return found


@dataclass(frozen=True)
class StoredSplit:
    """The examples of a store, or some of them.

    Attributes:
        name: train, dev, test ...
        path: the file they were read from, for error messages.
        ids: their row numbers in the file, [N].
        texts: text columns by name: tokens, tokens_a, tokens_b.
        targets: by name (label, labels, tags) labels or values.
        lines: by name each label and the line on which it stands first.
        group: question number of each candidate, [N]; None when the kind has no groups.
        pieces: columns that a pretrained encoder cuts into pieces of its own.
        raw: the texts as they stand in the file, of the columns of whole texts.
        numbers: columns of numbers by name (dense.votes, token_dense.surprisal), in memory.
    """

    name: str
    path: str
    ids: np.ndarray
    texts: dict[str, FileColumn]
    targets: dict[str, FileColumn | np.ndarray]
    lines: dict[str, dict[str, int]]
    group: np.ndarray | None
    pieces: tuple[str, ...] = ()
    raw: tuple[FileColumn, ...] = ()
    numbers: dict[str, NumberColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """All that a model can read; what an encoder cuts into pieces is read into memory."""
        pieces = {name: self._gather(name) for name in self.pieces}
        return {**self.texts, **self.numbers, **pieces}

    def read_raw(self) -> RawText:
        """Return the texts as they stand in the file, in memory."""
        first, *second = ([text for (text,) in item.list_rows()] for item in self.raw)
        return RawText(first, second[0] if second else None)

    def _gather(self, column: str) -> Column:
        """Return a column for a tokenizer of its own."""
        if column in WHOLE_TEXTS:
            return self.read_raw().list_columns()[column]
        has_context = column == f"tokens_b{PIECES}"
        before = self.texts["tokens_a"].gather() if has_context else None
        return WordText(self.texts[column.removesuffix(PIECES)].gather(), before)

    @cached_property
    def target(self) -> list[Any]:
        """The right answer of each example, see `join_answers`."""
        return join_answers({name: self._list_answers(name) for name in self.targets})

    def encode_target(self, name: str, labels: list[str]) -> Ragged | Rows:
        """Return label ids or values of a target.

        Args:
            name: label, labels or tags.
            labels: all labels of the task, in the order of their ids; none for values.

        Raises:
            DataError: a label that the task does not have; its line is named.
        """
        column = self.targets[name]
        if isinstance(column, np.ndarray):
            return column.astype(np.float32)
        number = {label: idx for idx, label in enumerate(labels)}
        for label, line in self.lines[name].items():
            if label not in number:
                raise DataError(
                    f"{self.path}: line {line}: found the label '{label}', which the training file "
                    f"does not have. {suggest(label, labels)}"
                )
        ragged = column.look_up(lambda words: np.array([number.get(word, -1) for word in words]))
        if name == LABEL:
            return Made(lambda rows: ragged.take(rows)[:, 0])
        if name == LABELS:
            every = np.arange(len(labels))
            return Made(
                lambda rows: (
                    (ragged.take(rows, padding=-1)[:, :, None] == every)
                    .any(axis=1)
                    .astype(np.float32)
                )
            )
        return ragged

    def subset(self, name: str, rows: np.ndarray) -> "StoredSplit":
        """Return some of the examples as a split of their own."""
        return replace(
            self,
            name=name,
            ids=self.ids[rows],
            texts={key: column.subset(rows) for key, column in self.texts.items()},
            targets={
                key: item[rows] if isinstance(item, np.ndarray) else item.subset(rows)
                for key, item in self.targets.items()
            },
            group=None if self.group is None else self.group[rows],
            raw=tuple(column.subset(rows) for column in self.raw),
            numbers={key: column.subset(rows) for key, column in self.numbers.items()},
        )

    def _list_answers(self, name: str) -> list[Any]:
        column = self.targets[name]
        if isinstance(column, np.ndarray):
            return [float(value) for value in column]
        rows = column.list_rows()
        if name == LABEL:
            return [label for (label,) in rows]
        return [tuple(row) for row in rows] if name == LABELS else rows


def read_store(folder: Path, name: str, path: Path) -> StoredSplit:
    """Open what `write_store` wrote.

    Args:
        folder: the store.
        name: of the split.
        path: the file that was stored, for error messages.
    """
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    if note["warning"]:
        log.warning("%s: %s", path, note["warning"])
    groups, is_number = folder / "group", (folder / LABEL).exists()
    return StoredSplit(
        name=name,
        path=str(path),
        ids=np.arange(note["rows"]),
        texts={key: _read_column(folder, key) for key in note["texts"]},
        targets={
            key: np.fromfile(folder / key, np.float64) if is_number else _read_column(folder, key)
            for key in note["lines"]
        },
        lines=note["lines"],
        group=np.fromfile(groups, np.int32) if groups.exists() else None,
        pieces=tuple(note.get("pieces", [])),
        raw=tuple(_read_column(folder, key) for key in note.get("raw", [])),
        numbers={key: _read_numbers(folder, key, path) for key in note.get("numbers", [])},
    )


def _read_column(folder: Path, name: str) -> FileColumn:
    sizes = np.fromfile(folder / f"{name}.lengths", dtype=np.int32)
    starts = np.cumsum(sizes, dtype=np.int64)
    starts -= sizes
    lexicon = json.loads((folder / f"{name}.lexicon.json").read_text(encoding="utf-8"))
    return FileColumn(lexicon, starts, sizes, NumberFile(folder / f"{name}.numbers"))


def _read_numbers(folder: Path, name: str, path: Path) -> NumberColumn:
    values = np.fromfile(folder / f"{name}.values", dtype=np.float64)
    sizes = np.fromfile(folder / f"{name}.sizes", dtype=np.int32)
    if not name.startswith(NUMBERS):
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return NumberColumn(values[:, None], offsets, str(path))
    return NumberColumn(values.reshape(len(sizes), -1), None, str(path))
