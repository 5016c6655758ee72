"""From a text to tokens, and from a token to the forms that a vocabulary looks up.

Training reads this module too, so that it and the exported model cannot cut a text differently.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

EMPTY_TOKEN = "<empty>"
"""The one token of a text that has none, so that no example is of length 0."""
SPECIAL = ("<pad>", "<unk>")
"""The names of padding and of the unknown word, which are no words of a text."""
WORD_START = "\u2581"
"""What stands before a word, so that pieces at its beginning differ from those inside."""
DIGIT = re.compile(r"\d")

Substitution = tuple[str, int, str]
"""A regular expression, its flags and what takes the place of what it finds."""


class Stretch(NamedTuple):
    """Where a token stands in its text: from `start` to before `end`, in characters."""

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
    """Split a text that is already tokenised at its spaces."""
    return [token for token in text.split(" ") if token] or [EMPTY_TOKEN]


def split_plain_words(text: str) -> list[str]:
    """Split a text into words, numbers and single signs: "16th-century" gives three.

    It cuts "isn't" into "is", "n't", cuts at every sign, in the midst of a text too, and keeps
    every character as it is.
    """
    return [text[place.start : place.end] for place in locate_plain_words(text)] or [EMPTY_TOKEN]


def locate_plain_words(text: str) -> list[Stretch]:
    """Return where the tokens of `split_plain_words` stand; a text without any has none."""
    return [Stretch(*found.span()) for found in _PLAIN_WORD.finditer(text)]


def locate_spaces(text: str) -> list[Stretch]:
    """Return where the tokens of `split_spaces` stand; a text without any has none."""
    return [Stretch(*found.span()) for found in _SPACED.finditer(text)]


def build_rewriter(substitutions: Sequence[Substitution]) -> Callable[[str], list[str]]:
    """Return the tokenizer that rewrites a text step by step and splits it at white space."""
    steps = [(re.compile(pattern, flags), into) for pattern, flags, into in substitutions]

    def split(text: str) -> list[str]:
        for pattern, into in steps:
            text = pattern.sub(into, text)
        return text.split() or [EMPTY_TOKEN]

    return split


def zero_digits(word: str) -> str:
    """Return a word with 0 for each of its digits."""
    return DIGIT.sub("0", word)


def mark_word(word: str, *, lowercase: bool) -> str:
    """Return a word with its beginning marked, as it is cut into pieces."""
    return WORD_START + (word.lower() if lowercase else word)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda word: word,
    "lower": lambda word: word.lower(),
    "zero": zero_digits,
    "lower_zero": lambda word: zero_digits(word.lower()),
}
"""What a vocabulary may look up of a word, in the order in which it tries."""
