"""How far apart two vectors are.

Shape letters: B batch, D width, E number of distances.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from nlp_core.blocks.base import BLOCKS, VECTOR, Block, Shape, require_equal
from nlp_core.blocks.combination import require_each_once
from nlp_core.blocks.option import read_option

DistanceOperation = Literal["cos", "euclidean", "manhattan", "chebyshev"]

_ORDERS = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": torch.inf}


@BLOCKS.register("distance")
class Distance(Block):
    """Measure two vectors against each other, one number an operation.

    cos = x . y / (|x| |y|), the cosine, 0 if a vector is zero; of the difference x - y, euclidean
    is the root of the sum of squares, manhattan the sum and chebyshev the largest of the absolute
    values.

    Args:
        dim: width of x.
        other_dim: width of y, equal to that of x.
        operations: what stands side by side in the output, in this order.

    Shape: [B, D] and [B, D] to [B, number of operations].
    """

    ranks = ((VECTOR,), (VECTOR,))

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
        """Return a vector of one number an operation; the widths must be equal.

        Raises:
            ConfigError: the widths differ, there is no operation, or one stands twice.
        """
        require_equal("distance", inputs[0].dim, inputs[1].dim)
        operations = read_option(cls, options, "operations", tuple)
        require_each_once("distance", operations, get_args(DistanceOperation))
        return Shape(VECTOR, len(operations))

    def forward(
        self,
        x_BD: Float[Tensor, "B D"],
        mask_x: None,
        y_BD: Float[Tensor, "B D"],
        mask_y: None,
    ) -> Float[Tensor, "B E"]:
        """Return the distances side by side."""
        return torch.stack([_measure(name, x_BD, y_BD) for name in self.operations], -1)


def _measure(operation: DistanceOperation, x_BD: Tensor, y_BD: Tensor) -> Tensor:
    if operation != "cos":
        distance_B: Tensor = torch.linalg.vector_norm(x_BD - y_BD, _ORDERS[operation], -1)
        return distance_B
    norms_B = torch.linalg.vector_norm(x_BD, dim=-1) * torch.linalg.vector_norm(y_BD, dim=-1)
    cosine_B: Tensor = (x_BD * y_BD).sum(-1) / norms_B.masked_fill(norms_B == 0.0, 1.0)
    return cosine_B
