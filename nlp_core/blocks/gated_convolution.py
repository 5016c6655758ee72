"""Stacked convolutions with gates and residuals.

Shape letters: B batch, T tokens, D width of the input, F filters.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, Block
from nlp_core.blocks.convolution import SameConvolution
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option


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

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T F"]:
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

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T F"]:
        hidden = functional.dropout(x_BTD, self.dropout, self.training)
        for layer in self.layers:
            hidden = layer(hidden, mask_BT)
        return zero_padding(hidden, mask_BT)
