"""From a text to tokens, and from a token to the forms that a vocabulary looks up.

Training reads this module too, so training and exported models split texts alike.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

EMPTY_TOKEN = "<empty>"
"""The token of an empty text, so that no example has length 0."""
SPECIAL = ("<pad>", "<unk>")
"""Names of padding and of the unknown word; a text never contains them."""
WORD_START = "\u2581"
"""Marks the beginning of a word, so that pieces there differ from those inside."""
DIGIT = re.compile(r"\d")

Substitution = tuple[str, int, str]
"""A regular expression, its flags and the replacement."""


class Offsets(NamedTuple):
    """Offsets of a token in its text, in characters; `end` is exclusive."""

    start: int
    end: int


_SPACED = re.compile(r"[^ ]+")
_PLAIN_WORD = re.compile(
    r"""
    (?:[^\W\d_]\.){2,}                  # U.S.
    | \d+(?:[.,]\d+)+                   # 1,000.50
    | [^\W_]+?(?=n['\u2019]t\b)         # do of don't
    | n['\u2019]t\b
    | ['\u2019](?:s|re|ve|ll|d|m)\b      # Luther's, we'll
    | [^\W_]+
    | [^\w\s] | _                       # any other sign by itself
    """,
    re.IGNORECASE | re.VERBOSE,
)


def split_spaces(text: str) -> list[str]:
    return [token for token in text.split(" ") if token] or [EMPTY_TOKEN]


def split_plain_words(text: str) -> list[str]:
    """Split a text into words, numbers and single signs: "16th-century" gives three.

    "isn't" gives "is", "n't"; every sign is a token of its own, also inside a word; every character
    is kept.
    """
    return [text[place.start : place.end] for place in locate_plain_words(text)] or [EMPTY_TOKEN]


def locate_plain_words(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_plain_words`; none of an empty text."""
    return [Offsets(*found.span()) for found in _PLAIN_WORD.finditer(text)]


def locate_spaces(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_spaces`; none of an empty text."""
    return [Offsets(*found.span()) for found in _SPACED.finditer(text)]


def build_rewriter(substitutions: Sequence[Substitution]) -> Callable[[str], list[str]]:
    """Return the tokenizer that applies substitutions in turn and splits at white space."""
    steps = [(re.compile(pattern, flags), into) for pattern, flags, into in substitutions]

    def split(text: str) -> list[str]:
        for pattern, into in steps:
            text = pattern.sub(into, text)
        return text.split() or [EMPTY_TOKEN]

    return split


def zero_digits(word: str) -> str:
    return DIGIT.sub("0", word)


def mark_word(word: str, *, lowercase: bool) -> str:
    return WORD_START + (word.lower() if lowercase else word)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda word: word,
    "lower": lambda word: word.lower(),
    "zero": zero_digits,
    "lower_zero": lambda word: zero_digits(word.lower()),
}
"""Forms of a word that a vocabulary looks up, in this order."""
