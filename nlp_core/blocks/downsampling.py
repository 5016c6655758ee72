"""Blocks that make a sequence or a grid smaller, by the real lengths of each example.

A grid is pooled along its first axis, then along its second: its real cells are a rectangle, so a
maximum or a mean over both axes can be taken one axis at a time.

Shape letters: B batch, T tokens, S tokens of a second sequence, N and M windows or segments of
them, K tokens of a window or a segment, D width of the input, E width of an output vector.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, GRID, SEQUENCE, VECTOR, Block, Shape
from nlp_core.blocks.masking import (
    Mask,
    count_tokens,
    cross_masks,
    pool_max,
    pool_mean,
    zero_padding,
)
from nlp_core.blocks.option import Pair, PositiveInt, read_option
from nlp_core.errors import ConfigError

WindowPool = Literal["max", "mean"]
Segments = Annotated[Sequence[PositiveInt], Field(min_length=1, max_length=2)]

PoolAxis = Callable[[Tensor, Tensor], Tensor]
"""From `x_BTD, mask_BT` to one vector for each part of the time axis, [B, N, D]."""


def _divide_up(number: int, divisor: int) -> int:
    """Return number / divisor rounded up, without negative numbers, which ONNX rounds to 0."""
    return (number + divisor - 1) // divisor


def _take_tokens(x_BTD: Tensor, index_BN: Int[Tensor, "B N"]) -> Tensor:
    batch, time, dim = x_BTD.shape
    start_B1 = torch.arange(batch, device=x_BTD.device).unsqueeze(1) * time
    rows = (index_BN + start_B1).view(-1)
    return x_BTD.reshape(-1, dim).index_select(0, rows)


def pool_grid(
    x_BTSD: Float[Tensor, "B T S D"],
    mask_BTS: Bool[Tensor, "B T S"],
    *,
    rows: PoolAxis,
    columns: PoolAxis,
) -> Float[Tensor, "B N M D"]:
    """Pool a grid along its first axis by `rows`, then along its second by `columns`."""
    batch, _, num_columns, dim = x_BTSD.shape
    pooled_BNX = rows(x_BTSD.flatten(2), mask_BTS.any(2))
    x_BSND = pooled_BNX.view(batch, -1, num_columns, dim).transpose(1, 2)
    pooled_BMX = columns(x_BSND.flatten(2), mask_BTS.any(1))
    return pooled_BMX.view(batch, pooled_BMX.shape[1], -1, dim).transpose(1, 2)


@BLOCKS.register("pooling1d")
class Pooling1D(Block):
    """Pool windows of a sequence: y_n = max or mean of x_t, n stride <= t < n stride + window.

    The last window that reaches the end has the real tokens that are left. So L tokens have
    1 + ceil((L - window) / stride) windows, and at least one.

    Args:
        window: tokens of a window.
        stride: tokens from one window to the next; null: the size of a window.
        pool: `max` or `mean` over real tokens.

    Shape: [B, T, D] to [B, N, D], with a new mask.

    Source: Hu et al. 2014 (ARC-I), section 2, with window and stride 2.
    Note: NeuronBlocks' Pooling1D drops tokens at the end that fill no window, so a text shorter
        than a window has no output.
    """

    resizes = True

    def __init__(
        self,
        dim: int,
        *,
        window: PositiveInt = 2,
        stride: PositiveInt | None = None,
        pool: WindowPool = "max",
    ) -> None:
        super().__init__()
        self.window = window
        self.stride = stride or window
        self.pool: WindowPool = pool

    def output_mask(self, *masks: Tensor | None) -> Tensor:
        """Return which windows are real: the first, and each that those before leave tokens for."""
        (mask_BT,) = masks
        assert mask_BT is not None, "a sequence has a mask"
        # by index: an exported graph loses a slice beyond the end of the text it is traced with
        step = max(self.window, self.stride)
        more = _divide_up(max(mask_BT.shape[1] - step, 0), self.stride)
        idx_N = torch.arange(1 + more, device=mask_BT.device)
        needed_N = (step + (idx_N - 1) * self.stride) * (idx_N > 0)
        return mask_BT.index_select(1, needed_N)

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B N D"]:
        mask_BN = self.output_mask(mask_BT)
        last = (mask_BN.shape[1] - 1) * self.stride
        more = max(last + self.window - x_BTD.shape[1], 0)
        empty = -torch.inf if self.pool == "max" else 0.0
        hidden_BTD = x_BTD.masked_fill(~mask_BT.unsqueeze(-1), empty)
        shifted = self._shift(functional.pad(hidden_BTD, (0, 0, 0, more), value=empty), last)
        # not max_pool2d, whose gradient has no fixed order on a GPU
        if self.pool == "max":
            return zero_padding(reduce(torch.maximum, shifted), mask_BN)
        counts = self._shift(functional.pad(mask_BT.to(x_BTD.dtype), (0, more)), last)
        count_BN1 = reduce(torch.add, counts).clamp(min=1).unsqueeze(-1)
        return zero_padding(reduce(torch.add, shifted) / count_BN1, mask_BN)

    def _shift(self, x: Tensor, last: int) -> list[Tensor]:
        """Return the first items of all windows, then the second ones, and so on."""
        return [x[:, start : start + last + 1 : self.stride] for start in range(self.window)]


@BLOCKS.register("pooling2d")
class Pooling2D(Block):
    """Pool windows of a grid: y_nm = max or mean of the real cells of a window.

    The windows of each axis are those of `pooling1d`.

    Args:
        window: cells of a window along each axis.
        stride: cells from one window to the next along each axis; null: the size of a window.
        pool: `max` or `mean` over real cells.

    Shape: [B, T, S, D] to [B, N, M, D], with a new mask.

    Source: Hu et al. 2014 (ARC-II), section 3.2, with window and stride 2.
    Note: NeuronBlocks' Pooling2D drops cells at the ends that fill no window.
    """

    ranks = ((GRID,),)
    resizes = True

    def __init__(
        self,
        dim: int,
        *,
        window: Pair = (2, 2),
        stride: Pair | None = None,
        pool: WindowPool = "max",
    ) -> None:
        super().__init__()
        self.rows, self.columns = (
            Pooling1D(dim, window=along, stride=step, pool=pool)
            for along, step in zip(window, stride or window, strict=True)
        )

    def output_mask(self, *masks: Tensor | None) -> Tensor:
        (mask_BTS,) = masks
        assert mask_BTS is not None, "a grid has a mask"
        mask_BN = self.rows.output_mask(mask_BTS.any(2))
        return cross_masks(mask_BN, self.columns.output_mask(mask_BTS.any(1)))

    def forward(
        self, x_BTSD: Float[Tensor, "B T S D"], mask_BTS: Bool[Tensor, "B T S"]
    ) -> Float[Tensor, "B N M D"]:
        y_BNMD = pool_grid(x_BTSD, mask_BTS, rows=self.rows, columns=self.columns)
        return zero_padding(y_BNMD, self.output_mask(mask_BTS))


@BLOCKS.register("dynamic_pooling")
class DynamicPooling(Block):
    """Split each example into equal segments, pool each, and concatenate them to one vector.

    Segment n of L tokens goes from floor(n L / N) to ceil((n + 1) L / N); a grid is split along
    both axes. If a text has fewer than N tokens, segments share them; an example without tokens
    becomes zeros.

    Args:
        segments: their number, along the one axis of a sequence or the two axes of a grid.
        pool: `max` or `mean` over the real tokens or cells of a segment.

    Shape: [B, T, D] to [B, N D], or [B, T, S, D] to [B, N M D].

    Source: Pang et al. 2016 (MatchPyramid), dynamic pooling; Socher et al. 2011 (dynamic pooling
        and unfolding recursive autoencoders), section 3: repeating what is shorter.
    Note: NeuronBlocks pads all texts to a fixed length and flattens instead, so that its result
        depends on the padding.
    """

    ranks = ((SEQUENCE, GRID),)

    def __init__(self, dim: int, *, segments: Segments, pool: WindowPool = "max") -> None:
        super().__init__()
        self.segments = tuple(segments)
        self.pool: WindowPool = pool

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        segments = read_option(cls, options, "segments", tuple)
        num_axes = 1 if inputs[0].rank == SEQUENCE else 2
        if len(segments) != num_axes:
            what = "sequence: one number" if num_axes == 1 else "grid: two numbers"
            raise ConfigError(
                f"dynamic_pooling: segments: found {list(segments)}, expected for a {what}."
            )
        return Shape(VECTOR, math.prod(segments) * inputs[0].dim)

    def forward(self, x: Float[Tensor, "*N D"], mask: Bool[Tensor, "*N"]) -> Float[Tensor, "B E"]:
        first, *second = (partial(self._pool_axis, number) for number in self.segments)
        if second:
            return pool_grid(x, mask, rows=first, columns=second[0]).flatten(1)
        return first(x, mask).flatten(1)

    def _pool_axis(self, segments: int, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        batch, time, dim = x_BTD.shape
        length_B1 = count_tokens(mask_BT).unsqueeze(1)
        step_N = torch.arange(segments, device=x_BTD.device)
        start_BN = step_N * length_B1 // segments
        size_BN = ((step_N + 1) * length_B1 + segments - 1) // segments - start_BN
        width = _divide_up(time, segments) + 1  # not the length of a tensor, which a trace fixes
        offset_K = torch.arange(width, device=x_BTD.device)
        inside_BNK = offset_K < size_BN.unsqueeze(2)
        index_BNK = (start_BN.unsqueeze(2) + offset_K).masked_fill(~inside_BNK, 0)
        taken = _take_tokens(x_BTD, index_BNK.flatten(1)).view(-1, width, dim)
        pool = pool_max if self.pool == "max" else pool_mean
        return pool(taken, inside_BNK.view(-1, width)).view(batch, segments, dim)


@BLOCKS.register("grid_kmax")
class GridKMax(Block):
    """Keep the k largest numbers of each channel of a grid, the largest first.

    A grid with fewer than k real cells is filled up with zeros.

    Args:
        k: numbers kept of each channel.

    Shape: [B, T, S, D] to [B, D k], channel by channel.

    Source: Wan et al. 2016 (MV-LSTM), k-max pooling.
    Note: NeuronBlocks' pull request 77 keeps them in the order of their cells, and counts the zeros
        of padding as cells.
    """

    ranks = ((GRID,),)

    def __init__(self, dim: int, *, k: PositiveInt) -> None:
        super().__init__()
        self.k = k

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(VECTOR, inputs[0].dim * read_option(cls, options, "k", int))

    def forward(
        self, x_BTSD: Float[Tensor, "B T S D"], mask_BTS: Bool[Tensor, "B T S"]
    ) -> Float[Tensor, "B E"]:
        hidden_BTSD = x_BTSD.masked_fill(~mask_BTS.unsqueeze(-1), -torch.inf)
        cells_BDN = hidden_BTSD.flatten(1, 2).transpose(1, 2)
        missing = max(self.k - cells_BDN.shape[2], 0)
        cells_BDN = functional.pad(cells_BDN, (0, missing), value=-torch.inf)
        # stable: of equal numbers the first is kept, so that padding moves no gradient
        best_BDK = cells_BDN.sort(dim=2, descending=True, stable=True).values[..., : self.k]
        return best_BDK.masked_fill(best_BDK == -torch.inf, 0.0).flatten(1)
