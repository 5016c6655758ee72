"""Where word vectors are perturbed, and that no perturbation leaves its ball or touches padding."""

from itertools import product
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nlp_core.blocks import BLOCKS, Block
from nlp_core.blocks.character import CharCNN
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.blocks.masking import MaskedBatchNorm
from nlp_core.config.adversarial import Level, Norm
from nlp_core.models.graph import find_word_tables
from nlp_core.objectives.objective import (
    Ball,
    Noise,
    Perturbed,
    freeze,
    intercept,
    repeat_pass,
)

NORMS: tuple[Norm, ...] = get_args(Norm)
LEVELS: tuple[Level, ...] = get_args(Level)
BALLS = list(product(NORMS, LEVELS))
MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [False] * 4])
ROUNDING = 1 + 1e-5  # a norm of a few dozen float32 numbers


class TwoTexts(nn.Module):
    """One word table that is read twice, and one that is read once."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = WordEmbedding(9, dim=3)
        self.other = WordEmbedding(9, dim=2)
        self.characters = CharCNN(9, dim=3)

    def forward(self, first: Tensor, second: Tensor) -> list[Tensor]:
        return [
            table(ids, ids != 0)
            for table, ids in ((self.shared, first), (self.other, first), (self.shared, second))
        ]


class Pretrained(Block):
    """A block whose word vectors are those of a table inside."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4, padding_idx=3)
        self.positions = nn.Embedding(9, 4)

    def find_word_table(self) -> nn.Module:
        return self.words

    def forward(self, ids_BT: Tensor, mask: Tensor) -> Tensor:
        return self.words(ids_BT) + self.positions(torch.arange(ids_BT.shape[1]))


def measure(ball: Ball, delta: Tensor) -> Tensor:
    """Return the norms in 64 bits, written out."""
    rows = delta.double() if ball.level == "token" else delta.double().flatten(1)
    if ball.norm == "inf":
        return rows.abs().amax(-1)
    return rows.abs().sum(-1) if ball.norm == "l1" else rows.square().sum(-1).sqrt()


@pytest.mark.parametrize(("norm", "level"), BALLS)
@settings(max_examples=15, deadline=None)
@given(
    radius=st.floats(1e-6, 10),
    length=st.floats(1e-6, 1e3),
    size=st.floats(1e-30, 1e6),
    seed=st.integers(0, 1000),
)
def test_no_step_leaves_the_ball_or_touches_padding(
    norm: Norm, level: Level, radius: float, length: float, size: float, seed: int
) -> None:
    ball, noise = Ball(norm, level, radius), Noise(seed)
    like = torch.zeros(3, 4, 5)
    drawn = noise.draw_normal(like, MASK, std=size)
    found = drawn._replace(delta=ball.project(drawn.delta))
    for _ in range(4):
        gradient = noise.draw_normal(like, torch.ones_like(MASK), std=size).delta
        found = ball.ascend(found, gradient, length)
        assert (measure(ball, found.delta) <= radius * ROUNDING).all()
        assert not found.delta[~MASK].any()
        assert found.delta.isfinite().all()


@pytest.mark.parametrize(("norm", "level"), BALLS)
def test_a_step_has_the_length_it_is_given(norm: Norm, level: Level) -> None:
    ball = Ball(norm, level, 1e9)
    gradient = Noise(5).draw_normal(torch.zeros(3, 4, 5), MASK, std=1e-25).delta
    start = Perturbed(torch.zeros(3, 4, 5), MASK)
    found = measure(ball, ball.ascend(start, gradient, 0.25).delta)
    real = MASK if level == "token" else MASK.any(1)
    assert found[real].tolist() == pytest.approx([0.25] * int(real.sum()), rel=1e-5)
    assert not found[~real].any()


def test_steps_go_up_and_a_gradient_of_nothing_moves_nothing() -> None:
    ball = Ball("l2", "token", 1.0)
    start = Perturbed(torch.zeros(1, 1, 2), torch.tensor([[True]]))
    moved = ball.ascend(start, torch.tensor([[[3.0, -4.0]]]), 0.5)
    assert moved.delta.flatten().tolist() == pytest.approx([0.3, -0.4])
    assert not ball.ascend(start, torch.zeros(1, 1, 2), 0.5).delta.any()
    assert ball.ascend(moved, torch.zeros(1, 1, 2), 0.5).delta.equal(moved.delta)


def test_what_is_inside_the_ball_stays() -> None:
    delta = torch.tensor([[[0.1, -0.2]]])
    for norm, level in BALLS:
        assert Ball(norm, level, 0.5).project(delta).equal(delta), (norm, level)
        assert not Ball(norm, level, 0.0).project(delta).any(), (norm, level)


@pytest.mark.parametrize("level", LEVELS)
def test_uniform_noise_is_within_its_bounds(level: Level) -> None:
    ball = Ball("l2", level, 2.0)
    found = Noise(1).draw_uniform(torch.zeros(3, 4, 5), MASK, ball=ball)
    count = 5.0 * (torch.ones(3, 1, 1) if level == "token" else MASK.sum(1).view(3, 1, 1))
    assert (found.delta.abs() <= 2.0 / count.clamp(min=1).sqrt()).all()
    assert not found.delta[~MASK].any()
    assert found.delta[MASK].abs().min() > 0


def test_a_gradient_that_overflowed_points_nowhere() -> None:
    gradient = torch.tensor([[[torch.inf, 3.0, -4.0], [torch.nan, -torch.inf, 0.0]]])
    found = Ball("l2", "token", 1.0).direct(gradient)
    torch.testing.assert_close(found, torch.tensor([[[0.0, 0.6, -0.8], [0.0, 0.0, 0.0]]]))


def test_noise_is_that_of_its_step_and_process_and_leaves_the_global_generator() -> None:
    first, second, like = Noise(7), Noise(7), torch.zeros(3, 4, 5)
    before = torch.get_rng_state()
    first.begin(4)
    part = first.draw_normal(like, MASK, std=1.0).delta
    first.begin(4)
    next_part = first.draw_normal(like, MASK, std=1.0).delta
    second.begin(3)
    other_step = second.draw_normal(like, MASK, std=1.0).delta
    second.begin(4)
    assert second.draw_normal(like, MASK, std=1.0).delta.equal(part)
    process = Noise(7, rank=1)
    process.begin(4)
    other_process = process.draw_normal(like, MASK, std=1.0).delta
    for other in (next_part, other_step, other_process, Noise(8).draw_normal(like, MASK, std=1.0)):
        assert not part.equal(getattr(other, "delta", other))
    assert torch.get_rng_state().equal(before)


def test_word_tables_are_found_once_and_no_other_table_is() -> None:
    model = TwoTexts()
    assert find_word_tables(model) == [model.shared, model.other]
    block = Pretrained()
    assert find_word_tables(nn.ModuleList([block, nn.ModuleList([block])])) == [block.words]
    assert BLOCKS.get("char_cnn")(9, dim=3).find_word_table() is None


def test_each_call_has_a_perturbation_of_its_own() -> None:
    model = TwoTexts()
    first, second = torch.tensor([[1, 2, 0]]), torch.tensor([[3, 0]])
    plain = model(first, second)
    deltas = [torch.full_like(item, number) for number, item in enumerate(plain, 1)]
    masks = []

    def change(idx: int, vectors: Tensor, mask: Tensor) -> Tensor:
        masks.append(mask.tolist())
        return vectors + deltas[idx]

    with intercept(find_word_tables(model), change):
        moved = model(first, second)
    for before, after, delta in zip(plain, moved, deltas, strict=True):
        assert after.equal(before + delta)
    assert masks == [[[True, True, False]]] * 2 + [[[True, False]]]
    assert all(a.equal(b) for a, b in zip(model(first, second), plain, strict=True))


def test_a_table_inside_a_block_is_perturbed_before_positions_are_added() -> None:
    block = Pretrained()
    ids = torch.tensor([[5, 3, 3]])
    plain = block(ids, ids != 3)
    seen = []

    def change(idx: int, vectors: Tensor, mask: Tensor) -> Tensor:
        seen.append((vectors, mask))
        return vectors + 1.0

    with intercept(find_word_tables(block), change):
        assert torch.allclose(block(ids, ids != 3), plain + 1.0)
    ((vectors, mask),) = seen
    assert vectors.equal(block.words(ids))
    assert mask.tolist() == [[True, False, False]]


def test_hooks_go_when_a_pass_fails() -> None:
    model = TwoTexts()
    with (
        pytest.raises(ZeroDivisionError),
        intercept(find_word_tables(model), lambda idx, vectors, mask: vectors / (1 // idx)),
    ):
        model(torch.tensor([[1]]), torch.tensor([[1]]))
    assert not model.shared._forward_hooks


def test_a_repeated_pass_draws_the_same_and_leaves_no_trace() -> None:
    norm = MaskedBatchNorm(4)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4))
    state = torch.get_rng_state()
    x = torch.randn(6, 4)
    torch.set_rng_state(state)
    first = model(x)
    norm(first, None)
    after, mean = torch.get_rng_state(), norm.running_mean
    assert mean is not None
    kept = mean.clone()
    with repeat_pass(nn.ModuleList([model, norm]), state):
        again = model(x)
        norm(again * 3, None)
    assert again.equal(first)
    assert torch.get_rng_state().equal(after)
    assert mean.equal(kept)
    assert norm.momentum == 0.1
    norm(again * 3, None)
    assert not mean.equal(kept)


def test_frozen_weights_get_no_gradient_and_thaw() -> None:
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    x = torch.ones(1, 2, requires_grad=True)
    before = model(x)
    with freeze(model):
        (gradient,) = torch.autograd.grad(model(x).sum(), x)
        assert not model.weight.requires_grad
    assert gradient.equal(model.weight)
    assert model.weight.requires_grad
    assert not model.bias.requires_grad
    before.sum().backward()  # a graph of before still reaches the weights
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
