"""Convolutions over a sequence or a grid whose windows never see padding; stacks with gates.

Shape letters: B batch, T tokens, D width of the input, F filters, S tokens with zeros at both
ends (in a grid: tokens of the second sequence), E width of the output.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, GRID, VECTOR, Block, Shape
from nlp_core.blocks.masking import (
    Grid,
    GridMask,
    Mask,
    MaskedBatchNorm,
    Tokens,
    pool_max,
    pool_mean,
    zero_padding,
)
from nlp_core.blocks.option import (
    Activation,
    Pair,
    PositiveInt,
    Probability,
    build_activation,
    read_option,
)


class SameConvolution(nn.Module):
    """Convolve a sequence to the same length: y_t = b + sum_k W_k x_{t + d (k - before)}.

    `before` is (window - 1) // 2, or window - 1 if causal, so an even window sees one more token to
    the right; d is the dilation. Positions beyond the real tokens count as zeros.
    """

    def __init__(
        self,
        dim: int,
        filters: int,
        window: int,
        *,
        bias: bool = True,
        dilation: int = 1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(window * dim, filters, bias=bias)
        before = window - 1 if causal else (window - 1) // 2
        self.around = (0, 0, before * dilation, (window - 1 - before) * dilation)
        self.starts = [idx * dilation for idx in range(window)]

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T F"]:
        """Return one vector for each position, arbitrary at padding."""
        time = x_BTD.shape[1]
        wide_BSD = functional.pad(zero_padding(x_BTD, mask_BT), self.around)
        shifted = [wide_BSD[:, start : start + time] for start in self.starts]
        # one matrix product over all windows: 0.7 of the time of nn.Conv1d on a CPU
        y_BTF: Tensor = self.linear(torch.cat(shifted, -1))
        return y_BTF


class ConvBlock(Block):
    """A convolution with an activation, dropout and batch normalisation, in this order.

    Args:
        filters: width F of the output.
        activation: the function after the convolution.
        dropout: probability of a zero after the activation.
        batch_norm: normalise the result, with statistics of real positions only.
    """

    output_width = "filters"

    def __init__(
        self,
        convolution: nn.Module,
        *,
        filters: PositiveInt,
        activation: Activation = "relu",
        dropout: Probability = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.convolution = convolution
        self.activation = build_activation(activation)
        self.dropout = dropout
        self.norm = MaskedBatchNorm(filters) if batch_norm else None

    def finish(self, y: Tensor, mask: Tensor) -> Tensor:
        y = functional.dropout(self.activation(y), self.dropout, self.training)
        return zero_padding(y if self.norm is None else self.norm(y, mask), mask)


@BLOCKS.register("conv")
class Conv(ConvBlock):
    """Convolve a sequence: y = batch_norm(dropout(activation(convolution(x)))).

    Args:
        window: tokens that one output sees, with zeros beyond the ends.

    Shape: [B, T, D] to [B, T, F].

    Source: Waibel et al. 1989 (time-delay networks); the order of the steps is NCRF++'s.
    """

    def __init__(
        self, dim: int, *, filters: PositiveInt, window: PositiveInt = 3, **options: Any
    ) -> None:
        super().__init__(SameConvolution(dim, filters, window), filters=filters, **options)

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T F"]:
        return self.finish(self.convolution(x_BTD, mask_BT), mask_BT)


@BLOCKS.register("conv_pooling")
class ConvPooling(Block):
    """Convolve with several windows and pool each over time (TextCNN).

    y = [pool_t activation(batch_norm(convolution_w(x)))_t for each window w].

    Args:
        filters: width F of each convolution.
        windows: tokens that an output of each convolution sees.
        activation: the function before pooling.
        batch_norm: normalise before the activation, with statistics of real tokens only; the
            convolutions have no bias then, since normalisation would remove it.
        pool: `max` or `mean` over real tokens.

    Shape: [B, T, D] to [B, F * number of windows].

    Source: Kim 2014 (convolutional networks for sentence classification), eq. 1-3.
    Note: every token has an output, with zeros beyond the ends, so a text may be shorter than a
        window.
    """

    def __init__(
        self,
        dim: int,
        *,
        filters: PositiveInt,
        windows: Annotated[Sequence[PositiveInt], Field(min_length=1)] = (1, 2, 3),
        activation: Activation = "relu",
        batch_norm: bool = False,
        pool: Literal["max", "mean"] = "max",
    ) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            SameConvolution(dim, filters, window, bias=not batch_norm) for window in windows
        )
        self.norms = nn.ModuleList(MaskedBatchNorm(filters) for _ in windows if batch_norm)
        self.activations = nn.ModuleList(build_activation(activation) for _ in windows)
        self.pool = pool_max if pool == "max" else pool_mean

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        num_windows = len(read_option(cls, options, "windows", tuple))
        return Shape(VECTOR, num_windows * read_option(cls, options, "filters", int))

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B E"]:
        pooled = []
        for idx, convolution in enumerate(self.convolutions):
            y_BTF: Tensor = convolution(x_BTD, mask_BT)
            if self.norms:
                y_BTF = self.norms[idx](y_BTF, mask_BT)
            pooled.append(self.pool(self.activations[idx](y_BTF), mask_BT))
        return torch.cat(pooled, -1)


@BLOCKS.register("conv2d")
class Conv2D(ConvBlock):
    """Convolve a grid: y = batch_norm(dropout(activation(convolution(x)))).

    The convolution gives each cell (t, s) the sum of W_ij x_{t + i - a, s + j - b} over the window,
    and a bias, with a = (rows - 1) // 2 and b = (columns - 1) // 2: an even window sees one more
    cell after than before.

    Args:
        window: cells along each axis that one output sees, with zeros beyond the edges.

    Shape: [B, T, S, D] to [B, T, S, F].

    Source: LeCun et al. 1998 (convolutional networks); the order of the steps is that of `conv`.
    Note: every cell has an output, so a text may be shorter than a window; NeuronBlocks' Conv2D has
        none for cells near an edge unless the grid is padded.
    """

    ranks = ((GRID,),)

    def __init__(
        self, dim: int, *, filters: PositiveInt, window: Pair = (3, 3), **options: Any
    ) -> None:
        rows, columns = window
        super().__init__(nn.Conv2d(dim, filters, (rows, columns)), filters=filters, **options)
        self.around = ((columns - 1) // 2, columns // 2, (rows - 1) // 2, rows // 2)

    def forward(self, x_BTSD: Grid, mask_BTS: GridMask) -> Float[Tensor, "B T S F"]:
        x_BDTS = zero_padding(x_BTSD, mask_BTS).permute(0, 3, 1, 2)
        y_BFTS = self.convolution(functional.pad(x_BDTS, self.around))
        return self.finish(y_BFTS.permute(0, 2, 3, 1), mask_BTS)


class GatedLayer(nn.Module):
    """Convolve and gate, with a residual: y = sqrt(1/2) (r + (V * x + b) * sigmoid(W * x + c)).

    The residual r is x, or a linear map of it if the widths differ. Outputs at padding are
    arbitrary.
    """

    def __init__(self, dim: int, filters: int, *, window: int, dilation: int, causal: bool) -> None:
        super().__init__()
        self.convolution = SameConvolution(
            dim, 2 * filters, window, dilation=dilation, causal=causal
        )
        self.residual = nn.Identity() if dim == filters else nn.Linear(dim, filters)

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T F"]:
        gated_BTF = functional.glu(self.convolution(x_BTD, mask_BT), -1)
        y_BTF: Tensor = (self.residual(x_BTD) + gated_BTF) * 0.5**0.5  # keeps the variance
        return y_BTF


@BLOCKS.register("gated_cnn")
class GatedCNN(Block):
    """Stack convolutions with gated linear units and residuals.

    Each layer is y = sqrt(1/2) (r + (V * x + b) * sigmoid(W * x + c)), where * in V * x and W * x
    is a convolution and r is x, or a linear map of it in a first layer of another width.

    Args:
        filters: width F of each layer.
        windows: tokens that an output of each layer sees, one number for each layer.
        dropout: probability of a zero in the input.
        dilated: let layer i (from 0) see tokens that are 2^i apart, so that the field of view grows
            exponentially with the depth.
        causal: let an output see only its own token and those before it.

    Shape: [B, T, D] to [B, T, F].

    Source: Gehring et al. 2017 (convolutional sequence to sequence), section 3.2; dilation:
        Yu and Koltun 2016, section 2; PyText, DeepCNN.
    """

    output_width = "filters"

    def __init__(
        self,
        dim: int,
        *,
        filters: PositiveInt,
        windows: Annotated[Sequence[PositiveInt], Field(min_length=1)] = (3, 3),
        dropout: Probability = 0.0,
        dilated: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GatedLayer(
                dim if idx == 0 else filters,
                filters,
                window=window,
                dilation=2**idx if dilated else 1,
                causal=causal,
            )
            for idx, window in enumerate(windows)
        )
        self.dropout = dropout

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        return read_option(cls, options, "causal", bool)

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T F"]:
        hidden = functional.dropout(x_BTD, self.dropout, self.training)
        for layer in self.layers:
            hidden = layer(hidden, mask_BT)
        return zero_padding(hidden, mask_BT)
