"""Blocks that make one vector of a sequence.

Shape letters: B batch, T tokens, D width.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nlp_core.blocks.base import BLOCKS, VECTOR, Block, Shape
from nlp_core.blocks.masking import (
    count_tokens,
    masked_softmax,
    pool_at,
    pool_max,
    pool_mean,
)
from nlp_core.blocks.option import Pool


@BLOCKS.register("pooling")
class Pooling(Block):
    """Reduce the real tokens of a sequence to one vector: maximum, mean, last or first.

    An example without tokens gives zeros.

    Args:
        dim: width of the input.
        pool: `max` or `mean` of each number over time, or the `last` or `first` token's vector.

    Shape: [B, T, D] to [B, D].
    """

    def __init__(self, dim: int, *, pool: Pool = "max") -> None:
        super().__init__()
        self.pool = pool

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a vector as wide as the input."""
        return Shape(VECTOR, inputs[0].dim)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector an example."""
        if self.pool == "max":
            return pool_max(x_BTD, mask_BT)
        if self.pool == "mean":
            return pool_mean(x_BTD, mask_BT)
        index_B = (count_tokens(mask_BT) - 1).clamp(min=0)
        return pool_at(x_BTD, index_B if self.pool == "last" else index_B * 0, mask_BT)


@BLOCKS.register("linear_attention")
class LinearAttention(Block):
    """Weigh tokens by a learned query: y = sum_t softmax_t(w . x_t) x_t, over real tokens.

    Args:
        dim: width of the input.

    Shape: [B, T, D] to [B, D].

    Source: Chen et al. 2017 (DrQA), question encoding, section 3.2.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, 1, bias=False)  # a bias would not change the softmax

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a vector as wide as the input."""
        return Shape(VECTOR, inputs[0].dim)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector an example."""
        weight_BT = masked_softmax(self.query(x_BTD).squeeze(-1), mask_BT)
        return torch.einsum("bt,btd->bd", weight_BT, x_BTD)
