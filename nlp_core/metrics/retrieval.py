"""Metrics of a task that finds passages for queries, from the ranks of the right passages.

A rank counts from 1, among all passages that a query is searched in.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError
from nlp_core.metrics.base import DEPTH, Predictions, register

Ranks = NDArray[np.int64]
"""Of the right passages of a query, sorted."""


def score_queries(metric: str, predictions: Predictions) -> NDArray[np.floating]:
    """Return a metric such as mrr@10 of each query that has a right passage."""
    name, _, depth = metric.partition("@")
    score = QUERY_SCORES[name]
    return np.array([score(ranks, int(depth)) for ranks in _list_ranks(predictions)])


def _measure_mean(name: str, predictions: Predictions, depth: int) -> float:
    return float(score_queries(f"{name}@{depth}", predictions).mean())


def _reciprocal_rank(ranks: Ranks, depth: int) -> float:
    return 1.0 / float(ranks[0]) if ranks[0] <= depth else 0.0


def _recall(ranks: Ranks, depth: int) -> float:
    return float(np.count_nonzero(ranks <= depth)) / len(ranks)


def _gain(ranks: Ranks, depth: int) -> float:
    """Return sum 1 / log2(1 + rank) over the right passages found, over its largest value.

    Source: Jarvelin and Kekalainen 2002 (cumulated gain-based evaluation), with gains of 0 and 1.
    """
    best = np.arange(1, min(len(ranks), depth) + 1)
    found = ranks[ranks <= depth]
    return float((1 / np.log2(1 + found)).sum() / (1 / np.log2(1 + best)).sum())


QUERY_SCORES: dict[str, Callable[[Ranks, int], float]] = {
    "mrr": _reciprocal_rank,
    "recall": _recall,
    "ndcg": _gain,
}
for _name in QUERY_SCORES:
    register(_name + DEPTH, "retrieval")(partial(_measure_mean, _name))


def _list_ranks(predictions: Predictions) -> Iterator[Ranks]:
    if predictions.group is None:
        raise DataError("found no query numbers, expected one for each passage.")
    relevant = predictions.relevant
    if not relevant.any():
        raise DataError("found no right passage, expected at least one. Measure a larger split.")
    ranks, query = np.asarray(predictions.prediction, np.int64), np.asarray(predictions.group)
    ranks, query = ranks[relevant], query[relevant]
    order = np.lexsort((ranks, query))
    bounds = np.flatnonzero(np.diff(query[order])) + 1
    yield from np.split(ranks[order], bounds)
