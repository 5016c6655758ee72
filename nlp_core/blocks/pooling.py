"""Blocks that make a sequence or a grid smaller, by the real lengths of each example.

A grid is pooled along its first axis, then along its second: its real cells are a rectangle, so a
maximum or a mean over both axes can be taken one axis at a time.

Shape letters: B batch, T tokens, S tokens of a second sequence, N and M windows or segments of
them, K tokens of a window or a segment, P hops or kept tokens, D width of the input, E width of an
output vector.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, GRID, SEQUENCE, VECTOR, Block, Shape
from nlp_core.blocks.masking import (
    Grid,
    GridMask,
    Mask,
    Tokens,
    Vector,
    count_tokens,
    cross_masks,
    masked_softmax,
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


@BLOCKS.register("pooling")
class Pooling(Block):
    """Reduce the real tokens of a sequence to one vector: maximum, mean, last or first.

    An example without tokens becomes zeros.

    Args:
        pool: `max` or `mean` over time, or the vector of the `last` or `first` token.

    Shape: [B, T, D] to [B, D].
    """

    output_rank = VECTOR

    def __init__(self, dim: int, *, pool: Literal["max", "mean", "last", "first"] = "max") -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Vector:
        if self.pool == "max":
            return pool_max(x_BTD, mask_BT)
        if self.pool == "mean":
            return pool_mean(x_BTD, mask_BT)
        last_B = (count_tokens(mask_BT) - 1).clamp(min=0)
        rows_B = torch.arange(x_BTD.shape[0], device=x_BTD.device)
        found_BD = x_BTD[rows_B, last_B if self.pool == "last" else last_B * 0]
        return zero_padding(found_BD, mask_BT.any(1))


@BLOCKS.register("linear_attention")
class LinearAttention(Block):
    """Average real tokens by a learned query: y = sum_t softmax_t(w . x_t) x_t.

    Shape: [B, T, D] to [B, D].

    Source: Chen et al. 2017 (DrQA), question encoding, section 3.2.
    """

    output_rank = VECTOR

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, 1, bias=False)  # a bias would not change the softmax

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Vector:
        weight_BT = masked_softmax(self.query(x_BTD).squeeze(-1), mask_BT)
        return torch.einsum("bt,btd->bd", weight_BT, x_BTD)


@BLOCKS.register("self_attention_pooling")
class SelfAttentionPooling(Block):
    """Average tokens with several weightings: y = [A_1 X; A_2 X; ...], A = softmax(V tanh(W X^T)).

    Each hop (a row of A) is a distribution over the real tokens.

    Args:
        attention_dim: rows of W.
        num_hops: rows of V.

    Shape: [B, T, D] to [B, num_hops * D].

    Source: Lin et al. 2017 (structured self-attentive sentence embedding), eq. 6 and 7.
    Note: their penalty on similar hops is a loss, not part of this block.
    """

    output_rank = VECTOR
    width_factor = "num_hops"

    def __init__(
        self, dim: int, *, attention_dim: PositiveInt = 64, num_hops: PositiveInt = 1
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, attention_dim, bias=False)
        self.hops = nn.Linear(attention_dim, num_hops, bias=False)

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B E"]:
        scores_BPT = self.hops(torch.tanh(self.hidden(x_BTD))).transpose(1, 2)
        weight_BPT = masked_softmax(scores_BPT, mask_BT.unsqueeze(1))
        return torch.bmm(weight_BPT, x_BTD).flatten(1)


class LargestPooling(Block):
    """Keep the k largest numbers of each channel."""

    output_rank = VECTOR
    width_factor = "k"

    def __init__(self, dim: int, *, k: PositiveInt) -> None:
        super().__init__()
        self.k = k


@BLOCKS.register("kmax_pooling")
class KMaxPooling(LargestPooling):
    """Keep the k largest values of each dimension over the real tokens, in order of time.

    y = [first kept value of each dimension; second; ...], filled up with zeros if there are fewer
    tokens. Of equal values the earlier ones are kept.

    Args:
        k: number of kept values.

    Shape: [B, T, D] to [B, k * D].

    Source: Kalchbrenner et al. 2014 (dynamic convolutional network), section 3.2.
    """

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B E"]:
        missing = max(self.k - x_BTD.shape[1], 0)
        x_BTD = functional.pad(x_BTD, (0, 0, 0, missing))
        mask_BT1 = functional.pad(mask_BT, (0, missing)).unsqueeze(-1)
        ranked_BTD = x_BTD.masked_fill(~mask_BT1, -torch.inf)
        order_BTD = ranked_BTD.sort(dim=1, descending=True, stable=True).indices
        kept_BPD = order_BTD[:, : self.k].sort(1).values
        return x_BTD.masked_fill(~mask_BT1, 0.0).gather(1, kept_BPD).flatten(1)


@BLOCKS.register("grid_kmax")
class GridKMax(LargestPooling):
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

    def forward(self, x_BTSD: Grid, mask_BTS: GridMask) -> Float[Tensor, "B E"]:
        hidden_BTSD = x_BTSD.masked_fill(~mask_BTS.unsqueeze(-1), -torch.inf)
        cells_BDN = hidden_BTSD.flatten(1, 2).transpose(1, 2)
        missing = max(self.k - cells_BDN.shape[2], 0)
        cells_BDN = functional.pad(cells_BDN, (0, missing), value=-torch.inf)
        # stable: of equal numbers the first is kept, so that padding moves no gradient
        best_BDK = cells_BDN.sort(dim=2, descending=True, stable=True).values[..., : self.k]
        return best_BDK.masked_fill(best_BDK == -torch.inf, 0.0).flatten(1)


def _divide_up(number: int, divisor: int) -> int:
    """Return number / divisor rounded up, without negative numbers, which ONNX rounds to 0."""
    return (number + divisor - 1) // divisor


def pool_grid(
    x_BTSD: Grid, mask_BTS: GridMask, *, rows: PoolAxis, columns: PoolAxis
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
    1 + ceil((L - step) / stride) windows, and at least one; step is the larger of window and
    stride.

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
        self.pool = pool

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

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B N D"]:
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

    def forward(self, x_BTSD: Grid, mask_BTS: GridMask) -> Float[Tensor, "B N M D"]:
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
        self.pool = pool_max if pool == "max" else pool_mean

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
        begin_B1 = torch.arange(batch, device=x_BTD.device).unsqueeze(1) * time
        rows = (index_BNK.flatten(1) + begin_B1).view(-1)
        taken = x_BTD.reshape(-1, dim).index_select(0, rows).view(-1, width, dim)
        return self.pool(taken, inside_BNK.view(-1, width)).view(batch, segments, dim)
