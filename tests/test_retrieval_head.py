"""The head of two towers: its loss and its negatives by hand, and what it refuses."""

import math

import pytest
import torch

from nlp_core.config.model import parse_model
from nlp_core.errors import ConfigError
from nlp_core.heads.retrieval import RetrievalHead, find_negatives
from nlp_core.models.plan import plan_model

RIGHT = torch.tensor([1, 1, 0, 1])
# Query 7 is answered by passages 0 and 1, passage 2 is its hard negative; query 8 by passage 0.
PLACE = torch.tensor([[7, 0], [7, 1], [7, 2], [8, 0]])


def test_negatives_are_wrong_passages_each_once() -> None:
    found = find_negatives(RIGHT == 1, PLACE)
    assert found.tolist() == [
        [False, False, True, False],
        [False, False, True, False],
        [False, False, True, False],
        [False, True, True, False],
    ]


def test_loss_by_hand() -> None:
    scores = torch.tensor([[2.0, 0, 1, 0], [0, 3, 1, 0], [0, 0, 0, 0], [0, 0.5, 1, 4]])
    terms = [
        math.log(math.exp(2) + math.exp(1)) - 2,
        math.log(math.exp(3) + math.exp(1)) - 3,
        math.log(math.exp(4) + math.exp(0.5) + math.exp(1)) - 4,
    ]
    head = RetrievalHead(2, 2, 2)
    assert float(head.loss(scores, RIGHT, PLACE)) == pytest.approx(sum(terms) / 3)


def test_a_pair_without_negatives_costs_nothing() -> None:
    scores = torch.randn(2, 2, requires_grad=True)
    head = RetrievalHead(2, 2, 2)
    loss = head.loss(scores, torch.tensor([1, 1]), torch.tensor([[0, 0], [0, 0]]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


def test_only_wrong_pairs_cost_nothing() -> None:
    head = RetrievalHead(2, 2, 2)
    assert float(head.loss(torch.randn(2, 2), torch.tensor([0, 0]), PLACE[:2])) == 0.0


def test_cosine_and_dot_product() -> None:
    query, passage = torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]])
    cosine = RetrievalHead(2, 2, 2, temperature=0.5)
    assert float(cosine(query, passage)) == pytest.approx(2.0)
    product = RetrievalHead(2, 2, 2, similarity="dot", temperature=2.0)
    assert float(product(query, passage)) == pytest.approx(25.0)


def test_ties_do_not_help() -> None:
    decoded = RetrievalHead(2, 2, 2).decode(torch.tensor([[1.0, 2.0], [0.5, 0.5]]))
    assert decoded.prediction.tolist() == [2, 2]


def test_widths_and_labels_are_checked() -> None:
    with pytest.raises(ConfigError, match="vectors of widths 2 and 3, expected equal widths"):
        RetrievalHead(2, 3, 2)
    with pytest.raises(ConfigError, match="found a task of 3 labels, expected 2"):
        RetrievalHead(2, 2, 3)


def test_a_tower_reads_its_own_text_only() -> None:
    layers = [
        {"name": "first", "block": "word_embedding", "inputs": ["a"], "dim": 4},
        {"name": "second", "block": "first", "inputs": ["b"]},
        {"name": "query", "block": "pooling", "inputs": ["first"], "pool": "mean"},
        {"name": "passage", "block": "pooling", "inputs": ["second"], "pool": "mean"},
        {"name": "both", "block": "concat", "inputs": ["query", "passage"]},
    ]
    model = {
        "description": "x",
        "source": "x",
        "inputs": {"a": "tokens_a", "b": "tokens_b"},
        "layers": layers,
        "heads": {"found": {"head": "retrieval", "inputs": ["both", "passage"]}},
    }
    expected = r"head 'found': inputs: found 'both', which reads 'tokens_b' \(input 'b'\)"
    with pytest.raises(ConfigError, match=expected):
        plan_model(parse_model(model, "here"), where="here")
