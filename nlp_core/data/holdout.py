"""Cut a held-out part from train, so that no choice is made on the reported split.

The cut depends only on texts and seed: groups are ranked by the sha256 of seed and key, which no
library version changes.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A phrase of at least this many tokens that no longer phrase contains counts as a sentence.
MIN_SENTENCE_TOKENS = 6
USER_SHARE = 0.1
SMALL_SHARE, FEW_HELD_OUT = 0.2, 100
"""Of fewer than 1,000 rows a fifth is held out, of more at least this many."""
MOST_HELD_OUT = 20_000
"""Of the rows of the user's file."""


class Partition(NamedTuple):
    """Row numbers of train after the cut, in their order; some rows may be in neither part."""

    train: list[int]
    held_out: list[int]


def cut_by_key(keys: Sequence[str], *, share: float, seed: int) -> Partition:
    """Hold out whole groups of rows, those with the same key, until they make up the share.

    The share of the rows is in (0, 1); the last group may exceed it.
    """
    sizes = Counter(keys)
    wanted, num_rows = round(share * len(keys)), 0
    chosen: set[str] = set()
    for key in _rank(sizes, seed):
        if num_rows >= wanted:
            break
        chosen.add(key)
        num_rows += sizes[key]
    rows = range(len(keys))
    return Partition(
        [row for row in rows if keys[row] not in chosen],
        [row for row in rows if keys[row] in chosen],
    )


def cut_by_row(num_rows: int, *, share: float, seed: int) -> Partition:
    return cut_by_key([str(row) for row in range(num_rows)], share=share, seed=seed)


def cut_by_phrase_root(phrases: Sequence[Sequence[str]], *, share: float, seed: int) -> Partition:
    """Hold out a share of the sentences together with all of their phrases (SST-2).

    The train rows of SST-2 are phrases of sentences, so a random part would share most of its words
    with train. A phrase belongs to the longest phrase that contains it, its root. A share of the
    roots that are long enough to be sentences is held out: their rows become the held-out part, and
    the rows of their phrases leave train.
    """
    texts = [" ".join(phrase) for phrase in phrases]
    roots = _find_roots(phrases, texts)
    sentences = {
        text
        for text, phrase in zip(texts, phrases, strict=True)
        if roots[text] == text and len(phrase) >= MIN_SENTENCE_TOKENS
    }
    chosen = set(_rank(sentences, seed)[: round(share * len(sentences))])
    rows = range(len(texts))
    return Partition(
        [row for row in rows if roots[texts[row]] not in chosen],
        [row for row in rows if texts[row] in chosen],
    )


def _find_roots(phrases: Sequence[Sequence[str]], texts: Sequence[str]) -> dict[str, str]:
    """Return the root of each phrase; of two equally long containers the earlier row wins."""
    known = set(texts)
    roots: dict[str, str] = {}
    for row in sorted(range(len(texts)), key=lambda row: (-len(phrases[row]), row)):
        root, tokens = texts[row], phrases[row]
        if root in roots:
            continue
        for start in range(len(tokens)):
            for end in range(start + 1, len(tokens) + 1):
                span = " ".join(tokens[start:end])
                if span in known:
                    roots.setdefault(span, root)
    return roots


def _rank(keys: Counter[str] | set[str], seed: int) -> list[str]:
    return sorted(keys, key=lambda key: (hashlib.sha256(f"{seed}:{key}".encode()).hexdigest(), key))


def count_held_out(units: int) -> int:
    few = min(round(units * SMALL_SHARE), FEW_HELD_OUT)
    return min(max(round(units * USER_SHARE), few, 1), MOST_HELD_OUT)


def draw_held_out(
    units: int, seed: int, labels: NDArray[np.integer] | None = None
) -> NDArray[np.bool_]:
    """Return which of the user's rows, questions or passages are held out; see `rank_rows`."""
    is_dev = np.zeros(units, dtype=np.bool_)
    is_dev[rank_rows(units, seed, labels)[: count_held_out(units)]] = True
    return is_dev


def draw_folds(
    units: int, folds: int, seed: int, labels: NDArray[np.integer] | None = None
) -> NDArray[np.int64]:
    """Return the fold of each row, from 0; every fold has its share of each label."""
    order = np.random.default_rng(seed).permutation(units)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    found = np.empty(units, dtype=np.int64)
    found[order] = np.arange(units) % folds
    return found


def rank_rows(
    units: int, seed: int, labels: NDArray[np.integer] | None = None
) -> NDArray[np.int64]:
    """Return all rows in an order each beginning of which has its share of each label.

    The k-th of the n rows with a label, in random order, is at (k - 1/2) / n.
    """
    order = np.random.default_rng(seed).permutation(units)
    if labels is None:
        return order
    by_label = order[np.argsort(labels[order], kind="stable")]
    _, starts, counts = np.unique(labels[by_label], return_index=True, return_counts=True)
    place = np.empty(units)
    place[by_label] = (np.arange(units) - np.repeat(starts, counts) + 0.5) / np.repeat(
        counts, counts
    )
    return order[np.argsort(place[order], kind="stable")]
