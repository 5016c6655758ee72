"""The encoder-decoder head: its formula, teacher forcing, and reading its own predictions."""

import math

import pytest
import torch
from torch import Tensor

from nlp_core.heads.tagging import EncoderDecoderTaggingHead

DIM, HIDDEN, LABEL, LABELS = 4, 5, 3, 3
LENGTHS = [4, 2]


@pytest.fixture
def head() -> EncoderDecoderTaggingHead:
    torch.manual_seed(3)
    head = EncoderDecoderTaggingHead(DIM, LABELS, hidden_dim=HIDDEN, label_dim=LABEL).double()
    with torch.no_grad():
        head.label.weight.mul_(4.0)  # so that the label before matters
    return head


def make_input() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, 4, DIM, generator=generator).double()
    mask = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)
    target = torch.tensor([[2, 0, 1, 1], [1, 2, -1, -1]])
    return x, mask, target


def decode_plainly(head: EncoderDecoderTaggingHead, x: Tensor, target: list[int] | None) -> Tensor:
    """Score one sentence without padding, one token and one formula at a time."""
    state = torch.tanh(head.first.weight @ x[0] + head.first.bias)
    memory = torch.zeros_like(state)
    before, scores = LABELS, []
    for idx, token in enumerate(x):
        inner = [
            torch.tanh(head.query.weight @ state + head.key.weight @ item + head.key.bias)
            for item in x
        ]
        weight = torch.stack([head.energy.weight[0] @ item for item in inner]).softmax(0)
        context = (weight.unsqueeze(1) * x).sum(0)
        fed = torch.cat([token, context, head.label.weight[before]])
        cell = head.cell
        gates = cell.weight_ih @ fed + cell.bias_ih + cell.weight_hh @ state + cell.bias_hh
        enter, forget, new, leave = gates.view(4, HIDDEN)
        memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
        state = leave.sigmoid() * memory.tanh()
        scores.append(head.emission.weight @ state + head.emission.bias)
        before = int(scores[-1].argmax()) if target is None else target[idx]
    return torch.stack(scores)


@pytest.mark.parametrize("forced", [True, False])
def test_scores_are_those_of_the_formula(head: EncoderDecoderTaggingHead, forced: bool) -> None:
    x, mask, target = make_input()
    scores = head(x, mask, target if forced else None)
    for row, length in enumerate(LENGTHS):
        labels = target[row, :length].tolist() if forced else None
        expected = decode_plainly(head, x[row, :length], labels)
        # the order of sums differs
        torch.testing.assert_close(scores[row, :length], expected, rtol=1e-10, atol=1e-10)
    assert not scores[~mask].any()


def test_prediction_is_a_fixed_point_of_its_own_labels(head: EncoderDecoderTaggingHead) -> None:
    x, mask, _ = make_input()
    scores = head(x, mask)
    found = head.decode(scores, mask).prediction
    torch.testing.assert_close(head(x, mask, found), scores, rtol=0, atol=0)


def test_right_labels_change_later_scores_only(head: EncoderDecoderTaggingHead) -> None:
    x, mask, target = make_input()
    other = target.clone()
    other[0, 1] = 2
    first, second = head(x, mask, target), head(x, mask, other)
    assert torch.equal(first[0, :2], second[0, :2])
    assert not torch.isclose(first[0, 2:], second[0, 2:]).any()
    assert torch.equal(first[1], second[1])


def test_labels_at_padding_are_not_read(head: EncoderDecoderTaggingHead) -> None:
    x, mask, target = make_input()
    other = target.masked_fill(~mask, 2)
    assert torch.equal(head(x, mask, target), head(x, mask, other))
    assert torch.equal(
        head.loss(head(x, mask, target), target, mask), head.loss(head(x, mask, other), other, mask)
    )


def test_gradient_through_right_labels_reaches_every_parameter(
    head: EncoderDecoderTaggingHead,
) -> None:
    x, mask, target = make_input()
    head.loss(head(x, mask, target), target, mask).backward()
    assert [n for n, p in head.named_parameters() if p.grad is None or not p.grad.any()] == []
    # The last label of a sentence stands before no other; 2 begins both, 0 and 1 are in the first.
    assert head.label.weight.grad is not None
    assert head.label.weight.grad.any(1).all()


def test_dropout_draws_in_training_only() -> None:
    torch.manual_seed(0)
    head = EncoderDecoderTaggingHead(DIM, LABELS, dropout=0.5).double()
    x, mask, target = make_input()
    assert not torch.equal(head(x, mask, target), head(x, mask, target))
    head.eval()
    assert torch.equal(head(x, mask, target), head(x, mask, target))


def test_it_learns_what_no_token_alone_can_tell() -> None:
    """All tokens are the same: only the label before says which one comes next."""
    torch.manual_seed(0)
    head = EncoderDecoderTaggingHead(1, 2, hidden_dim=8, label_dim=4)
    x, mask = torch.ones(1, 6, 1), torch.ones(1, 6, dtype=torch.bool)
    target = torch.tensor([[1, 0, 1, 0, 1, 0]])
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        head.loss(head(x, mask, target), target, mask).backward()
        optimiser.step()
    assert head.decode(head(x, mask), mask).prediction.tolist() == target.tolist()
    loss = head.loss(head(x, mask, target), target, mask) / 6
    assert float(loss.detach()) < math.log(2.0) / 4  # log 2: what a single token can do
