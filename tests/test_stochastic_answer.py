"""Stochastic answer networks: their steps by hand, and pairs of texts from the tokenizer."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nlp_core.config.base import read_config
from nlp_core.config.model import ModelConfig
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import LabelColumn, RawText
from nlp_core.data.task import Split
from nlp_core.errors import ConfigError
from nlp_core.heads.stochastic_answer import SANClassificationHead, SANRegressionHead, choose_steps
from nlp_core.kinds import PAIR_CLASSIFICATION
from nlp_core.models.ensemble import MemberModel, join_members
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.models.plan import plan_model
from tests.tiny_encoder import TINY_ENCODER, make_tokenizer, write_encoder

PARTS = torch.tensor([[0, 1, 1, 0, 2, 2, 2, 0]])
MASK = torch.ones(1, 8, dtype=torch.bool)
MODEL: dict[str, Any] = {
    "description": "a test",
    "source": "a test",
    "inputs": {"texts": "texts"},
    "layers": [
        {"name": "encoder", "block": "pretrained_encoder", "inputs": ["texts"], "dim": 8, "max_length": 16}  # noqa: E501
    ],
    "heads": {"label": {"head": "san_classification", "inputs": ["encoder"]}},
}  # fmt: skip


def make_head(**options: Any) -> SANClassificationHead:
    torch.manual_seed(3)
    return SANClassificationHead(4, 3, **options).double()


def answer_by_hand(head: SANClassificationHead, x: Tensor) -> list[Tensor]:
    """Return the probabilities of each step of one example, with sums written out."""
    first, second, answer = x[0, 1:3], x[0, 4:7], head.answer
    state = (second @ answer.summary.weight[0]).softmax(0) @ second
    found = []
    for _ in range(answer.steps):
        weight = (first @ (answer.query.weight @ state + answer.query.bias)).softmax(0)
        read = weight @ first
        joined = torch.cat([read, state, (read - state).abs(), read * state])
        found.append((answer.out.weight @ joined + answer.out.bias).softmax(0))
        assert answer.memory is not None
        state = answer.memory(read.unsqueeze(0), state.unsqueeze(0))[0]
    return found


def test_the_steps_are_those_of_the_paper() -> None:
    head = make_head(steps=3).eval()
    x = torch.randn(1, 8, 4).double()
    expected = torch.stack(answer_by_hand(head, x)).mean(0)
    torch.testing.assert_close(head(x, MASK, PARTS).exp()[0], expected)


def test_special_pieces_and_order_of_places_change_nothing() -> None:
    head = make_head().eval()
    x = torch.randn(1, 8, 4).double()
    other = x.clone()
    other[0, [0, 3, 7]] = 9.0
    moved = x[:, [6, 4, 5, 0, 2, 1, 3, 7]]
    parts = PARTS[:, [6, 4, 5, 0, 2, 1, 3, 7]]
    torch.testing.assert_close(head(other, MASK, PARTS), head(x, MASK, PARTS))
    torch.testing.assert_close(head(moved, MASK, parts), head(x, MASK, PARTS))


@pytest.mark.parametrize("missing", [1, 2])
def test_an_empty_text_gives_finite_probabilities(missing: int) -> None:
    head = make_head()
    x = torch.randn(1, 8, 4).double().requires_grad_()
    scores = head(x, MASK, PARTS.masked_fill(missing == PARTS, 0))
    torch.testing.assert_close(scores.exp().sum(), torch.tensor(1.0).double())
    head.loss(scores, torch.tensor([1])).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_one_step_at_least_counts() -> None:
    drawn = torch.tensor([[0.1, 0.3, 0.2], [0.7, 0.1, 0.9]])
    assert choose_steps(drawn, 0.5).tolist() == [[False, True, False], [True, False, True]]
    assert choose_steps(drawn, 0.0).all()


def test_steps_are_dropped_as_often_as_asked() -> None:
    torch.manual_seed(0)
    counts = choose_steps(torch.rand(20_000, 5), 0.4).double()
    # the step that is always kept adds 0.4^5 / 5 to the share of each
    assert float(counts.mean()) == pytest.approx(0.6 + 0.4**5 / 5, abs=0.005)
    assert counts.sum(1).min() == 1


def test_training_averages_the_steps_that_count() -> None:
    head = make_head(steps=2, dropout=0.0, step_dropout=0.9)
    x = torch.randn(1, 8, 4).double()
    steps = answer_by_hand(head, x)
    allowed = [*steps, (steps[0] + steps[1]) / 2]
    seen = set()
    for _ in range(40):
        found = head(x, MASK, PARTS).exp()[0]
        seen.add(next(k for k, item in enumerate(allowed) if torch.allclose(found, item)))
    assert {0, 1} <= seen


def test_regression_is_the_mean_of_the_steps() -> None:
    torch.manual_seed(3)
    head = SANRegressionHead(4, 1, steps=2).double().eval()
    x = torch.randn(1, 8, 4).double()
    given = head.answer(x, MASK, PARTS)
    torch.testing.assert_close(head(x, MASK, PARTS), given.mean((1, 2)))


def read_pair(*, has_segments: bool) -> list[list[int]]:
    tokenizer = json.loads(make_tokenizer().to_str())
    for item in tokenizer["post_processor"]["pair"]:
        for piece in item.values():
            piece["type_id"] = piece["type_id"] if has_segments else 0
    vocabulary = PieceVocabulary(json.dumps(tokenizer), TINY_ENCODER, 16, 4, None)
    found = vocabulary.read(RawText(["good films", "bad"], ["the film", "a"]))
    assert found.segments.values.any() == np.bool_(has_segments)
    assert found.parts is not None
    return [list(row) for row in found.parts.take(np.array([0, 1]))]


@pytest.mark.parametrize("has_segments", [True, False])
def test_parts_come_from_the_tokenizer(*, has_segments: bool) -> None:
    expected = [[0, 1, 1, 1, 0, 2, 2, 0], [0, 1, 0, 2, 0, 0, 0, 0]]
    assert read_pair(has_segments=has_segments) == expected


def build_pair_model(root: Path) -> tuple[GraphModel, Featurizer, Split]:
    folder = write_encoder(root)
    plan = plan_model(ModelConfig.model_validate(MODEL), where="a test")
    vocabularies = {"encoder": PieceVocabulary.learn([], {"max_length": 16}, folder)}
    featurizer = Featurizer(plan, vocabularies, {"label": ["no", "yes"]})
    torch.manual_seed(5)
    model = build_model(plan, featurizer, kind=PAIR_CLASSIFICATION).eval()
    labels = LabelColumn.build("label", ["no", "yes", "no"])
    texts = RawText(["good film", "the bad film", "a"], ["bad film", "a", "the film a nice"])
    split = Split("dev", np.arange(3), {}, {"label": labels}, None, raw=texts)
    return model, featurizer, split


def test_a_model_says_the_same_of_a_pair_alone_and_in_a_batch(tmp_path: Path) -> None:
    model, featurizer, split = build_pair_model(tmp_path)
    encoded = featurizer.encode(split)
    together = model(encoded.batch(np.arange(3)))["label"][0]
    for row in range(3):
        alone = model(encoded.batch(np.array([row])))["label"][0]
        torch.testing.assert_close(alone[0], together[row])
    expected = functional.nll_loss(together, torch.tensor([0, 1, 0]))
    torch.testing.assert_close(model.loss(encoded.batch(np.arange(3))), expected)
    assert math.isfinite(float(expected.detach()))


def test_a_layer_that_is_not_over_texts_is_refused(tmp_path: Path) -> None:
    graph = {**MODEL, "inputs": {"texts": "tokens_b.pieces"}}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"head 'label': inputs: found a layer over tokens_b"):
        plan_model(read_config(path, ModelConfig), where="a test")


def test_members_that_cut_texts_differently_are_not_averaged(tmp_path: Path) -> None:
    model, featurizer, _ = build_pair_model(tmp_path)
    encoder = featurizer.vocabularies["encoder"]
    assert isinstance(encoder, PieceVocabulary)
    shorter = replace(featurizer, vocabularies={"encoder": replace(encoder, max_length=12)})
    members = [MemberModel("a", model, featurizer), MemberModel("b", model, shorter)]
    join_members([members[0]] * 2, "probabilities", where="here")
    with pytest.raises(ConfigError, match="here: b: found another tokenizer or max_length"):
        join_members(members, "probabilities", where="here")
