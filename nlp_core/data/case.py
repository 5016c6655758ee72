"""The case of a word as a symbol: capitals are lost where words are looked up in lower case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nlp_core.data.split_column import Column
from nlp_core.data.vocabulary import UNKNOWN, Options, WordRules, WordVocabulary
from reglue_runtime.text import CASES, SPECIAL, name_case


@dataclass(frozen=True)
class CaseVocabulary(WordVocabulary):
    """Ids of the cases of words; nothing is learned from the training split."""

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        words = [*SPECIAL, *CASES]
        return cls(words, [0] * len(words), WordRules(), None)

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        return cls.learn([], options, init)

    def describe(self) -> dict[str, Any]:
        return {}

    def _find(self, word: str) -> int:
        return UNKNOWN if word in SPECIAL else self.ids[name_case(word)]
