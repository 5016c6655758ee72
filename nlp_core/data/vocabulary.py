"""Vocabularies: which id a word or a character has. Made from the training split alone.

A word outside the training split that has a pretrained vector gets the id V + row, where V is the
size of the vocabulary and row the vector's place in its table.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from safetensors.numpy import load_file

from nlp_core.data.feature import Feature, Spellings, TokenIds
from nlp_core.data.split_column import Column, NumberColumn, RawText, TextColumn, WordText
from nlp_core.errors import DataError, suggest

PADDING = 0
UNKNOWN = 1
SPECIAL = ("<pad>", "<unk>")
DIGIT = re.compile(r"\d")


@runtime_checkable
class Vocabulary(Protocol):
    """What a raw-input layer knows of the training split: how its column becomes numbers."""

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path) -> Self:
        """Make the vocabulary from the training split alone.

        Args:
            columns: those that the layer, and each layer that shares its parameters, reads.
            options: the layer's, as the model file sets them.
            init: folder of the vector tables.

        Raises:
            DataError: a file that an option names is missing or malformed, or does not fit.
        """

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path) -> Self:
        """Make the vocabulary from what `describe` returned."""

    def describe(self) -> dict[str, Any]:
        """Return what is stored beside a model's weights, as JSON."""

    def read(self, column: Column) -> Feature:
        """Turn a column of any split into numbers."""

    def __len__(self) -> int:
        """Return the number of ids, or whatever size the block is told first."""


@dataclass(frozen=True)
class VectorTable:
    """Pretrained word vectors.

    Attributes:
        vectors: [R, D] float32.
        row_of: the row of each word.
    """

    vectors: np.ndarray
    row_of: dict[str, int]

    def find(self, word: str) -> int:
        """Return the row of the word, else that of its lower-case form, else -1."""
        row = self.row_of.get(word)
        return self.row_of.get(word.lower(), -1) if row is None else row


def read_vectors(folder: Path, table: str, dim: int) -> VectorTable:
    """Read one table of a processed folder of kind `vectors`.

    Raises:
        DataError: the folder has no such table, or it has another width.
    """
    path = folder / f"{table}.safetensors"
    if not path.exists():
        tables = [item.stem for item in folder.glob("*.safetensors")]
        raise DataError(f"{folder}: found no vector table '{table}'. {suggest(table, tables)}")
    vectors = load_file(path)["vectors"]
    if vectors.shape[1] != dim:
        raise DataError(
            f"{path}: found vectors of width {vectors.shape[1]}, expected {dim}, the 'dim' of the "
            "layer that reads them; change one of the two."
        )
    words = (folder / f"{table}.words.txt").read_text(encoding="utf-8").split("\n")
    return VectorTable(vectors, {word: row for row, word in enumerate(words[: len(vectors)])})


@dataclass(frozen=True)
class WordRules:
    """How a word is folded before it is looked up; see the word_embedding block."""

    lowercase: bool = False
    digits_to_zero: bool = False
    min_count: int = 1

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "WordRules":
        """Take the rules out of the options of a word_embedding layer."""
        names = ("lowercase", "digits_to_zero", "min_count")
        return cls(**{name: options[name] for name in names if name in options})


@dataclass(frozen=True)
class WordVocabulary:
    """Ids of words.

    Attributes:
        words: the word of each id, padding and unknown first.
        counts: how often each stands in the training split.
        rules: how words are folded.
        table: pretrained vectors, or None.
    """

    words: list[str]
    counts: list[int]
    rules: WordRules
    table: VectorTable | None
    ids: dict[str, int] = field(repr=False)

    @classmethod
    def build(
        cls, words: Iterable[str], rules: WordRules, table: VectorTable | None
    ) -> "WordVocabulary":
        """Number the words of the training split (or their counts), the most frequent first."""
        counter: Counter[str] = Counter()
        for word, count in Counter(words).items():
            if word not in SPECIAL:
                counter[_fold(word, rules, table)] += count
        kept = [
            (word, count)
            for word, count in counter.items()
            if count >= rules.min_count or (table is not None and table.find(word) >= 0)
        ]
        kept.sort(key=lambda item: (-item[1], item[0]))
        return cls.restore(
            [*SPECIAL, *(word for word, _ in kept)], [0, 0, *(n for _, n in kept)], rules, table
        )

    @classmethod
    def restore(
        cls, words: list[str], counts: list[int], rules: WordRules, table: VectorTable | None
    ) -> "WordVocabulary":
        """Make a vocabulary of words that are numbered already."""
        ids = {word: idx for idx, word in enumerate(words) if idx >= len(SPECIAL)}
        return cls(words, counts, rules, table, ids)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> np.ndarray:
        """Return the ids of words, [N] int64."""
        memory: dict[str, int] = {}
        ids = []
        for word in words:
            found = memory.get(word)
            if found is None:
                found = memory[word] = self._find(word)
            ids.append(found)
        return np.array(ids, dtype=np.int64)

    def rows(self) -> np.ndarray:
        """Return the row of the vector table of each id, or -1, [V] int64."""
        found = [-1] * len(SPECIAL)
        for word in self.words[len(SPECIAL) :]:
            found.append(-1 if self.table is None else self.table.find(word))
        return np.array(found, dtype=np.int64)

    def rare(self) -> np.ndarray:
        """Return which ids stand for words seen once that have no vector, [V] bool."""
        rare: np.ndarray = (np.array(self.counts) == 1) & (self.rows() < 0)
        return rare

    @classmethod
    def learn(
        cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path
    ) -> "WordVocabulary":
        """Count the words of the columns; see `build`."""
        rules, table = WordRules.from_options(options), _read_table(options, init)
        return cls.build(count_words(columns), rules, table)

    @classmethod
    def from_note(
        cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path
    ) -> "WordVocabulary":
        """Restore words and counts; a vector table is read again."""
        rules, table = WordRules.from_options(options), _read_table(options, init)
        return cls.restore(note["words"], note["counts"], rules, table)

    def describe(self) -> dict[str, Any]:
        """Return words and counts."""
        return {"words": self.words, "counts": self.counts}

    def read(self, column: Column) -> TokenIds:
        """Return the ids of the words."""
        return TokenIds(require_text(column).look_up(self.encode))

    def _find(self, word: str) -> int:
        if word in SPECIAL:
            return UNKNOWN
        folded = _fold(word, self.rules, self.table)
        known = self.ids.get(folded)
        if known is not None:
            return known
        row = -1 if self.table is None else self.table.find(folded)
        return UNKNOWN if row < 0 else len(self.words) + row


@dataclass(frozen=True)
class CharacterVocabulary:
    """Ids of characters.

    Attributes:
        characters: the character of each id, padding and unknown first.
    """

    characters: list[str]
    ids: dict[str, int] = field(repr=False)

    @classmethod
    def build(cls, words: Iterable[str]) -> "CharacterVocabulary":
        """Number the characters of the training split in code point order."""
        return cls.restore([*SPECIAL, *sorted(set().union(*set(words)))])

    @classmethod
    def restore(cls, characters: list[str]) -> "CharacterVocabulary":
        """Make a vocabulary of characters that are numbered already."""
        ids = {char: idx for idx, char in enumerate(characters) if idx >= len(SPECIAL)}
        return cls(characters, ids)

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, words: list[str]) -> np.ndarray:
        """Return the ids of the characters of words, [N, C] int64, 0 behind a word's end."""
        width = max((len(word) for word in words), default=1)
        ids = np.zeros((len(words), max(width, 1)), dtype=np.int64)
        for idx, word in enumerate(words):
            ids[idx, : len(word)] = [self.ids.get(char, UNKNOWN) for char in word]
        return ids

    @classmethod
    def learn(
        cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path
    ) -> "CharacterVocabulary":
        """Number the characters of the columns; see `build`."""
        return cls.build(count_words(columns))

    @classmethod
    def from_note(
        cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path
    ) -> "CharacterVocabulary":
        """Restore the characters."""
        return cls.restore(note["characters"])

    def describe(self) -> dict[str, Any]:
        """Return the characters."""
        return {"characters": self.characters}

    def read(self, column: Column) -> Spellings:
        """Return the characters of the words."""
        return Spellings(*require_text(column).spell(self.encode))


def require_text(column: Column) -> TextColumn:
    """Return the column, which holds text: the plan has seen to that."""
    assert not isinstance(column, NumberColumn | RawText | WordText), type(column)
    return column


def count_words(columns: Sequence[Column]) -> Counter[str]:
    """Return how often each word stands in several columns."""
    return sum((require_text(column).count() for column in columns), Counter())


def _read_table(options: Mapping[str, Any], init: Path) -> VectorTable | None:
    name = options.get("vectors")
    return read_vectors(init, name, options["dim"]) if name else None


def _fold(word: str, rules: WordRules, table: VectorTable | None) -> str:
    if rules.lowercase:
        word = word.lower()
    if rules.digits_to_zero and (table is None or table.find(word) < 0):
        word = DIGIT.sub("0", word)
    return word
