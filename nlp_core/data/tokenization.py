"""Turn a text into tokens. Case is kept; every text has at least one token."""

from collections.abc import Callable
from functools import cache

from nlp_core.registry import Registry

EMPTY_TOKEN = "<empty>"
"""The one token of a text that has none, so that no example is of length 0."""

Tokenizer = Callable[[str], list[str]]
TOKENIZERS: Registry[Tokenizer] = Registry("tokenizer")


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


@cache
def _load_treebank() -> Tokenizer:
    # Imported here: nltk takes 2 s, and half of the tasks do not need it.
    from nltk.tokenize.destructive import NLTKWordTokenizer  # type: ignore[import-untyped]

    tokenizer = NLTKWordTokenizer()
    return lambda text: list(tokenizer.tokenize(text))
