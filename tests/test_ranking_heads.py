"""Heads that compare the candidates of a question: values by hand, gradients, what is refused."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from nlp_core.errors import ConfigError
from nlp_core.heads.ranking import (
    ListwiseRankingHead,
    LogisticConfig,
    MarginConfig,
    PairwiseRankingHead,
    RankingHead,
)
from nlp_core.metrics import Predictions, measure
from nlp_core.statistics import build_score

SCORES = torch.tensor([2.0, 0.5, 1.0, -1.0, 3.0, 0.0], dtype=torch.float64)
TARGET = torch.tensor([1, 0, 1, 0, 0, 0])
# Question 8: candidates 0, 1, 2; question 3: candidates 3 (wrong), 5 (wrong); question 5: one.
GROUP = torch.tensor([8, 8, 8, 3, 5, 3])
HEADS = [
    PairwiseRankingHead(2, 2),
    PairwiseRankingHead(2, 2, loss=LogisticConfig(name="logistic")),
    ListwiseRankingHead(2, 2),
]
each_head = pytest.mark.parametrize("head", HEADS, ids=["margin", "logistic", "listwise"])


def test_the_order_of_high_scores_is_kept() -> None:
    """In 64 bits the sigmoid of every score above 37 is 1."""
    head = PairwiseRankingHead(2, 2)
    scores = torch.tensor([36.5, 36.52, 40.0, 60.0, 600.0, 13.0, -3.0])
    probability = head.decode(scores).probability
    assert probability is not None
    assert probability[2:5, 1].tolist() == [1.0] * 3
    for best in range(len(scores)):
        above = int((scores > scores[best]).sum())
        found = Predictions(
            labels=["0", "1"],
            target=["1" if idx == best else "0" for idx in range(len(scores))],
            prediction=["1"] * len(scores),
            score=probability.numpy(),
            group=np.zeros(len(scores), dtype=np.int64),
            scheme=None,
        )
        assert measure("ranking", ["mrr", "map"], found) == pytest.approx(
            {"mrr": 100 / (1 + above), "map": 100 / (1 + above)}, abs=1e-4
        )
        area = 100 * (len(scores) - 1 - above) / (len(scores) - 1)
        assert measure("ranking", ["auc"], found) == pytest.approx({"auc": area})
        score = build_score("ranking", "auc", [found])
        assert score is not None
        assert score.values.tolist() == pytest.approx([area])


def test_margin_loss_by_hand() -> None:
    # Pairs 2.0 - 0.5 = 1.5 and 1.0 - 0.5 = 0.5; margin 1: 0 and 0.5.
    assert float(HEADS[0].loss(SCORES, TARGET, GROUP)) == pytest.approx(0.25)
    wide = PairwiseRankingHead(2, 2, loss=MarginConfig(name="margin", margin=2.0))
    assert float(wide.loss(SCORES, TARGET, GROUP)) == pytest.approx((0.5 + 1.5) / 2)


def test_logistic_loss_by_hand() -> None:
    expected = (math.log1p(math.exp(-1.5)) + math.log1p(math.exp(-0.5))) / 2
    assert float(HEADS[1].loss(SCORES, TARGET, GROUP)) == pytest.approx(expected)


def test_listwise_loss_by_hand() -> None:
    total = math.exp(2.0) + math.exp(0.5) + math.exp(1.0)
    expected = math.log(total) - (2.0 + 1.0) / 2
    assert float(HEADS[2].loss(SCORES, TARGET, GROUP)) == pytest.approx(expected)


@each_head
def test_each_question_counts_the_same(head: RankingHead) -> None:
    many = torch.tensor([0.3, -0.2, 0.9, 0.1, -0.5]), torch.tensor([1, 0, 1, 0, 0])
    few = torch.tensor([0.7, 0.2]), torch.tensor([0, 1])
    first = head.loss(*many, torch.zeros(5, dtype=torch.long))
    second = head.loss(*few, torch.ones(2, dtype=torch.long))
    scores, target = (torch.cat([a, b]) for a, b in zip(many, few, strict=True))
    both = head.loss(scores, target, torch.tensor([0, 0, 0, 0, 0, 1, 1]))
    torch.testing.assert_close(both, (first + second) / 2)


@each_head
def test_questions_do_not_touch_each_other(head: RankingHead) -> None:
    found = head.loss(SCORES, TARGET, GROUP)
    shifted = SCORES + torch.where(GROUP == 8, 5.0, -3.0)
    torch.testing.assert_close(head.loss(shifted, TARGET, GROUP), found)
    order = torch.tensor([5, 2, 0, 4, 3, 1])
    torch.testing.assert_close(head.loss(SCORES[order], TARGET[order], GROUP[order]), found)


@each_head
def test_gradient_is_that_of_differences(head: RankingHead) -> None:
    scores = SCORES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.loss(x, TARGET, GROUP), scores)


@each_head
@pytest.mark.parametrize("target", [[0, 0, 0], [1, 1, 1]])
def test_questions_that_teach_nothing_cost_nothing(head: RankingHead, target: list[int]) -> None:
    scores = torch.randn(3, requires_grad=True)
    loss = head.loss(scores, torch.tensor(target), torch.tensor([0, 0, 0]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert scores.grad is not None
    assert not scores.grad.any()


@each_head
def test_decoding_keeps_the_order_of_high_scores(head: RankingHead) -> None:
    scores = torch.tensor([-30.0, 0.0, 25.0, 26.0, 30.0])
    decoded = head.decode(scores)
    assert decoded.probability is not None
    assert decoded.prediction.tolist() == [0, 0, 1, 1, 1]
    right = decoded.probability[:, 1]
    assert (right.diff() > 0).all()
    torch.testing.assert_close(decoded.probability.sum(1), torch.ones(5).double())


@each_head
def test_a_head_learns_an_order(head: RankingHead) -> None:
    torch.manual_seed(0)
    model = type(head)(2, 2)
    x = torch.tensor([list(item) for item in product([0.0, 1.0], repeat=2)])
    target, group = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(20):
        optimizer.zero_grad()
        model.loss(model(x), target, group).backward()
        optimizer.step()
    scores: Tensor = model(x)
    assert scores[1] > scores[0]
    assert scores[3] > scores[2]


def test_other_than_two_labels_are_refused() -> None:
    with pytest.raises(ConfigError, match="found a task of 3 labels, expected 2"):
        PairwiseRankingHead(4, 3)
