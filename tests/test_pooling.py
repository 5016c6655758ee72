"""Windows, segments and largest cells against plain loops over each example's real part."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks import BLOCKS, GRID, SEQUENCE, Shape
from nlp_core.blocks.convolution import Conv2D
from nlp_core.blocks.masking import cross_masks
from nlp_core.blocks.pooling import DynamicPooling, GridKMax, Pooling1D, Pooling2D, WindowPool
from nlp_core.errors import ConfigError

LENGTHS = [1, 2, 5, 7, 8]
OTHER_LENGTHS = [9, 1, 4, 3, 6]
REDUCE: dict[WindowPool, Callable[[Tensor], Tensor]] = {
    "max": lambda part: part.flatten(0, -2).amax(0),
    "mean": lambda part: part.flatten(0, -2).mean(0),
}


def make_mask(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths) + 2) < torch.tensor(lengths).unsqueeze(1)


def make_sequences() -> tuple[Tensor, Tensor]:
    mask = make_mask(LENGTHS)
    return torch.randn(*mask.shape, 3, generator=torch.Generator().manual_seed(0)), mask


def make_grids() -> tuple[Tensor, Tensor]:
    mask = cross_masks(make_mask(LENGTHS), make_mask(OTHER_LENGTHS))
    return torch.randn(*mask.shape, 3, generator=torch.Generator().manual_seed(0)), mask


def cut_windows(length: int, window: int, stride: int) -> list[slice]:
    """Return windows until one reaches the end."""
    found = [slice(0, min(window, length))]
    while found[-1].stop < length and found[-1].start + stride < length:
        start = found[-1].start + stride
        found.append(slice(start, min(start + window, length)))
    return found


def cut_segments(length: int, number: int) -> list[slice]:
    return [
        slice(math.floor(n * length / number), math.ceil((n + 1) * length / number))
        for n in range(number)
    ]


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(("window", "stride"), [(2, None), (2, 1), (3, 2), (1, 3), (20, 1)])
def test_pooling1d_pools_real_tokens(pool: WindowPool, window: int, stride: int | None) -> None:
    x, mask = make_sequences()
    block = Pooling1D(3, window=window, stride=stride, pool=pool)
    found, real = block(x, mask), block.output_mask(mask)
    assert real is not None
    for row, length in enumerate(LENGTHS):
        windows = cut_windows(length, window, stride or window)
        expected = torch.stack([REDUCE[pool](x[row, part]) for part in windows])
        assert real[row].tolist() == [n < len(windows) for n in range(real.shape[1])]
        torch.testing.assert_close(found[row, : len(windows)], expected)
        assert not found[row, len(windows) :].any()


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(
    ("window", "stride"), [((2, 2), None), ((2, 3), (1, 2)), ((1, 2), (3, 1)), ((9, 9), (1, 1))]
)
def test_pooling2d_pools_real_cells(
    pool: WindowPool, window: tuple[int, int], stride: tuple[int, int] | None
) -> None:
    x, mask = make_grids()
    block = Pooling2D(3, window=window, stride=stride, pool=pool)
    found, real = block(x, mask), block.output_mask(mask)
    assert real is not None
    steps = stride or window
    for row, (length, other) in enumerate(zip(LENGTHS, OTHER_LENGTHS, strict=True)):
        down = cut_windows(length, window[0], steps[0])
        across = cut_windows(other, window[1], steps[1])
        assert int(real[row].sum()) == len(down) * len(across)
        assert real[row, : len(down), : len(across)].all()
        for n, part in enumerate(down):
            for m, other_part in enumerate(across):
                expected = REDUCE[pool](x[row, part, other_part])
                torch.testing.assert_close(found[row, n, m], expected)
        assert not found[row][~real[row]].any()


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("number", [1, 3, 8, 12])
def test_dynamic_pooling_of_sequences(pool: WindowPool, number: int) -> None:
    x, mask = make_sequences()
    found = DynamicPooling(3, segments=[number], pool=pool)(x, mask)
    for row, length in enumerate(LENGTHS):
        parts = [REDUCE[pool](x[row, part]) for part in cut_segments(length, number)]
        torch.testing.assert_close(found[row], torch.cat(parts))


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("numbers", [(1, 1), (3, 2), (2, 11), (10, 4)])
def test_dynamic_pooling_of_grids(pool: WindowPool, numbers: tuple[int, int]) -> None:
    x, mask = make_grids()
    found = DynamicPooling(3, segments=numbers, pool=pool)(x, mask)
    for row, (length, other) in enumerate(zip(LENGTHS, OTHER_LENGTHS, strict=True)):
        parts = [
            REDUCE[pool](x[row, part, other_part])
            for part in cut_segments(length, numbers[0])
            for other_part in cut_segments(other, numbers[1])
        ]
        torch.testing.assert_close(found[row], torch.cat(parts))


def test_dynamic_pooling_is_adaptive_pooling_where_nothing_is_padded() -> None:
    x, _ = make_grids()
    found = DynamicPooling(3, segments=[4, 3])(x, torch.ones(x.shape[:-1], dtype=torch.bool))
    expected = functional.adaptive_max_pool2d(x.permute(0, 3, 1, 2), (4, 3))
    torch.testing.assert_close(found, expected.permute(0, 2, 3, 1).flatten(1))


@pytest.mark.parametrize(
    ("rank", "segments", "message"),
    [
        (SEQUENCE, [2, 2], "sequence: one number"),
        (GRID, [2], "grid: two numbers"),
    ],
)
def test_dynamic_pooling_wants_a_number_for_each_axis(
    rank: int, segments: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        BLOCKS.get("dynamic_pooling").infer(Shape(rank, 3), segments=segments)


@pytest.mark.parametrize("k", [1, 4, 200])
def test_grid_kmax_keeps_the_largest_real_cells_in_falling_order(k: int) -> None:
    x, mask = make_grids()
    found = GridKMax(3, k=k)(x, mask).view(len(x), 3, k)
    for row in range(len(x)):
        for channel in range(3):
            best = sorted(x[row, ..., channel][mask[row]].tolist(), reverse=True)[:k]
            expected = torch.tensor(best + [0.0] * (k - len(best)))
            torch.testing.assert_close(found[row, channel], expected)


def test_grid_kmax_gives_the_gradient_of_equals_to_the_first() -> None:
    x = torch.zeros(1, 2, 2, 1, requires_grad=True)
    GridKMax(1, k=1)(x, torch.ones(1, 2, 2, dtype=torch.bool)).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 4), (5, 2)])
def test_conv2d_sees_zeros_beyond_the_edges_of_each_example(window: tuple[int, int]) -> None:
    x, mask = make_grids()
    torch.manual_seed(0)
    block = Conv2D(3, filters=4, window=window, activation="tanh")
    found = block(x, mask)
    (rows, columns), convolution = window, block.convolution
    around = ((columns - 1) // 2, columns // 2, (rows - 1) // 2, rows // 2)
    for row, (length, other) in enumerate(zip(LENGTHS, OTHER_LENGTHS, strict=True)):
        alone = functional.pad(x[row, :length, :other].permute(2, 0, 1), around)
        expected = functional.conv2d(alone, convolution.weight, convolution.bias).tanh()
        torch.testing.assert_close(found[row, :length, :other], expected.permute(1, 2, 0))
        assert not found[row][~mask[row]].any()


def test_conv2d_normalises_after_the_activation_over_real_cells() -> None:
    block = Conv2D(1, filters=1, window=[1, 1], batch_norm=True)
    with torch.no_grad():
        block.convolution.weight.fill_(1.0)
        block.convolution.get_parameter("bias").zero_()
    x = torch.tensor([[[[-5.0], [2.0], [9.0]]]])  # 0 and 2 after the ReLU: mean 1, variance 1
    found = block(x, torch.tensor([[[True, True, False]]]))
    scale = 1.0 / math.sqrt(1.0 + 1e-5)
    torch.testing.assert_close(found, torch.tensor([[[[-scale], [scale], [0.0]]]]))
