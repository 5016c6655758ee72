"""The losses that a model file chooses by name: by hand, against torch, and their gradients."""

import math
from typing import Any

import pytest
import torch

from nlp_core.blocks.option import check_options
from nlp_core.errors import ConfigError
from nlp_core.heads.loss import CrossEntropyConfig, FocalConfig, compute_label_loss
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.heads.tagging import TaggingHead

# Of three labels: p = (1/2, 1/4, 1/4) and p = (1/10, 4/5, 1/10).
SCORES = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=torch.float64).log()
TARGET = torch.tensor([0, 2])
WEIGHTS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
SMOOTH = CrossEntropyConfig(name="cross_entropy", label_smoothing=0.3)
FOCAL = FocalConfig(name="focal", gamma=2.0)


def test_focal_loss_by_hand() -> None:
    # (1 - 1/2)^2 log 2 and (1 - 1/10)^2 log 10
    first, second = 0.25 * math.log(2), 0.81 * math.log(10)
    assert float(compute_label_loss(SCORES, TARGET, FOCAL, None)) == pytest.approx(
        (first + second) / 2
    )
    weighted = compute_label_loss(SCORES, TARGET, FOCAL, WEIGHTS)
    assert float(weighted) == pytest.approx((1 * first + 4 * second) / 5)
    total = compute_label_loss(SCORES, TARGET, FOCAL, WEIGHTS, reduction="sum")
    assert float(total) == pytest.approx(first + 4 * second)


def test_focal_loss_without_gamma_is_the_cross_entropy() -> None:
    plain, focal = CrossEntropyConfig(name="cross_entropy"), FocalConfig(name="focal", gamma=0.0)
    for weights in (None, WEIGHTS):
        torch.testing.assert_close(
            compute_label_loss(SCORES, TARGET, focal, weights),
            compute_label_loss(SCORES, TARGET, plain, weights),
        )


def test_label_smoothing_by_hand() -> None:
    # q = (.8, .1, .1) and (.1, .1, .8)
    first = 0.8 * math.log(2) + 0.2 * math.log(4)
    second = 0.9 * math.log(10) - 0.1 * math.log(0.8)
    found = compute_label_loss(SCORES, TARGET, SMOOTH, None)
    assert float(found) == pytest.approx((first + second) / 2)


def test_label_smoothing_weights_the_term_of_each_label() -> None:
    first = 0.8 * math.log(2) + 2 * 0.1 * math.log(4) + 4 * 0.1 * math.log(4)
    second = 0.1 * math.log(10) - 2 * 0.1 * math.log(0.8) + 4 * 0.8 * math.log(10)
    found = compute_label_loss(SCORES, TARGET, SMOOTH, WEIGHTS)
    assert float(found) == pytest.approx((first + second) / (1 + 4))


@pytest.mark.parametrize("choice", [FOCAL, SMOOTH, FocalConfig(name="focal", gamma=0.5)])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradients_are_those_of_differences(choice: Any, weights: Any, reduction: Any) -> None:
    def loss(scores: torch.Tensor) -> torch.Tensor:
        return compute_label_loss(scores, TARGET, choice, weights, reduction=reduction)

    scores = torch.tensor([[0.3, -0.2, 0.1], [1.0, 0.5, -0.4]], dtype=torch.float64)
    assert torch.autograd.gradcheck(loss, scores.requires_grad_())


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_loss_of_a_certain_answer_has_a_gradient(gamma: float) -> None:
    scores = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    choice = FocalConfig(name="focal", gamma=gamma)
    loss = compute_label_loss(scores, torch.tensor([0, 0]), choice, None)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(100.0)
    assert scores.grad is not None
    # the right answer is not changed, the wrong one pulled as by the cross entropy
    torch.testing.assert_close(scores.grad, torch.tensor([[0.0, 0.0], [-0.5, 0.5]]))


@pytest.mark.parametrize("choice", [FOCAL, SMOOTH])
def test_a_target_of_padding_is_not_read(choice: Any) -> None:
    scores = torch.cat([SCORES, torch.full((1, 3), 7.0).double()])
    target = torch.tensor([0, 2, -1])
    for reduction in ("mean", "sum"):
        torch.testing.assert_close(
            compute_label_loss(scores, target, choice, WEIGHTS, reduction=reduction),  # type: ignore[arg-type]  # a literal
            compute_label_loss(SCORES, TARGET, choice, WEIGHTS, reduction=reduction),  # type: ignore[arg-type]  # a literal
        )


def test_heads_use_the_loss_that_was_chosen() -> None:
    expected = compute_label_loss(SCORES, TARGET, FOCAL, None)
    assert ClassificationHead(4, 3, loss=FOCAL).loss(SCORES, TARGET) == expected
    mask = torch.tensor([[True, True, False]])
    scores = torch.cat([SCORES, torch.zeros(1, 3).double()]).unsqueeze(0)
    found = TaggingHead(4, 3, loss=FOCAL).loss(scores, torch.tensor([[0, 2, -1]]), mask)
    torch.testing.assert_close(found, 2 * expected)  # a sentence, not a token, is the unit


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"name": "focl"}, r"loss: found .*'focal'"),
        ({"gamma": 2.0}, r"loss: "),
        ({"name": "focal", "gama": 2.0}, r"gama: unknown key\. Did you mean 'gamma'"),
        ({"name": "focal", "gamma": -1.0}, r"gamma: found -1\.0"),
        ({"name": "cross_entropy", "label_smoothing": 1.0}, r"label_smoothing: found 1\.0"),
        ({"name": "cross_entropy", "gamma": 1.0}, r"gamma: unknown key"),
        ("focal", r"loss: found 'focal'"),
    ],
)
def test_a_loss_that_is_none_is_refused(loss: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_options(ClassificationHead, {"loss": loss}, where="zoo/x.json: head 'out'")


def test_tagging_weights_are_one_a_label() -> None:
    with pytest.raises(ConfigError, match="tagging: class_weights: found 2 weights"):
        TaggingHead(4, 3, class_weights=[0.5, 0.5])
