"""Blocks on each vector by itself: dropout, linear, highway, layer normalisation.

Shape letters: B batch, T tokens, S tokens of a second sequence, D width of the input, E width of
the output. They take vectors [B, D], sequences [B, T, D] and grids [B, T, S, D], written [*N, D].
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import ANY_RANK, BLOCKS, Block
from nlp_core.blocks.masking import AnyMask, MaskedBatchNorm, zero_padding
from nlp_core.blocks.option import (
    Activation,
    PositiveInt,
    Probability,
    build_activation,
    read_option,
)


class PositionBlock(Block):
    """Map each vector by itself."""

    ranks = (ANY_RANK,)
    causal = True

    map_vectors: Callable[[Tensor], Tensor]

    def forward(self, x: Float[Tensor, "*N D"], mask: AnyMask) -> Float[Tensor, "*N E"]:
        return zero_padding(self.map_vectors(x), mask)


@BLOCKS.register("dropout")
class Dropout(PositionBlock):
    """Zero each number with probability p while training and scale the others by 1 / (1 - p).

    Args:
        p: probability of a zero.

    Shape: [*N, D] to [*N, D].

    Source: Srivastava et al. 2014 (dropout), section 4; scaled while training, not afterwards.
    """

    def __init__(self, dim: int, *, p: Probability = 0.5) -> None:
        super().__init__()
        self.p = p

    def map_vectors(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)


@BLOCKS.register("linear")
class Linear(Block):
    """Map each vector: y = activation(W x + b), or activation(batch_norm(W x)).

    Args:
        hidden_dim: width E of the output.
        activation: the function after the map.
        batch_norm: normalise before the activation, over all real positions of a batch; there is
            no b then, since normalisation would remove it.

    Shape: [*N, D] to [*N, E].
    """

    ranks = (ANY_RANK,)
    output_width = "hidden_dim"

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt,
        activation: Activation = "none",
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, hidden_dim, bias=not batch_norm)
        self.norm = MaskedBatchNorm(hidden_dim) if batch_norm else None
        self.activation = build_activation(activation)

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        # the statistics of batch normalisation are those of all tokens
        return not read_option(cls, options, "batch_norm", bool)

    def forward(self, x: Float[Tensor, "*N D"], mask: AnyMask) -> Float[Tensor, "*N E"]:
        y: Tensor = self.linear(x)
        if self.norm is not None:
            y = self.norm(y, mask)
        return zero_padding(self.activation(y), mask)


@BLOCKS.register("highway")
class Highway(PositionBlock):
    """Mix each vector with a map of itself: y = g * activation(W x + b) + (1 - g) * x.

    The gate is g = sigmoid(V x + c), and c starts at -1, so that a new layer mostly copies x.

    Args:
        num_layers: number of stacked layers.
        activation: the function after the map.

    Shape: [*N, D] to [*N, D].

    Source: Srivastava et al. 2015 (Highway Networks), eq. 3 and section 2.2.
    """

    def __init__(
        self, dim: int, *, num_layers: PositiveInt = 1, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(num_layers))
        self.gates = nn.ModuleList(nn.Linear(dim, dim) for _ in range(num_layers))
        self.activations = nn.ModuleList(build_activation(activation) for _ in range(num_layers))
        for gate in self.gates:
            nn.init.constant_(gate.get_parameter("bias"), -1.0)  # -1: Srivastava 2015, section 2.2

    def map_vectors(self, x: Tensor) -> Tensor:
        for linear, gate, activation in zip(self.maps, self.gates, self.activations, strict=True):
            x = x + torch.sigmoid(gate(x)) * (activation(linear(x)) - x)
        return x


@BLOCKS.register("layer_norm")
class LayerNorm(PositionBlock):
    """Normalise each vector: y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias.

    Shape: [*N, D] to [*N, D].

    Source: Ba et al. 2016 (layer normalisation), eq. 4.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def map_vectors(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return y
