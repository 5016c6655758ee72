"""Typed phrases, and where they occur in a text. Training reads this module too.

Shape letters: B batch, T tokens, G types.
"""

import json
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

Entry = tuple[str, str, float]
"""A phrase, its type and the type's weight."""
T = TypeVar("T")


class Phrases(NamedTuple):
    """Phrases with the weights of their types, keyed by their words; types are sorted."""

    types: list[str]
    weights: dict[tuple[str, ...], np.ndarray]
    longest: int


def weigh_phrases(entries: Sequence[Entry], *, lowercase: bool) -> Phrases:
    """Sum the weights of equal phrases by type."""
    types = sorted({kind for _, kind, _ in entries})
    weights: dict[tuple[str, ...], np.ndarray] = {}
    for phrase, kind, weight in entries:
        words = tuple((phrase.lower() if lowercase else phrase).split())
        found = weights.setdefault(words, np.zeros(len(types), dtype=np.float32))
        found[types.index(kind)] += weight
    return Phrases(types, weights, max(map(len, weights), default=0))


def match_phrases(
    words: Sequence[T], phrases: Container[tuple[T, ...]], longest: int
) -> Iterator[tuple[int, tuple[T, ...]]]:
    """Yield the longest phrase at each place from the left, without overlap."""
    place = 0
    while place < len(words):
        for size in range(min(longest, len(words) - place), 0, -1):
            phrase = tuple(words[place : place + size])
            if phrase in phrases:
                yield place, phrase
                place += size
                break
        else:
            place += 1


class PhraseMatcher:
    def __init__(self, phrases: Phrases, *, lowercase: bool) -> None:
        self.phrases = phrases
        self.lowercase = lowercase

    @classmethod
    def read(cls, path: Path, *, lowercase: bool) -> "PhraseMatcher":
        """Read entries; their weights are strings, so that no digit is lost."""
        note = json.loads(path.read_text(encoding="utf-8"))["entries"]
        entries = [(phrase, kind, float(weight)) for phrase, kind, weight in note]
        return cls(weigh_phrases(entries, lowercase=lowercase), lowercase=lowercase)

    def find(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """Return the weights of the types of the phrase around each token, [B, T, G]."""
        types, weights, longest = self.phrases
        shape = len(texts), max(map(len, texts)), len(types)
        found: np.ndarray = np.zeros(shape, dtype=np.float32)
        for row, words in enumerate(texts):
            folded = [word.lower() for word in words] if self.lowercase else words
            for place, phrase in match_phrases(folded, weights, longest):
                found[row, place : place + len(phrase)] = weights[phrase]
        return found
