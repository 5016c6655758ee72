"""Pieces of words: a byte-pair encoding learnt from the training split."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.data.feature import Spellings
from nlp_core.data.split_column import Column
from nlp_core.data.vocabulary import SPECIAL, UNKNOWN, count_words, require_text

WORD_START = "\u2581"
"""What stands before a word, so that pieces at its beginning differ from those inside."""

NUM_PIECES = 4000
MIN_COUNT = 2


@dataclass(frozen=True)
class SubwordVocabulary:
    """A byte-pair encoding.

    Attributes:
        tokenizer: the tokenizer as JSON, of the library `tokenizers`.
        size: number of pieces, padding and the unknown piece included.
        lowercase: whether case is folded first.
    """

    tokenizer: str
    size: int
    lowercase: bool

    @classmethod
    def learn(
        cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path
    ) -> "SubwordVocabulary":
        """Learn the pieces from the words of the columns, each as often as it stands there."""
        # A compiled library that only models with this block need.
        from tokenizers import Tokenizer, models, trainers

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
    def from_note(
        cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path
    ) -> "SubwordVocabulary":
        """Restore the tokenizer."""
        lowercase = bool(options.get("lowercase", False))
        return cls(json.dumps(note["tokenizer"]), note["size"], lowercase)

    def describe(self) -> dict[str, Any]:
        """Return the tokenizer."""
        return {"tokenizer": json.loads(self.tokenizer), "size": self.size}

    def __len__(self) -> int:
        return self.size

    def encode(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of the pieces of each word; a character never seen is one unknown piece.

        Words are not searched for special tokens: a word `<pad>` has pieces like any other.
        """
        from tokenizers import Tokenizer  # see `learn`

        model = Tokenizer.from_str(self.tokenizer).model
        marked = (mark_word(word, lowercase=self.lowercase) for word in words)
        return [[piece.id for piece in model.tokenize(word)] for word in marked]

    def read(self, column: Column) -> Spellings:
        """Return the pieces of the words."""
        return Spellings(*require_text(column).spell(self._spell))

    def _spell(self, words: Sequence[str]) -> np.ndarray:
        pieces = self.encode(words)
        ids = np.zeros((len(pieces), max(map(len, pieces), default=1)), dtype=np.int64)
        for idx, row in enumerate(pieces):
            ids[idx, : len(row)] = row
        return ids


def mark_word(word: str, *, lowercase: bool) -> str:
    """Return a word with its beginning marked, as it is cut into pieces."""
    return WORD_START + (word.lower() if lowercase else word)
