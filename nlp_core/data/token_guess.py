"""Guess how the tokens of the user's file are found, and the scheme of their tags."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from nlp_core.config.user_data import DataConfig
from nlp_core.data.format_guess import SAMPLE
from nlp_core.data.number_guess import is_numeric
from nlp_core.data.readers.entities import BorderCheck
from nlp_core.data.readers.user import UserExample, read_examples
from nlp_core.data.scheme_detection import detect_scheme
from nlp_core.data.tagging_scheme import is_bare
from nlp_core.kinds import TAGS
from reglue_runtime.text import CJK

BARE_TYPE = "ENTITY"
"""The type of entities whose tags name none."""
CHARACTERS = "characters"
LONGEST_WORD = 4
"""Letters between spaces, on average, up to which a Chinese or Japanese text is cut already."""
SCHEMES = {
    "plain": "plain tags, such as parts of speech",
    "IOB1": "entities begin with I-, and with B- after another of their type",
    "BIO": "entities begin with B-",
    "BIOES": "entities begin with B- and end with E-, or are S-",
    "spans": "entities are start and end offsets and a type; trained as BIO",
    "BILOU": "entities begin with B- and end with L-, or are U-; trained as BIOES",
}


@dataclass
class Guess:
    """The guessed section, with what was seen and what is not sure by key.

    Attributes:
        given: the keys that the user set.
    """

    data: DataConfig
    reasons: dict[str, str]
    doubts: dict[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    @property
    def section(self) -> dict[str, Any]:
        """The section for the model file, without defaults."""
        return self.data.model_dump(mode="json", exclude_unset=True)

    def explain(self, key: str) -> str:
        doubt = self.doubts.get(key)
        return f"NOT SURE: {doubt}" if doubt else self.reasons.get(key, "")


def guess_scheme(guess: Guess, path: Path) -> None:
    doubt, first = "", islice(read_examples(path, guess.data), SAMPLE)
    if guess.data.has_spans:
        borders = BorderCheck()
        for example in first:
            borders.add(example.borders, example.line())
        doubt = borders.describe()
    else:
        if is_bare({tag for one in read_examples(path, guess.data) for tag in one.targets[TAGS]}):
            guess.data = guess.data.model_copy(update={"entity_type": BARE_TYPE})
            guess.reasons["entity_type"] = "the tags name no type"
        if "scheme" not in guess.given:
            scheme = detect_scheme(read_examples(path, guess.data), path)
            guess.data = guess.data.model_copy(update={"scheme": scheme})
        if all(is_numeric(tag) for example in first for tag in example.targets[TAGS]):
            doubt = "the tags are numbers; entities need names, such as B-PER"
    if "scheme" not in guess.given:
        guess.reasons["scheme"] = SCHEMES[guess.data.scheme or "plain"]
    if doubt:
        guess.doubts["scheme"] = doubt


def guess_tokens(guess: Guess, path: Path) -> None:
    """Cut texts into characters where most letters are Chinese or Japanese, without spaces.

    Words of a library would be longer, but then the model could not be exported.
    """
    kind = guess.data.kind
    if "tokens" in guess.given:
        return
    if kind.writes_text or kind.has_tree or (kind.has_tags and not guess.data.has_spans):
        return
    spaced = guess.data.model_copy(update={"tokens": "spaces"})
    words = _list_words(islice(read_examples(path, spaced, labelled=False), SAMPLE))
    letters = [letter for word in words for letter in word if letter.isalpha()]
    cjk = [len(CJK.findall(word)) for word in words]
    cut = [size for size in cjk if size]
    if 2 * sum(cjk) > len(letters) and sum(cut) > LONGEST_WORD * len(cut):
        guess.data = guess.data.model_copy(update={"tokens": CHARACTERS})
        guess.reasons["tokens"] = (
            "most letters are Chinese or Japanese, without spaces; chinese_words and "
            "japanese_words need a library"
        )


def _list_words(examples: Iterable[UserExample]) -> list[str]:
    return [word for example in examples for text in example.texts for word in text]
