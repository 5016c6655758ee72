"""Vocabularies: how a column becomes arrays of ids or numbers, learned on the training split.

A word outside the training split that has a pretrained vector gets the id V + row, where V is the
size of the vocabulary and row the vector's row in its table.

Shape letters: B batch, T tokens, U distinct words, C characters or pieces in a word, W numbers.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from nlp_core.data.batching import Ragged, locate_rows
from nlp_core.data.split_column import Column, NumberColumn, RawText, Rows, TextColumn, WordText
from nlp_core.data.word_vectors import WordVectors, read_table
from nlp_core.errors import DataError
from reglue_runtime.text import SPECIAL, mark_word, zero_digits


class Feature(Protocol):
    """A column of a split as the arrays that a block reads."""

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        """Return the arrays of some examples, padded to a multiple above the longest of them."""


@dataclass(frozen=True)
class TokenIds:
    """An id per token, [B, T]; 0 is padding."""

    ids: Ragged

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        return (self.ids.take(rows, multiple=multiple),)


@dataclass(frozen=True)
class Numbers:
    """Numbers of an example or of its tokens.

    Attributes:
        values: of all examples, [N, W], or all their tokens, flat, [total, W].
        offsets: start of each example's tokens, and the end, [N + 1]; None: numbers of examples.
    """

    values: np.ndarray
    offsets: np.ndarray | None

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        """Return numbers [B, W] or [B, T, W], 0 at padding."""
        if self.offsets is None:
            return (self.values[rows],)
        places, inside = locate_rows(self.offsets, rows, multiple)
        return (np.where(inside[..., None], self.values[places], np.float32(0.0)),)


@dataclass(frozen=True)
class Spellings:
    """Several ids per token, stored once for each distinct word.

    Attributes:
        words: the number of each token's word.
        ids: pieces or characters of the distinct words, [U, C], 0 after the end.
    """

    words: Ragged
    ids: Rows

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        """Return the ids of the batch's distinct words, [U, C], and the word of each token, [B, T].

        At padding is any word of the batch.
        """
        more = {"multiple": multiple}
        words, mask = self.words.take(rows, **more), self.words.mask(rows, **more)
        distinct, index = np.unique(np.where(mask, words, words[0, 0]), return_inverse=True)
        ids = self.ids[distinct]
        width = max(int((ids != 0).sum(axis=1).max()), 1)
        return ids[:, :width], index.reshape(words.shape)


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
class WordRules:
    """How a word is normalized before it is looked up; see the word_embedding block."""

    lowercase: bool = False
    digits_to_zero: bool = False
    min_count: int = 1

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
        found = [self._find_row(word) for word in self.words[len(SPECIAL) :]]
        return np.array([-1] * len(SPECIAL) + found, dtype=np.int64)

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
        row = self._find_row(folded)
        return UNKNOWN if row < 0 else len(self.words) + row

    def _find_row(self, word: str) -> int:
        return -1 if self.table is None else self.table.find(word)


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
    table = read_table(init, name, options["dim"]) if name else None
    names = ("lowercase", "digits_to_zero", "min_count")
    return WordRules(**{name: options[name] for name in names if name in options}), table


@dataclass(frozen=True)
class NumberVocabulary:
    """Mean and standard deviation of each number of a column, [W]; 1 for a constant one."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        width = options.get("width", 1)
        arrays = [_require_numbers(column).values for column in columns]
        for values in arrays:
            if values.shape[1] != width:
                raise DataError(
                    f"split train: found {values.shape[1]} numbers per row in a column that a "
                    f"dense_features layer of width {width} reads; set its 'width' to "
                    f"{values.shape[1]}, or choose another column."
                )
        values = np.concatenate(arrays)
        mean, std = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
        if not np.isfinite([mean, std]).all():
            raise DataError(
                "split train: found numbers in a column of dense_features whose squares are too "
                "large to compute; scale the column down, for example by its logarithm."
            )
        # not by the deviation, which rounding keeps from 0
        is_constant = values.min(0) == values.max(0)
        return cls(mean, np.where(is_constant, 1.0, std))

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        return cls(*(np.array([float(text) for text in note[name]]) for name in ("mean", "std")))

    def describe(self) -> dict[str, Any]:
        """Return mean and deviation as text, which keeps all digits."""
        return {
            "mean": [repr(value) for value in self.mean.tolist()],
            "std": [repr(value) for value in self.std.tolist()],
        }

    def __len__(self) -> int:
        return len(self.mean)

    def read(self, column: Column) -> Numbers:
        numbers = _require_numbers(column)
        if numbers.values.shape[1] != len(self):
            raise DataError(
                f"{numbers.where}: found {numbers.values.shape[1]} numbers per row in a column "
                f"that the model reads, expected {len(self)}, as in training."
            )
        scaled = ((numbers.values - self.mean) / self.std).astype(np.float32)
        return Numbers(scaled, numbers.offsets)


def _require_numbers(column: Column) -> NumberColumn:
    assert isinstance(column, NumberColumn), type(column)
    return column


NUM_PIECES = 4000
MIN_COUNT = 2


@dataclass(frozen=True)
class SubwordVocabulary:
    """A byte-pair encoding.

    Attributes:
        tokenizer: JSON of the library `tokenizers`.
        size: number of pieces, padding and the unknown piece included.
    """

    tokenizer: str
    size: int
    lowercase: bool

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        from tokenizers import Tokenizer, models, trainers  # slow to import, rarely needed

        tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN]))
        trainer = trainers.BpeTrainer(
            vocab_size=options.get("num_pieces", NUM_PIECES),
            min_frequency=options.get("min_count", MIN_COUNT),
            special_tokens=list(SPECIAL),
            show_progress=False,
        )
        lowercase = bool(options.get("lowercase", False))
        words = (mark_word(word, lowercase=lowercase) for word in count_words(columns).elements())
        tokenizer.train_from_iterator(words, trainer)
        return cls(tokenizer.to_str(), tokenizer.get_vocab_size(), lowercase)

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        lowercase = bool(options.get("lowercase", False))
        return cls(json.dumps(note["tokenizer"]), note["size"], lowercase)

    def describe(self) -> dict[str, Any]:
        return {"tokenizer": json.loads(self.tokenizer), "size": self.size}

    def __len__(self) -> int:
        return self.size

    def read(self, column: Column) -> Spellings:
        return Spellings(*require_text(column).spell(lambda words: pad_rows(self.encode(words))))

    def encode(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of the pieces of each word; an unseen character is one unknown piece.

        Words are not searched for special tokens: a word `<pad>` has pieces like any other.
        """
        from tokenizers import Tokenizer  # see `learn`

        model = Tokenizer.from_str(self.tokenizer).model
        marked = (mark_word(word, lowercase=self.lowercase) for word in words)
        return [[piece.id for piece in model.tokenize(word)] for word in marked]
