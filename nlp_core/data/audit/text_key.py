"""Texts as numbers of 64 bits: exact, normalised, and the 13-grams of their words.

A split of n texts has about n^2 / 2^65 wrong matches: none among millions.

Source: Brown et al. 2020 (GPT-3), appendix C, for the 13-grams of words without case and
punctuation; we keep 13 for all data, where they take 8 to 13 by the lengths of the test set.
"""

import unicodedata
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

NGRAM = 13
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that no bit of a word is lost: 2^64 divided by the golden ratio."""
KEPT_WORDS = 1 << 17
KEPT_TEXTS = 64
"""Enough for the contexts of neighbouring questions."""


class _Characters(dict[int, str | None]):
    """What a character becomes: nothing if it is punctuation, a space between words."""

    def __missing__(self, code: int) -> str | None:
        category = unicodedata.category(chr(code))
        # A backtick is a symbol, but a quote in tokenised text.
        is_punctuation = category.startswith("P") or chr(code) == "`"
        is_space = category.startswith(("Z", "C"))
        self[code] = None if is_punctuation else " " if is_space else chr(code)
        return self[code]


_CHARACTERS = _Characters()


class Text(NamedTuple):
    """What is compared of a text.

    Attributes:
        normalised: without case, whitespace and punctuation; the text if nothing remains.
        num_words: its length.
        ngrams: keys of the 13-grams of its words; none of a shorter text.
    """

    normalised: str
    num_words: int
    ngrams: Keys


@lru_cache(maxsize=KEPT_TEXTS)
def read_text(text: str) -> Text:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = folded.translate(_CHARACTERS).split()
    return Text("".join(words) or text, len(words), _hash_ngrams(words))


def _hash_ngrams(words: list[str]) -> Keys:
    size = max(len(words) - NGRAM + 1, 0)
    keys = np.zeros(size, dtype=np.uint64)
    if size:
        hashes = np.array([_hash_word(word) for word in words], dtype=np.uint64)
        for start in range(NGRAM):
            keys = keys * FACTOR + hashes[start : start + size]
    return keys


def hash_text(text: str) -> int:
    """Return the key of a text."""
    # A lone surrogate, which JSON can hold, has no UTF-8.
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


_hash_word = lru_cache(maxsize=KEPT_WORDS)(hash_text)


def join_keys(first: Keys, second: Keys) -> Keys:
    """Return the keys of pairs of keys."""
    mixed = first * FACTOR
    return mixed ^ (mixed >> np.uint64(29)) ^ second
