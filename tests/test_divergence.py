"""Divergences against closed forms, against their gradients by differences, and at the extremes."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nlp_core.config.adversarial import DivergenceName
from nlp_core.objectives.divergence import compare_rows, mean_divergence

NAMES: tuple[DivergenceName, ...] = get_args(DivergenceName)
LOG2 = math.log(2)

# p = (1/2, 1/2), q = (3/4, 1/4); m = (5/8, 3/8)
CLOSED = {
    "kl": 0.5 * math.log(4 / 3),
    "symmetric_kl": 0.25 * math.log(3),
    "jensen_shannon": (
        0.25 * math.log(0.8) + 0.25 * math.log(4 / 3) + 0.375 * math.log(1.2)
        + 0.125 * math.log(2 / 3)
    ),
    "hellinger": 1 - (math.sqrt(3 / 8) + math.sqrt(1 / 8)),
}  # fmt: skip


def logits(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_closed_form(name: DivergenceName) -> None:
    p, q = logits([7.0, 7.0]), logits([math.log(3.0), 0.0])
    assert compare_rows(name, p, q).item() == pytest.approx(CLOSED[name], rel=1e-12)


def test_kl_has_a_direction_and_no_other_has() -> None:
    p, q = logits([0.0, 1.0, -2.0]), logits([1.5, 0.0, 0.5])
    for name in NAMES:
        there, back = compare_rows(name, p, q).item(), compare_rows(name, q, p).item()
        assert (there == pytest.approx(back, rel=1e-12)) == (name != "kl"), name


def test_disjoint_distributions_reach_the_upper_bounds() -> None:
    p, q = logits([1e4, -1e4]), logits([-1e4, 1e4])
    assert compare_rows("jensen_shannon", p, q).item() == pytest.approx(LOG2)
    assert compare_rows("hellinger", p, q).item() == pytest.approx(1.0)
    assert compare_rows("kl", p, q).item() == pytest.approx(2e4)


def test_values_are_compared_by_their_squared_error() -> None:
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 2.0])
    assert compare_rows("kl", first, second).tolist() == [9.0, 0.0]
    assert mean_divergence("kl", first, second).item() == 4.5


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_both_sides_are_right(name: DivergenceName) -> None:
    generator = torch.Generator().manual_seed(3)
    p, q = (
        torch.randn(4, 3, dtype=torch.float64, generator=generator).requires_grad_()
        for _ in range(2)
    )
    assert torch.autograd.gradcheck(lambda a, b: compare_rows(name, a, b), (p, q))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3), min_size=1))
def test_equal_outputs_give_exactly_nothing_and_no_slope(
    name: DivergenceName, rows: list[list[float]]
) -> None:
    p = torch.tensor(rows).requires_grad_()
    q = p.detach().clone().requires_grad_()
    value = mean_divergence(name, p, q)
    value.backward()  # type: ignore[no-untyped-call]
    assert value.item() == 0.0
    for side in (p, q):
        assert side.grad is not None
        assert not side.grad.any()


@pytest.mark.parametrize("name", NAMES)
def test_extreme_logits_give_no_nan(name: DivergenceName) -> None:
    big = torch.finfo(torch.float32).max / 4
    p = torch.tensor([[1e4, 0.0, -1e4], [big, -big, 0.0], [0.0, -big, 1.0]], requires_grad=True)
    q = torch.tensor([[-1e4, 0.0, 1e4], [0.0, -big, big], [1.0, -big, 0.0]], requires_grad=True)
    value = compare_rows(name, p, q)
    value.sum().backward()
    assert value.isfinite().all()
    assert (value >= 0).all()
    for side in (p, q):
        assert side.grad is not None
        assert not side.grad.isnan().any()


@pytest.mark.parametrize("name", NAMES)
def test_a_hidden_class_is_as_good_as_none(name: DivergenceName) -> None:
    hidden = torch.finfo(torch.float32).min / 4
    p, q = torch.tensor([[0.5, -1.0, hidden]]), torch.tensor([[0.0, 1.0, hidden]])
    with_it, without = compare_rows(name, p, q), compare_rows(name, p[:, :2], q[:, :2])
    assert with_it.item() == pytest.approx(without.item(), rel=1e-6)  # float32


def test_the_mean_of_no_rows_is_nothing_and_has_a_graph() -> None:
    empty = torch.zeros(0, 3, requires_grad=True)
    value = mean_divergence("kl", empty, torch.zeros(0, 3))
    assert value.item() == 0.0
    assert value.requires_grad
