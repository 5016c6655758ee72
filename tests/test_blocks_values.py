"""Values of blocks worked out by hand, or by a plain and slow way of saying the same."""

import math
from typing import Literal

import pytest
import torch
from torch import nn
from torch.nn import functional

from nlp_core.blocks.attention import CrossAttention, MatchAttention
from nlp_core.blocks.character import CharCNN, CharLSTM
from nlp_core.blocks.combination import Combination
from nlp_core.blocks.convolution import Conv, ConvPooling
from nlp_core.blocks.feedforward import Dropout, Highway, LayerNorm, Linear
from nlp_core.blocks.masking import MaskedBatchNorm, masked_softmax
from nlp_core.blocks.pooling import LinearAttention, Pooling
from nlp_core.blocks.recurrent import BiLSTM, reverse_index
from tests.block_contract import assert_close


def fill(linear: nn.Module, weight: list[object], bias: list[float]) -> None:
    with torch.no_grad():
        linear.get_parameter("weight").copy_(torch.tensor(weight))
        linear.get_parameter("bias").copy_(torch.tensor(bias))


TWO = torch.tensor([[True, True, False]])
ONES_TWO = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("max", [[3.0, -2.0]]),
        ("mean", [[2.0, -3.0]]),
        ("last", [[3.0, -2.0]]),
        ("first", [[1.0, -4.0]]),
    ],
)
def test_pooling_reads_real_tokens(
    pool: Literal["max", "mean", "last", "first"], expected: list[object]
) -> None:
    assert_close(Pooling(2, pool=pool)(ONES_TWO, TWO), expected)


def test_linear_attention_weighs_by_its_query() -> None:
    block = LinearAttention(2)
    with torch.no_grad():
        block.query.weight.copy_(torch.tensor([[math.log(3.0) / 2.0, 0.0]]))
    # scores 0.5 log 3 and 1.5 log 3: weights 1/4 and 3/4
    assert_close(block(ONES_TWO, TWO), [[0.25 * 1 + 0.75 * 3, 0.25 * -4 + 0.75 * -2]])


def test_softmax_of_nothing_is_zero() -> None:
    nothing = torch.tensor([[False, False]])
    assert_close(masked_softmax(torch.randn(1, 2), nothing), [[0.0, 0.0]])


def test_cross_attention_mixes_the_other_sequence() -> None:
    x = torch.tensor([[[math.log(2.0), 0.0], [0.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0], [0.0, 6.0], [7.0, 7.0]]])
    mask_x = torch.tensor([[True, True]])
    # first token: scores log 2 and 0, so weights 2/3 and 1/3; second: 1/2 each
    expected = [[[2 / 3, 2.0], [0.5, 3.0]]]
    assert_close(CrossAttention(2, 2)(x, mask_x, y, TWO), expected)


def test_scaled_cross_attention_divides_by_the_root_of_the_width() -> None:
    x = torch.tensor([[[math.log(2.0) * math.sqrt(2.0), 0.0]]])
    y = torch.tensor([[[1.0, 0.0], [0.0, 6.0]]])
    both, one = torch.tensor([[True, True]]), torch.tensor([[True]])
    assert_close(CrossAttention(2, 2, scaled=True)(x, one, y, both), [[[2 / 3, 2.0]]])


def test_match_attention_maps_both_sides_by_the_same_layer() -> None:
    block = MatchAttention(2, 2)
    fill(block.linear, [[1.0, 0.0], [0.0, -1.0]], [0.0, 0.0])
    x = torch.tensor([[[math.log(2.0), 5.0]]])  # mapped to (log 2, 0): -5 is cut by the ReLU
    y = torch.tensor([[[1.0, 3.0], [0.0, 6.0]]])  # mapped to (1, 0) and (0, 0)
    both, one = torch.tensor([[True, True]]), torch.tensor([[True]])
    assert_close(block(x, one, y, both), [[[2 / 3, 4.0]]])


def test_combination_keeps_the_order_of_its_operations() -> None:
    x, y = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 4.0]])
    block = Combination(2, 2, operations=["product", "origin", "difference"])
    assert_close(block(x, None, y, None), [[3.0, -8.0, 1.0, -2.0, 3.0, 4.0, 2.0, 6.0]])


def test_highway_mixes_by_its_gate() -> None:
    block = Highway(1)
    fill(block.maps[0], [[2.0]], [1.0])
    fill(block.gates[0], [[0.0]], [math.log(3.0)])  # gate 3/4
    assert_close(block(torch.tensor([[2.0], [-4.0]]), None), [[0.75 * 5 + 0.25 * 2], [-1.0]])


def test_new_highway_mostly_carries() -> None:
    assert_close(Highway(3).gates[0].get_parameter("bias"), [-1.0, -1.0, -1.0])


def test_layer_norm_centres_and_scales() -> None:
    expected = torch.tensor([[-1.0, 1.0]]) / math.sqrt(1.0 + 1e-5)
    assert_close(LayerNorm(2)(torch.tensor([[3.0, 5.0]]), None), expected)


def test_linear_applies_the_activation() -> None:
    block = Linear(2, hidden_dim=1, activation="relu")
    fill(block.linear, [[1.0, -1.0]], [0.5])
    assert_close(block(torch.tensor([[2.0, 1.0], [1.0, 2.0]]), None), [[1.5], [0.0]])


def test_dropout_scales_what_it_keeps_and_rests_in_evaluation() -> None:
    torch.manual_seed(0)
    block, x = Dropout(1, p=0.75), torch.ones(4000, 1)
    y = block(x, None)
    assert set(y.unique().tolist()) == {0.0, 4.0}
    assert 0.22 < (y > 0).float().mean() < 0.28  # 0.25 +- 4 standard errors
    assert_close(block.eval()(x, None), x)


def make_conv(window: int) -> Conv:
    conv = Conv(1, filters=1, window=window, activation="none")
    weight = [[10.0**k for k in range(window)]]
    fill(conv.convolution.linear, weight, [0.5])
    return conv


def test_conv_sees_zeros_beyond_both_ends() -> None:
    x = torch.tensor([[[1.0], [2.0], [7.0]]])
    assert_close(make_conv(3)(x, TWO), [[[210.5], [21.5], [0.0]]])


def test_even_window_looks_one_further_to_the_right() -> None:
    x = torch.tensor([[[1.0], [2.0], [7.0]]])
    assert_close(make_conv(2)(x, TWO), [[[21.5], [2.5], [0.0]]])


def test_conv_normalises_after_the_activation() -> None:
    conv = Conv(1, filters=1, window=1, activation="relu", batch_norm=True)
    fill(conv.convolution.linear, [[1.0]], [0.0])
    x = torch.tensor([[[-5.0], [2.0], [9.0]]])  # 0 and 2 after the ReLU: mean 1, variance 1
    scale = 1.0 / math.sqrt(1.0 + 1e-5)
    assert_close(conv(x, TWO), [[[-scale], [scale], [0.0]]])


def test_conv_pooling_of_a_text_shorter_than_the_window() -> None:
    block = ConvPooling(1, filters=1, windows=[3, 1], activation="none")
    fill(block.convolutions[0].get_submodule("linear"), [[1.0, 10.0, 100.0]], [0.0])
    fill(block.convolutions[1].get_submodule("linear"), [[-1.0]], [0.0])
    one = torch.tensor([[True]])
    assert_close(block(torch.tensor([[[2.0]]]), one), [[20.0, -2.0]])


def test_conv_pooling_mean_counts_real_tokens() -> None:
    block = ConvPooling(1, filters=1, windows=[1], activation="relu", pool="mean")
    fill(block.convolutions[0].get_submodule("linear"), [[1.0]], [0.0])
    assert_close(block(torch.tensor([[[-1.0], [3.0], [100.0]]]), TWO), [[1.5]])


def test_batch_norm_is_that_of_the_real_tokens_alone() -> None:
    torch.manual_seed(0)
    ours, theirs = MaskedBatchNorm(4), nn.BatchNorm1d(4)
    x, mask = torch.randn(5, 6, 4), torch.rand(5, 6) < 0.6
    assert_close(ours(x, mask)[mask], theirs(x[mask]))
    assert_close(ours.running_mean, theirs.running_mean)
    assert_close(ours.running_var, theirs.running_var)
    assert ours.num_batches_tracked == 1
    assert_close(ours.eval()(x, mask)[mask], theirs.eval()(x[mask]))


def test_batch_norm_of_one_position_uses_the_running_statistics() -> None:
    norm = MaskedBatchNorm(2)
    x = torch.tensor([[3.0, -1.0]])
    assert_close(norm(x, None), x / math.sqrt(1.0 + 1e-5))
    assert norm.num_batches_tracked == 0


def test_reversing_swaps_real_tokens_only() -> None:
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert_close(reverse_index(mask), [[2, 1, 0, 3], [0, 1, 2, 3]])


def copy_weights(block: BiLSTM, reference: nn.LSTM) -> None:
    for idx, layer in enumerate(block.layers):
        for name, suffix in (("forward_lstm", ""), ("backward_lstm", "_reverse")):
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                value = layer.get_parameter(f"{name}.{part}_l0").detach()
                reference.get_parameter(f"{part}_l{idx}{suffix}").data.copy_(value)


@pytest.mark.parametrize("lengths", [[7, 3, 1, 5], [6, 6, 6, 6]])
def test_bilstm_equals_a_packed_one(lengths: list[int]) -> None:
    torch.manual_seed(0)
    block = BiLSTM(5, hidden_dim=4, num_layers=2).double()
    reference = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True).double()
    copy_weights(block, reference)
    x = torch.randn(4, max(lengths), 5).double()
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    packed = nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor(lengths), batch_first=True, enforce_sorted=False
    )
    expected = nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)[0]
    assert_close(block(x, mask), expected)


def test_bilstm_drops_between_layers_only() -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(1, 3, 2), torch.tensor([[True, True, True]])
    one = BiLSTM(2, hidden_dim=3, dropout=0.5)
    assert_close(one(x, mask), one(x, mask))
    two = BiLSTM(2, hidden_dim=3, num_layers=2, dropout=0.5)
    assert (two(x, mask) != two(x, mask)).any()
    assert_close(two.eval()(x, mask), two(x, mask))


def test_char_cnn_keeps_the_maximum_of_each_filter() -> None:
    torch.manual_seed(0)
    block = CharCNN(6, dim=3, filters=4)
    ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
    vectors = block.table.weight
    weight = block.convolution.linear.weight.view(4, 3, 3).transpose(1, 2)  # filter, D, window
    for row, length in enumerate([3, 1]):
        word = vectors[ids[row, :length]].t().unsqueeze(0)
        expected = functional.conv1d(word, weight, block.convolution.linear.bias, padding=1)
        found = block(ids, torch.tensor([[row]]), torch.tensor([[True]]))
        assert_close(found[0, 0], expected[0].amax(-1))


def test_char_lstm_keeps_the_two_last_states() -> None:
    torch.manual_seed(0)
    block = CharLSTM(6, dim=3, hidden_dim=2)
    ids = torch.tensor([[1, 2, 3], [4, 5, 0]])
    found = block(ids, torch.tensor([[0, 1]]), torch.tensor([[True, True]]))
    for row, length in enumerate([3, 2]):
        word = block.table.weight[ids[row, :length]].unsqueeze(1)
        forward = block.lstm.forward_lstm(word)[1][0].reshape(-1)
        backward = block.lstm.backward_lstm(word.flip(0))[1][0].reshape(-1)
        assert_close(found[0, row], torch.cat([forward, backward]))


def test_padding_character_is_zero_and_stays_so() -> None:
    block = CharCNN(6)
    assert not block.table.weight[0].any()
    ids = torch.tensor([[1, 0]])
    block(ids, torch.tensor([[0]]), torch.tensor([[True]])).sum().backward()
    assert block.table.weight.grad is not None
    assert not block.table.weight.grad[0].any()
