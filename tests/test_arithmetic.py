"""Sums, differences, products and distances, gates and the k largest, worked out by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from nlp_core.blocks.combination import Add, Distance, Minus, Multiply
from nlp_core.blocks.convolution import GatedCNN
from nlp_core.blocks.interaction import MatrixMultiply
from nlp_core.blocks.pooling import KMaxPooling
from tests.block_contract import assert_close

TWO = torch.tensor([[True, True, False]])
X = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])
Y = torch.tensor([[[2.0, 1.0], [-1.0, 5.0], [9.0, 9.0]]])
SCALE = torch.tensor([[[2.0], [-1.0], [9.0]]])


def test_multiply_and_add_stretch_an_input_of_width_one() -> None:
    expected = [[[2.0 * 1 * 2, 2.0 * -4 * 1], [-1.0 * 3 * -1, -1.0 * -2 * 5], [0.0, 0.0]]]
    assert_close(Multiply(1, 2, 2)(SCALE, TWO, X, TWO, Y, TWO), expected)
    assert_close(Add(2, 1)(X, TWO, SCALE, TWO), [[[3.0, -2.0], [2.0, -3.0], [0.0, 0.0]]])


def test_minus_keeps_signs_unless_told_not_to() -> None:
    assert_close(Minus(2, 2)(X, TWO, Y, TWO), [[[-1.0, -5.0], [4.0, -7.0], [0.0, 0.0]]])
    absolute = Minus(2, 2, absolute=True)
    assert_close(absolute(X, TWO, Y, TWO), [[[1.0, 5.0], [4.0, 7.0], [0.0, 0.0]]])
    assert_close(Minus(2, 1)(X, TWO, SCALE, TWO), [[[-1.0, -6.0], [4.0, -1.0], [0.0, 0.0]]])


def test_distances_stand_in_the_order_of_the_operations() -> None:
    x, y = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[4.0, -2.0], [3.0, -4.0]])
    block = Distance(2, 2, operations=["manhattan", "chebyshev", "cos", "euclidean"])
    assert_close(block(x, None, y, None), [[7.0, 4.0, 0.0, 5.0], [7.0, 4.0, 0.0, 5.0]])
    cosine = Distance(2, 2, operations=["cos"])
    assert_close(cosine(x[:1], None, x[:1] * 3.0, None), [[1.0]])
    assert_close(cosine(x[:1], None, torch.tensor([[1.0, 0.0]]), None), [[1.0 / math.sqrt(5.0)]])


@pytest.mark.parametrize("operation", ["cos", "euclidean", "manhattan", "chebyshev"])
def test_distance_has_a_gradient_where_vectors_are_equal_or_zero(operation: str) -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
    y = x.detach().clone().requires_grad_()
    Distance(2, 2, operations=[operation])(x, None, y, None).sum().backward()  # type: ignore[list-item]
    for leaf in (x, y):
        assert leaf.grad is not None
        assert leaf.grad.abs().max() <= 1.0


def test_matrix_multiply_of_tokens_has_columns_for_the_tokens_of_the_other_text() -> None:
    products = [[1 * 2 - 4 * 1, -1 - 20], [3 * 2 - 2 * 1, -3 - 10]]
    wide = MatrixMultiply(2, 2, num_tokens=4)(X, TWO, Y, TWO)
    assert_close(wide, [[[*row, 0, 0] for row in products] + [[0, 0, 0, 0]]])
    narrow = MatrixMultiply(2, 2, num_tokens=1)(X, TWO, Y, TWO)
    assert_close(narrow, [[[products[0][0]], [products[1][0]], [0]]])


def test_matrix_multiply_common_takes_numbers_as_weights_of_tokens() -> None:
    block = MatrixMultiply(2, 2, operation="common")
    expected = [[1 * 2 - 4 * -1, 1 * 1 - 4 * 5], [3 * 2 - 2 * -1, 3 * 1 - 2 * 5], [0, 0]]
    assert_close(block(X, TWO, Y, TWO), [expected])
    one = torch.tensor([[True]])
    assert_close(block(X, TWO, Y[:, :1], one), [[[2, 1], [6, 3], [0, 0]]])


def test_matrix_multiply_over_tokens_sums_outer_products() -> None:
    block = MatrixMultiply(2, 2, operation="seq_based")
    expected = [1 * 2 + 3 * -1, 1 * 1 + 3 * 5, -4 * 2 - 2 * -1, -4 * 1 - 2 * 5]
    assert_close(block(X, TWO, Y, TWO), [expected])


def test_kmax_pooling_keeps_the_order_of_time() -> None:
    x = torch.tensor([[[1.0, 5.0], [4.0, -7.0], [3.0, 6.0], [99.0, 99.0]]])
    mask = torch.tensor([[True, True, True, False]])
    assert_close(KMaxPooling(2, k=2)(x, mask), [[4.0, 5.0, 3.0, 6.0]])
    assert_close(KMaxPooling(2, k=4)(x, mask), [[1.0, 5.0, 4.0, -7.0, 3.0, 6.0, 0.0, 0.0]])
    assert_close(KMaxPooling(2, k=5)(x, mask)[:, 8:], [[0.0, 0.0]])


def test_kmax_pooling_keeps_the_earlier_of_equal_numbers() -> None:
    x = torch.full((1, 40, 1), 2.0, requires_grad=True)
    KMaxPooling(1, k=3)(x, torch.ones(1, 40, dtype=torch.bool)).sum().backward()
    assert x.grad is not None
    assert x.grad[0, :, 0].nonzero().flatten().tolist() == [0, 1, 2]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dilated", [False, True])
def test_gated_cnn_equals_torch_convolutions(*, causal: bool, dilated: bool) -> None:
    torch.manual_seed(0)
    block = GatedCNN(3, filters=4, windows=[3, 5], dilated=dilated, causal=causal).double()
    x = torch.randn(1, 9, 3).double()
    mask = torch.arange(9).unsqueeze(0) < 7
    expected = x[:, :7]
    for idx, window in enumerate([3, 5]):
        layer = block.layers[idx]
        linear, dilation = layer.convolution.linear, 2**idx if dilated else 1
        weight = linear.weight.view(8, window, -1).transpose(1, 2)
        total = (window - 1) * dilation
        left = total if causal else total // 2
        wide = functional.pad(expected.transpose(1, 2), (left, total - left))
        both = functional.conv1d(wide, weight, linear.bias, dilation=dilation).transpose(1, 2)
        gated = both[..., :4] * torch.sigmoid(both[..., 4:])
        expected = (layer.residual(expected) + gated) * math.sqrt(0.5)
    found = block(x, mask)
    assert_close(found[:, :7], expected)
    assert isinstance(block.layers[0].residual, nn.Linear)
    assert isinstance(block.layers[1].residual, nn.Identity)


def test_causal_gated_cnn_sees_no_later_token() -> None:
    torch.manual_seed(0)
    block, x = GatedCNN(2, filters=2, causal=True), torch.randn(1, 4, 2)
    changed, mask = x.clone(), torch.ones(1, 4, dtype=torch.bool)
    changed[0, 2] += 1.0
    same = (block(x, mask) == block(changed, mask)).all(-1)
    assert same.tolist() == [[True, True, False, False]]
