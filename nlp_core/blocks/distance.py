"""Distances of vectors.

Shape letters: B batch, T tokens, S tokens of a second sequence, D width, E number of distances.
Inputs are [B, D], [B, T, D] or [B, T, S, D], written [*N, D].
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nlp_core.blocks.base import ANY_RANK, BLOCKS, Block, Shape, require_equal
from nlp_core.blocks.combination import require_each_once, require_one_rank
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import read_option

DistanceOperation = Literal["cos", "euclidean", "manhattan", "chebyshev"]

_ORDERS = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": torch.inf}


@BLOCKS.register("distance")
class Distance(Block):
    """Compute distances of the vectors of two inputs, one number for each operation.

    cos = x . y / (|x| |y|), 0 if a vector is zero; of the difference x - y, euclidean is the root
    of the sum of squares, manhattan the sum and chebyshev the maximum of the absolute values.

    Args:
        operations: what is concatenated, in this order.

    Shape: [*N, D] and [*N, D] to [*N, number of operations].
    """

    ranks = (ANY_RANK, ANY_RANK)
    causal = True
    elementwise = True

    def __init__(
        self,
        dim: int,
        other_dim: int,
        *,
        operations: Sequence[DistanceOperation] = ("cos", "euclidean", "manhattan", "chebyshev"),
    ) -> None:
        super().__init__()
        self.operations = tuple(operations)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        rank = require_one_rank("distance", inputs)
        require_equal("distance", inputs[0].dim, inputs[1].dim)
        operations = read_option(cls, options, "operations", tuple)
        require_each_once("distance", operations, get_args(DistanceOperation))
        return Shape(rank, len(operations))

    def forward(
        self,
        x_ND: Float[Tensor, "*N D"],
        mask_x: Bool[Tensor, "*N"] | None,
        y_ND: Float[Tensor, "*N D"],
        mask_y: Bool[Tensor, "*N"] | None,
    ) -> Float[Tensor, "*N E"]:
        found_NE = torch.stack([_measure(name, x_ND, y_ND) for name in self.operations], -1)
        return zero_padding(found_NE, mask_x)


def _measure(operation: DistanceOperation, x_ND: Tensor, y_ND: Tensor) -> Tensor:
    if operation != "cos":
        distance_N: Tensor = torch.linalg.vector_norm(x_ND - y_ND, _ORDERS[operation], -1)
        return distance_N
    norms_N = torch.linalg.vector_norm(x_ND, dim=-1) * torch.linalg.vector_norm(y_ND, dim=-1)
    cosine_N: Tensor = (x_ND * y_ND).sum(-1) / norms_N.masked_fill(norms_N == 0.0, 1.0)
    return cosine_N
