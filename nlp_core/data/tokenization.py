"""Turn a text into tokens. Case is kept; every text has at least one token."""

import re
from collections.abc import Callable
from functools import cache

from nlp_core.errors import ConfigError
from nlp_core.registry import Registry
from reglue_runtime.text import (
    EMPTY_TOKEN,
    Offsets,
    Substitution,
    locate_plain_words,
    locate_spaces,
    split_plain_words,
    split_spaces,
)

Tokenizer = Callable[[str], list[str]]
TOKENIZERS: Registry[Tokenizer] = Registry("tokenizer")


Locator = Callable[[str], list[Offsets]]
LOCATORS: Registry[Locator] = Registry("tokenizer with offsets")
"""Tokenizers whose tokens have offsets in the text, so that an answer can be cut out of it."""

TOKENIZERS.register("spaces")(split_spaces)
TOKENIZERS.register("plain_words")(split_plain_words)
LOCATORS.register("spaces")(locate_spaces)
LOCATORS.register("plain_words")(locate_plain_words)


@TOKENIZERS.register("words")
def split_words(text: str) -> list[str]:
    """Split a text into Penn Treebank words: "isn't" gives "is", "n't".

    Note: double quotes become `` and '', as in the treebank and in GloVe.
    """
    return _load_treebank()(text) or [EMPTY_TOKEN]


def describe_tokenizer(name: str) -> list[Substitution] | None:
    """Return the substitutions that rebuild the tokenizer `words`; None for the others.

    Raises:
        ConfigError: a plug-in's tokenizer, which needs its own code.
    """
    if TOKENIZERS.get(name) in (split_spaces, split_plain_words):
        return None
    if name != "words":
        raise ConfigError(
            f"the tokenizer '{name}' is a plug-in's, which a bundle cannot contain; expected "
            "words, plain_words or spaces."
        )
    from nltk.tokenize.destructive import NLTKWordTokenizer as Treebank  # see _load_treebank

    before = [*Treebank.STARTING_QUOTES, *Treebank.PUNCTUATION]
    before += [Treebank.PARENS_BRACKETS, Treebank.DOUBLE_DASHES]
    contractions = [*Treebank.CONTRACTIONS2, *Treebank.CONTRACTIONS3]
    after = [*Treebank.ENDING_QUOTES, *((pattern, r" \1 \2 ") for pattern in contractions)]
    around: Substitution = (r"\A(.*)\Z", int(re.DOTALL), r" \1 ")
    steps = [
        [(item.pattern, _keep_flags(item.flags), into) for item, into in part]
        for part in (before, after)
    ]
    return [*steps[0], around, *steps[1]]


def _keep_flags(flags: int) -> int:
    """Return the flags of a pattern of nltk's engine that `re` knows too."""
    return flags & int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)


@cache
def _load_treebank() -> Tokenizer:
    # Imported here: nltk takes 2 s, and half of the tasks do not need it.
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenizer = NLTKWordTokenizer()
    return lambda text: list(tokenizer.tokenize(text))
