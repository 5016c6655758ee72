"""Attention blocks against sums over single tokens of one text, or by hand."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from nlp_core.blocks import Block
from nlp_core.blocks.attention import (
    BiDAF,
    BilinearAttention,
    BiLSTMAttention,
    FullAttention,
    Seq2SeqAttention,
    SlotAttention,
    TrilinearScore,
)
from nlp_core.blocks.pooling import SelfAttentionPooling
from tests.block_contract import assert_close

LENGTH, OTHER_LENGTH = 3, 2
MASK = torch.tensor([[True, True, True, False]])
OTHER_MASK = torch.tensor([[True, True, False]])


def make(block: Block) -> Block:
    return block.double()


def draw(*size: int) -> Tensor:
    return torch.randn(1, *size, generator=torch.Generator().manual_seed(sum(size))).double()


def test_bilinear_attention_scores_each_token() -> None:
    block = BilinearAttention(2, 1)
    with torch.no_grad():
        block.linear.weight.copy_(torch.tensor([[2.0], [-1.0]]))
        block.linear.bias.copy_(torch.tensor([0.5, 0.0]))
    x = torch.tensor([[[1.0, 0.0], [1.0, 10.0], [7.0, 7.0]]])
    mask = torch.tensor([[True, True, False]])
    # W y + b = (6.5, -3)
    found = block(x, mask, torch.tensor([[3.0]]), None)
    assert_close(found, [[[6.5], [6.5 - 30.0], [0.0]]])


def test_full_attention_compares_histories_and_mixes_the_other_text() -> None:
    block = make(FullAttention(1, 3, 4, 4, hidden_dim=5))
    with torch.no_grad():
        block.diagonal.copy_(torch.linspace(-1.0, 2.0, 5))
    x, y, p, q = draw(4, 1), draw(3, 3), draw(4, 4), draw(3, 4)
    found = block(x, MASK, y, OTHER_MASK, p, MASK, q, OTHER_MASK)
    for t in range(LENGTH):
        query = torch.relu(block.linear.weight @ p[0, t])
        scores = [
            query @ (torch.diag(block.diagonal) @ torch.relu(block.linear.weight @ q[0, s]))
            for s in range(OTHER_LENGTH)
        ]
        assert_close(found[0, t], torch.stack(scores).softmax(0) @ y[0, :OTHER_LENGTH])


def test_full_attention_starts_as_a_plain_product() -> None:
    assert_close(FullAttention(1, 1, 1, 1, hidden_dim=2).diagonal, [1.0, 1.0])


def trilinear(score: TrilinearScore, x: Tensor, y: Tensor) -> Tensor:
    """Return w . [x; y; x * y] of all pairs of [T, D] and [S, D], pair by pair."""
    w = torch.cat([score.first.weight[0], score.second.weight[0], score.product])
    rows = [torch.stack([w @ torch.cat([a, b, a * b]) for b in y]) for a in x]
    return torch.stack(rows)


def test_bidaf_equals_its_formula() -> None:
    block, x, y = make(BiDAF(3, 3)), draw(4, 3), draw(3, 3)
    found = block(x, MASK, y, OTHER_MASK)
    real_x, real_y = x[0, :LENGTH], y[0, :OTHER_LENGTH]
    scores = trilinear(block.score, real_x, real_y)
    best = scores.max(1).values.softmax(0) @ real_x
    for t in range(LENGTH):
        seen, token = scores[t].softmax(0) @ real_y, real_x[t]
        assert_close(found[0, t], torch.cat([token, seen, token * seen, token * best]))


def test_seq2seq_attention_equals_its_formula() -> None:
    block, x, y = make(Seq2SeqAttention(3, 3)), draw(4, 3), draw(3, 3)
    found = block(x, MASK, y, OTHER_MASK)
    real_x, real_y = x[0, :LENGTH], y[0, :OTHER_LENGTH]
    scores = trilinear(block.score, real_x, real_y)
    weight = scores.max(1).values.softmax(0)
    for t in range(LENGTH):
        seen = scores[t].softmax(0) @ real_y
        assert_close(found[0, t], torch.cat([weight[t] * real_x[t], seen]))


@pytest.mark.parametrize("build", [BiDAF, Seq2SeqAttention])
def test_flow_without_another_text_weighs_tokens_equally(
    build: type[BiDAF] | type[Seq2SeqAttention],
) -> None:
    x = torch.tensor([[[2.0], [4.0], [9.0]]])
    mask, nothing = torch.tensor([[True, True, False]]), torch.tensor([[False]])
    found = build(1, 1)(x, mask, torch.tensor([[[5.0]]]), nothing)
    # BiDAF: [x, 0, 0, x * mean]; seq2seq: [x / 2, 0]
    expected: list[list[float]] = (
        [[2.0, 0.0, 0.0, 6.0], [4.0, 0.0, 0.0, 12.0], [0.0] * 4]
        if build is BiDAF
        else [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]
    )
    assert_close(found, [expected])


@pytest.mark.parametrize("build", [BiDAF, Seq2SeqAttention])
def test_flow_drops_weights_in_training_only(
    build: type[BiDAF] | type[Seq2SeqAttention],
) -> None:
    torch.manual_seed(0)
    block, x, y = make(build(3, 3, dropout=0.5)), draw(4, 3), draw(3, 3)
    fields = (x, MASK, y, OTHER_MASK)
    assert (block(*fields) != block(*fields)).any()
    assert_close(block.eval()(*fields), block(*fields))


def test_bilstm_attention_mixes_the_states() -> None:
    torch.manual_seed(0)
    block, x = make(BiLSTMAttention(3, hidden_dim=2)), draw(4, 3)
    found = block(x, MASK)
    states = block.bilstm(x, MASK)[0, :LENGTH]
    for t in range(LENGTH):
        scores = torch.stack([states[t] @ block.score.linear.weight @ h for h in states])
        assert_close(found[0, t], scores.softmax(0) @ states)


def score_slots(score: nn.Module, first: Tensor, second: Tensor) -> Tensor:
    """Return the score of two tokens."""
    weights = dict(score.named_parameters())
    if not weights:
        return first @ second
    if "linear.weight" in weights:
        return first @ weights["linear.weight"] @ second
    # one map of both tokens side by side, as in the source
    both = torch.cat([weights["query.weight"], weights["key.weight"]], 1)
    return weights["score.weight"][0] @ torch.tanh(both @ torch.cat([first, second]))


@pytest.mark.parametrize("score", ["concat", "multiply", "dot"])
def test_slot_attention_puts_what_is_seen_beside_each_token(
    score: Literal["concat", "multiply", "dot"],
) -> None:
    torch.manual_seed(0)
    block, x = make(SlotAttention(3, score=score, attention_dim=5)), draw(4, 3)
    found, real = block(x, MASK), x[0, :LENGTH]
    for t in range(LENGTH):
        scores = torch.stack([score_slots(block.score, real[t], other) for other in real])
        assert_close(found[0, t], torch.cat([real[t], scores.softmax(0) @ real]))


def test_hops_of_self_attention_pooling_stand_side_by_side() -> None:
    block = SelfAttentionPooling(1, attention_dim=1, num_hops=2)
    with torch.no_grad():
        block.hidden.weight.fill_(100.0)  # tanh gives the sign of the token
        block.hops.weight.copy_(torch.tensor([[math.log(3.0) / 2.0], [0.0]]))
    x = torch.tensor([[[4.0], [-8.0], [5.0]]])
    mask = torch.tensor([[True, True, False]])
    # first hop: scores +-log(3) / 2, weights 3/4 and 1/4; second: 1/2 each
    assert_close(block(x, mask), [[3.0 - 2.0, 2.0 - 4.0]])
