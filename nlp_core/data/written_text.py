"""Texts that are written: the words that a model can write, and the ids of words and copies."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from nlp_core.data.batching import Ragged
from nlp_core.data.split_column import TextColumn
from reglue_runtime.writing import number_copies, number_words


def choose_words(counts: Counter[str], most: int) -> list[str]:
    """Return the most frequent words, sorted; equally frequent ones by their spelling."""
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return sorted(order[:most])


def count_words(rows: Iterable[Sequence[str]]) -> Counter[str]:
    return Counter(word for row in rows for word in row)


def number_sources(source: TextColumn, words: Sequence[str]) -> Ragged:
    """Return the id that writes a copy of each token of the sources."""
    number = {word: place for place, word in enumerate(words)}
    return Ragged.join([number_copies(row, number) for row in source.list_rows()], np.int64)


def number_outputs(output: TextColumn, source: TextColumn, words: Sequence[str]) -> Ragged:
    """Return the ids that write the outputs, each with its end."""
    number = {word: place for place, word in enumerate(words)}
    pairs = zip(output.list_rows(), source.list_rows(), strict=True)
    return Ragged.join([number_words(row, tokens, number) for row, tokens in pairs], np.int64)
