"""Which rows of a table cannot be distinguished: corrected p-values and letters."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEVEL = 0.05


class Pair(NamedTuple):
    """Two rows of a column, by name."""

    first: str
    second: str


def correct_holm(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    """Return p-values corrected for the number of tests.

    The i-th smallest of n is multiplied by n - i + 1, and none is smaller than one before it.

    Source: Holm 1979 (a simple sequentially rejective multiple test procedure).
    """
    ordered = sorted(p_values, key=lambda pair: (p_values[pair], pair))
    corrected, largest = {}, 0.0
    for idx, pair in enumerate(ordered):
        largest = max(largest, min(1.0, p_values[pair] * (len(ordered) - idx)))
        corrected[pair] = largest
    return corrected


def name_groups(rows: Sequence[str], p_values: Mapping[Pair, float]) -> dict[str, str]:
    """Return letters for rows: two rows share one if their difference is not significant.

    Args:
        rows: from the best to the worst; the best has the letter a.
        p_values: corrected, of each pair of rows.

    Source: Piepho 2004 (an algorithm for a letter-based representation of all-pairwise
        comparisons), insert and absorb.
    """
    groups = [frozenset(rows)]
    for pair, p_value in sorted(p_values.items()):
        if p_value < LEVEL:
            split = [group - {row} for group in groups if {*pair} <= group for row in pair]
            groups = _absorb([group for group in groups if not {*pair} <= group] + split)
    rank = {row: idx for idx, row in enumerate(rows)}
    groups.sort(key=lambda group: sorted(rank[row] for row in group))
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        row: "".join(letters[idx] for idx, group in enumerate(groups) if row in group)
        for row in rows
    }


def _absorb(groups: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Return the groups that are not part of another one, each once."""
    distinct = list(dict.fromkeys(groups))
    return [group for group in distinct if not any(group < other for other in distinct)]
