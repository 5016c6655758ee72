"""Texts as numbers of 64 bits: exact, normalised, and the 13-grams of their words.

No text is kept, so memory does not grow with it. A split of n texts has about n^2 / 2^65 wrong
matches: none among millions.

Source: Brown et al. 2020 (GPT-3), appendix C, for the 13-grams of words without case and
punctuation; we keep 13 for all data, where they take 8 to 13 by the lengths of the test set.
"""

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.unit import Unit

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
        ngrams: keys of the 13-grams of its words; none for a shorter text.
    """

    normalised: str
    num_words: int
    ngrams: Keys


@lru_cache(maxsize=KEPT_TEXTS)
def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text without case and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(folded.translate(_CHARACTERS).split())


@lru_cache(maxsize=KEPT_TEXTS)
def read_text(text: str) -> Text:
    words = split_words(text)
    return Text("".join(words) or text, len(words), _hash_ngrams(words))


def _hash_ngrams(words: Sequence[str]) -> Keys:
    size = max(len(words) - NGRAM + 1, 0)
    keys = np.zeros(size, dtype=np.uint64)
    if size:
        hashes = np.array([_hash_word(word) for word in words], dtype=np.uint64)
        for start in range(NGRAM):
            keys = keys * FACTOR + hashes[start : start + size]
    return keys


def hash_text(text: str) -> int:
    # A lone surrogate, which JSON can hold, has no UTF-8.
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


_hash_word = lru_cache(maxsize=KEPT_WORDS)(hash_text)


def join_keys(first: Keys, second: Keys) -> Keys:
    """Return the keys of pairs of keys."""
    mixed = first * FACTOR
    return mixed ^ (mixed >> np.uint64(29)) ^ second


SEPARATOR = "\x1f"
Mask = NDArray[np.bool_]


class SplitKeys:
    """The keys of a split's units of one sort, which are added one by one and then compared."""

    def __init__(self) -> None:
        self._lengths = array("q")
        self._exact, self._normalised, self._labels = array("Q"), array("Q"), array("Q")
        self._is_labelled, self._numbers = array("b"), array("d")
        self.classes: Counter[str] = Counter()
        """How often each label occurs."""

    @classmethod
    def join(cls, parts: Iterable["SplitKeys"]) -> "SplitKeys":
        """Return the keys of several splits as one."""
        joined = cls()
        for part in parts:
            joined.classes += part.classes
            for name, values in vars(part).items():
                if isinstance(values, array):
                    getattr(joined, name).extend(values)
        return joined

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, unit: Unit) -> None:
        texts = [read_text(text) for text in unit.texts]
        self._lengths.append(sum(text.num_words for text in texts))
        self._exact.append(hash_text(SEPARATOR.join(unit.texts)))
        self._normalised.append(hash_text(SEPARATOR.join(text.normalised for text in texts)))
        self._labels.append(hash_text(unit.label or ""))
        self._is_labelled.append(unit.label is not None)
        self.classes.update(unit.classes)
        if unit.number is not None:
            self._numbers.append(unit.number)

    @property
    def exact(self) -> Keys:
        """Key of the unchanged texts, [N]."""
        return np.array(self._exact, dtype=np.uint64)

    @property
    def normalised(self) -> Keys:
        """Key of the normalised texts, [N]."""
        return np.array(self._normalised, dtype=np.uint64)

    @property
    def labels(self) -> Keys:
        """Key of the label, [N]."""
        return np.array(self._labels, dtype=np.uint64)

    @property
    def is_labelled(self) -> Mask:
        return np.array(self._is_labelled, dtype=np.bool_)

    @property
    def lengths(self) -> NDArray[np.float64]:
        """In words, [N]."""
        return np.array(self._lengths, dtype=np.float64)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The values of a regression."""
        return np.array(self._numbers, dtype=np.float64)

    def find_conflicting(self, keys: Keys) -> Mask:
        """Return which units have the key of a unit with another label."""
        labelled = self.is_labelled
        first = np.unique(join_keys(keys, self.labels)[labelled], return_index=True)[1]
        texts, num_labels = np.unique(keys[labelled][first], return_counts=True)
        return labelled & np.isin(keys, texts[num_labels > 1])

    def find_differing(self, train: "SplitKeys") -> Mask:
        """Return which units are in train, but never with the same label."""
        theirs = train.normalised[train.is_labelled]
        labelled = join_keys(theirs, train.labels[train.is_labelled])
        same = np.isin(join_keys(self.normalised, self.labels), labelled)
        return self.is_labelled & np.isin(self.normalised, theirs) & ~same


def find_repeated(keys: Keys) -> Mask:
    """Return which keys repeat an earlier one."""
    repeated = np.ones(len(keys), dtype=np.bool_)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated


KEYS_AT_ONCE = 1 << 18
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


class NgramIndex:
    """The 13-grams of the other splits, in which those of train are looked up.

    First the units of the other splits are added, which are kept; then those of train, which are
    looked up in parts and forgotten: memory does not grow with train.
    """

    def __init__(self) -> None:
        self._keys: dict[str, list[Keys]] = {}
        self._known = NO_KEYS
        self._found: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._waiting: list[Keys] = []
        self._num_waiting = 0
        self._num_seen = 0

    def add(self, split: str, keys: Keys) -> None:
        """Add the next unit of a split that is not train."""
        self._keys.setdefault(split, []).append(keys)

    def close(self) -> None:
        """End the other splits: what follows is train."""
        self._known = np.unique(np.concatenate([NO_KEYS, *(_join(k) for k in self._keys.values())]))
        self._found = np.full(len(self._known), -1, dtype=np.int64)

    def look_up_split(self, split: str) -> None:
        """Count an added split as a part of train from now on."""
        for keys in self._keys.get(split, []):
            self.look_up(keys)

    def look_up(self, keys: Keys) -> None:
        """Look up the 13-grams of the next unit of train."""
        self._waiting.append(keys)
        self._num_waiting += len(keys)
        if self._num_waiting >= KEYS_AT_ONCE:
            self._look_up_waiting()

    def _look_up_waiting(self) -> None:
        keys, units = _join(self._waiting), _number(self._waiting) + self._num_seen
        self._num_seen += len(self._waiting)
        self._waiting, self._num_waiting = [], 0
        if not len(self._known):
            return
        places = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        is_new = (self._known[places] == keys) & (self._found[places] < 0)
        # Backwards: of several units of train the first one is kept.
        self._found[places[is_new][::-1]] = units[is_new][::-1]

    def find_in_train(self, split: str) -> NDArray[np.int64]:
        """Return for each unit of a split the first unit of train found in it, or -1."""
        if self._waiting:
            self._look_up_waiting()
        own = self._keys.get(split, [])
        found = self._found[np.searchsorted(self._known, _join(own))]
        is_shared, units = found >= 0, _number(own)
        shared = np.full(len(own), -1, dtype=np.int64)
        shared[units[is_shared][::-1]] = found[is_shared][::-1]
        return shared

    def is_long(self, split: str) -> NDArray[np.bool_]:
        """Return which units of a split have a 13-gram."""
        return np.array([len(keys) > 0 for keys in self._keys.get(split, [])], dtype=np.bool_)


def _join(keys: list[Keys]) -> Keys:
    return np.concatenate([NO_KEYS, *keys])


def _number(keys: list[Keys]) -> NDArray[np.int64]:
    """Return the number of the unit of each key."""
    return np.repeat(np.arange(len(keys)), [len(unit) for unit in keys])
