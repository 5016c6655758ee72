"""Metrics of retrieval, with values worked out by hand."""

import math

import numpy as np
import pytest

from nlp_core.errors import ConfigError, DataError
from nlp_core.metrics import Predictions, measure
from nlp_core.metrics.base import parse_metric
from nlp_core.site.review import break_down
from nlp_core.statistics import build_score
from tests.test_breakdown import make_runs

# Query 3 has right passages at ranks 2 and 12, and a hard negative; query 5 has one at rank 1.
FOUND = Predictions(
    labels=["0", "1"],
    target=["1", "0", "1", "1"],
    prediction=[12, 1, 2, 1],
    group=np.array([3, 3, 3, 5]),
)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("mrr@10", (1 / 2 + 1) / 2),
        ("mrr@1", 1 / 2),
        ("recall@10", (1 / 2 + 1) / 2),
        ("recall@12", 1.0),
        ("ndcg@10", (1 / math.log2(3) / (1 + 1 / math.log2(3)) + 1) / 2),
        ("ndcg@1", 1 / 2),
    ],
)
def test_values_by_hand(metric: str, value: float) -> None:
    assert measure("retrieval", [metric], FOUND)[metric] == pytest.approx(100 * value)
    score = build_score("retrieval", metric, [FOUND, FOUND])
    assert score is not None
    assert score.evaluate(np.ones((1, 2))) == pytest.approx(100 * value)


@pytest.mark.parametrize("depth", ["0", "x", "-1", "1.5"])
def test_the_depth_is_a_whole_number(depth: str) -> None:
    with pytest.raises(ConfigError, match=f"recall@{depth}: found the depth '{depth}', expected"):
        parse_metric("retrieval", f"recall@{depth}")


def test_something_right_is_needed() -> None:
    wrong = Predictions(["0", "1"], ["0"], [1], group=np.array([0]))
    with pytest.raises(DataError, match="found no right passage, expected at least one"):
        measure("retrieval", ["mrr@10"], wrong)


def test_the_site_counts_ranks() -> None:
    (table,) = break_down(make_runs("retrieval", FOUND))
    assert [row[1] for row in table.rows] == ["1", "1", "0", "0", "0"]
