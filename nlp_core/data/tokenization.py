"""Turn a text into tokens. Case is kept; every text has at least one token."""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from nlp_core.registry import Registry

EMPTY_TOKEN = "<empty>"
"""The one token of a text that has none, so that no example is of length 0."""

Tokenizer = Callable[[str], list[str]]
TOKENIZERS: Registry[Tokenizer] = Registry("tokenizer")


class Stretch(NamedTuple):
    """Where a token stands in its text: from `start` to before `end`, in characters."""

    start: int
    end: int


Locator = Callable[[str], list[Stretch]]
LOCATORS: Registry[Locator] = Registry("tokenizer of stretches")
"""Those tokenizers whose tokens are stretches of the text, which an answer can be cut out of."""

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


@TOKENIZERS.register("spaces")
def split_spaces(text: str) -> list[str]:
    """Split a text that is already tokenised at its spaces."""
    return [token for token in text.split(" ") if token] or [EMPTY_TOKEN]


@TOKENIZERS.register("words")
def split_words(text: str) -> list[str]:
    """Split a text into Penn Treebank words: "isn't" gives "is", "n't".

    Note: double quotes become `` and '', as in the treebank and in GloVe.
    """
    return _load_treebank()(text) or [EMPTY_TOKEN]


@TOKENIZERS.register("plain_words")
def split_plain_words(text: str) -> list[str]:
    """Split a text into words, numbers and single signs: "16th-century" gives three.

    As "words" it cuts "isn't" into "is", "n't"; unlike it, it cuts at every sign, in the midst of a
    text too, and keeps every character as it is.
    """
    return [text[place.start : place.end] for place in locate_plain_words(text)] or [EMPTY_TOKEN]


@LOCATORS.register("plain_words")
def locate_plain_words(text: str) -> list[Stretch]:
    """Return where the tokens of `split_plain_words` stand; a text without any has none."""
    return [Stretch(*found.span()) for found in _PLAIN_WORD.finditer(text)]


@LOCATORS.register("spaces")
def locate_spaces(text: str) -> list[Stretch]:
    """Return where the tokens of `split_spaces` stand; a text without any has none."""
    return [Stretch(*found.span()) for found in _SPACED.finditer(text)]


@cache
def _load_treebank() -> Tokenizer:
    # Imported here: nltk takes 2 s, and half of the tasks do not need it.
    from nltk.tokenize.destructive import NLTKWordTokenizer  # type: ignore[import-untyped]

    tokenizer = NLTKWordTokenizer()
    return lambda text: list(tokenizer.tokenize(text))
