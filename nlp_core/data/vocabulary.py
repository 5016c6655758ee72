"""Vocabularies: the id of a word or a character, made from the training split.

A word outside the training split that has a pretrained vector gets the id V + row, where V is the
size of the vocabulary and row the vector's row in its table.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from safetensors.numpy import load_file, save_file

from nlp_core.data.feature import Feature, Spellings, TokenIds
from nlp_core.data.split_column import Column, NumberColumn, RawText, TextColumn, WordText
from nlp_core.errors import DataError, suggest
from nlp_core.files import digest_file, write_text
from reglue_runtime.text import SPECIAL, zero_digits

PADDING = 0
UNKNOWN = 1
Options = Mapping[str, Any]  # Any: options of any block


@runtime_checkable
class Vocabulary(Protocol):
    """How the column of a raw-input layer becomes numbers.

    `options` are those of the layer in the model file, `init` is the folder of the vector tables or
    of the encoder.
    """

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        """Make the vocabulary from the training split, of all layers that share it.

        Raises:
            DataError: a file that an option names is missing or malformed, or does not fit.
        """

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        """Make the vocabulary from the result of `describe`."""

    def describe(self) -> dict[str, Any]:
        """Return the JSON that is stored with a model's weights."""

    def read(self, column: Column) -> Feature:
        """Turn a column of any split into numbers."""

    def __len__(self) -> int:
        """Return the number of ids, or the size that the block's constructor takes first."""


@dataclass(frozen=True)
class WordVectors:
    """Pretrained word vectors, [R, D] float32, and the row of each word."""

    vectors: np.ndarray
    row_of: dict[str, int]

    def find(self, word: str) -> int:
        """Return the row of the word, else that of its lower-case form, else -1."""
        row = self.row_of.get(word)
        return self.row_of.get(word.lower(), -1) if row is None else row


def read_vectors(folder: Path, table: str, dim: int) -> WordVectors:
    """Read one table of a processed folder of kind `vectors`.

    Raises:
        DataError: the folder has no such table, or its width is not `dim`.
    """
    path = folder / f"{table}.safetensors"
    if not path.exists():
        tables = [item.stem for item in folder.glob("*.safetensors")]
        raise DataError(f"{folder}: found no vector table '{table}'. {suggest(table, tables)}")
    vectors = load_file(path)["vectors"]
    if vectors.shape[1] != dim:
        raise DataError(
            f"{path}: found vectors of width {vectors.shape[1]}, expected {dim}, the 'dim' of the "
            "layer; change one of the two."
        )
    words = (folder / f"{table}.words.txt").read_text(encoding="utf-8").split("\n")
    return WordVectors(vectors, {word: row for row, word in enumerate(words[: len(vectors)])})


def write_vectors(
    folder: Path, table: str, words: Iterable[str], vectors: np.ndarray
) -> dict[str, object]:
    """Write one table of a processed folder of kind `vectors`, and return its manifest entry."""
    path = folder / f"{table}.safetensors"
    save_file({"vectors": vectors}, path)
    write_text(folder / f"{table}.words.txt", "".join(f"{word}\n" for word in words))
    return {"rows": len(vectors), "dim": vectors.shape[1], "sha256": digest_file(path)}


@dataclass(frozen=True)
class WordRules:
    """How a word is normalized before it is looked up; see the word_embedding block."""

    lowercase: bool = False
    digits_to_zero: bool = False
    min_count: int = 1

    @classmethod
    def from_options(cls, options: Options) -> "WordRules":
        names = ("lowercase", "digits_to_zero", "min_count")
        return cls(**{name: options[name] for name in names if name in options})

    def fold(self, word: str, table: WordVectors | None) -> str:
        if self.lowercase:
            word = word.lower()
        if self.digits_to_zero and (table is None or table.find(word) < 0):
            word = zero_digits(word)
        return word


@dataclass(frozen=True)
class WordVocabulary:
    """Ids of words.

    Attributes:
        words: the word of each id, padding and unknown first.
        counts: frequency of each in the training split.
        rules: how words are normalized.
        table: pretrained vectors, if any.
    """

    words: list[str]
    counts: list[int]
    rules: WordRules
    table: WordVectors | None

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        return cls.build(count_words(columns), *_read_options(options, init))

    @classmethod
    def build(cls, words: Iterable[str], rules: WordRules, table: WordVectors | None) -> Self:
        """Number the words of the training split (or their counts), the most frequent first."""
        counter: Counter[str] = Counter()
        for word, count in Counter(words).items():
            if word not in SPECIAL:
                counter[rules.fold(word, table)] += count
        kept = [
            (word, count)
            for word, count in counter.items()
            if count >= rules.min_count or (table is not None and table.find(word) >= 0)
        ]
        kept.sort(key=lambda item: (-item[1], item[0]))
        words = [*SPECIAL, *(word for word, _ in kept)]
        return cls(words, [0, 0, *(count for _, count in kept)], rules, table)

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        return cls(note["words"], note["counts"], *_read_options(options, init))

    def describe(self) -> dict[str, Any]:
        return {"words": self.words, "counts": self.counts}

    def __len__(self) -> int:
        return len(self.words)

    def read(self, column: Column) -> TokenIds:
        return TokenIds(require_text(column).look_up(self.encode))

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids of words, [N] int64."""
        found = {word: self._find(word) for word in set(words)}
        return np.array([found[word] for word in words], dtype=np.int64)

    def rows(self) -> np.ndarray:
        """Return the row of the vector table of each id, or -1, [V] int64."""
        found = [-1] * len(SPECIAL)
        for word in self.words[len(SPECIAL) :]:
            found.append(-1 if self.table is None else self.table.find(word))
        return np.array(found, dtype=np.int64)

    def rare(self) -> np.ndarray:
        """Return whether each id is a word seen once that has no vector, [V] bool."""
        rare: np.ndarray = (np.array(self.counts) == 1) & (self.rows() < 0)
        return rare

    @cached_property
    def ids(self) -> dict[str, int]:
        return _number(self.words)

    def _find(self, word: str) -> int:
        if word in SPECIAL:
            return UNKNOWN
        folded = self.rules.fold(word, self.table)
        known = self.ids.get(folded)
        if known is not None:
            return known
        row = -1 if self.table is None else self.table.find(folded)
        return UNKNOWN if row < 0 else len(self.words) + row


@dataclass(frozen=True)
class CharacterVocabulary:
    """The character of each id, padding and unknown first."""

    characters: list[str]

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        return cls.build(count_words(columns))

    @classmethod
    def build(cls, words: Iterable[str]) -> Self:
        """Number the characters of the training split in code point order."""
        return cls([*SPECIAL, *sorted(set().union(*set(words)))])

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        return cls(note["characters"])

    def describe(self) -> dict[str, Any]:
        return {"characters": self.characters}

    def __len__(self) -> int:
        return len(self.characters)

    def read(self, column: Column) -> Spellings:
        return Spellings(*require_text(column).spell(self.encode))

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids of the characters of words, [N, C] int64, 0 after the end of a word."""
        return pad_rows([[self.ids.get(char, UNKNOWN) for char in word] for word in words])

    @cached_property
    def ids(self) -> dict[str, int]:
        return _number(self.characters)


def pad_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return ids of different lengths as an array, [N, C] int64, 0 after the end of a row."""
    ids = np.zeros((len(rows), max([1, *map(len, rows)])), dtype=np.int64)
    for idx, row in enumerate(rows):
        ids[idx, : len(row)] = row
    return ids


def require_text(column: Column) -> TextColumn:
    """Return the column, which the plan of the model guarantees to be text."""
    assert not isinstance(column, NumberColumn | RawText | WordText), type(column)
    return column


def count_words(columns: Sequence[Column]) -> Counter[str]:
    return sum((require_text(column).count() for column in columns), Counter())


def _number(names: Sequence[str]) -> dict[str, int]:
    return {name: idx for idx, name in enumerate(names) if idx >= len(SPECIAL)}


def _read_options(options: Options, init: Path) -> tuple[WordRules, WordVectors | None]:
    name = options.get("vectors")
    table = read_vectors(init, name, options["dim"]) if name else None
    return WordRules.from_options(options), table
