"""Subwords: a byte-pair encoding learned from the words of the training split."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nlp_core.data.feature import Spellings
from nlp_core.data.split_column import Column
from nlp_core.data.vocabulary import UNKNOWN, Options, count_words, pad_rows, require_text
from reglue_runtime.text import SPECIAL, mark_word

NUM_PIECES = 4000
MIN_COUNT = 2


@dataclass(frozen=True)
class SubwordVocabulary:
    """A byte-pair encoding.

    Attributes:
        tokenizer: JSON of the library `tokenizers`.
        size: number of pieces, padding and the unknown piece included.
        lowercase: whether words are lower-cased first.
    """

    tokenizer: str
    size: int
    lowercase: bool

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
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
