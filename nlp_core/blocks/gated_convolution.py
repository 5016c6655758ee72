"""Deep convolutions with gates and residuals.

Shape letters: B batch, T tokens, D width of the input, F filters.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block, Shape
from nlp_core.blocks.convolution import SameConvolution
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option


class GatedLayer(nn.Module):
    """Convolve and gate, beside a residual: y = sqrt(1/2) (r + (V * x + b) * sigmoid(W * x + c)).

    The residual r is x itself, or a linear map of it where the widths differ.

    Args:
        dim: width of the input.
        filters: width F of the output.
        window: tokens that one output sees.
        dilation: distance between them.
        causal: whether an output sees its own token and those before it only.
    """

    def __init__(self, dim: int, filters: int, *, window: int, dilation: int, causal: bool) -> None:
        super().__init__()
        self.convolution = SameConvolution(
            dim, 2 * filters, window, dilation=dilation, causal=causal
        )
        self.residual = nn.Identity() if dim == filters else nn.Linear(dim, filters)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T F"]:
        """Return the layer's output; that of padding means nothing."""
        gated_BTF = functional.glu(self.convolution(x_BTD, mask_BT), -1)
        y_BTF: Tensor = (self.residual(x_BTD) + gated_BTF) * 0.5**0.5  # keeps the variance
        return y_BTF


@BLOCKS.register("gated_cnn")
class GatedCNN(Block):
    """Stack convolutions with gated linear units and residuals.

    Each layer is y = sqrt(1/2) (r + (V * x + b) * sigmoid(W * x + c)), where * in V * x and W * x
    is a convolution and r is x, or a linear map of it in a first layer of another width.

    Args:
        dim: width of the input.
        filters: width F of each layer, at least 1.
        windows: tokens that an output of each layer sees, one number a layer, each at least 1.
        dropout: probability of a zero in the input, in [0, 1).
        dilated: let layer i (from 0) see tokens that are 2^i apart, so that what an output sees
            grows with a power of the depth.
        causal: let an output see its own token and those before it only.

    Shape: [B, T, D] to [B, T, F].

    Source: Gehring et al. 2017 (convolutional sequence to sequence), section 3.2; dilation:
        Yu and Koltun 2016, section 2; PyText, DeepCNN.
    """

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
        """Say yes with the option of that name."""
        return read_option(cls, options, "causal", bool)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of `filters` numbers a token."""
        return Shape(SEQUENCE, read_option(cls, options, "filters", int))

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T F"]:
        """Return the last layer's output."""
        hidden = functional.dropout(x_BTD, self.dropout, self.training)
        for layer in self.layers:
            hidden = layer(hidden, mask_BT)
        return zero_padding(hidden, mask_BT)
