"""Matrix products of two sequences.

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D and E widths,
P tokens of Y that are read.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, VECTOR, Block, Shape, require_equal
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, read_option
from nlp_core.errors import ConfigError


@BLOCKS.register("matrix_multiply")
class MatrixMultiply(Block):
    """Multiply two sequences as matrices; rows of padding are zero.

    `dim_based`: Z = X Y^T, the similarity of each token of X to the first `num_tokens` tokens of Y.
    The width of the output must be known in advance, so later tokens of Y are ignored and missing
    ones are zero.
    `common`: Z = X Y, where number s of x_t is the weight of token s of Y, as in the output of
    `dim_based`: z_t = sum_s x_ts y_s over the first D tokens of Y.
    `seq_based`: Z = X^T Y = sum_t x_t y_t^T for two sequences over the same tokens, returned row by
    row as one vector.

    Args:
        operation: see above.
        num_tokens: columns of `dim_based`; null for the other operations.

    Shape: X [B, T, D] and Y [B, S, E] to [B, T, num_tokens] (`dim_based`), [B, T, E] (`common`) or
        [B, D * E] (`seq_based`, where S = T).

    Source: NeuronBlocks, MatrixMultiply.
    Note: theirs needs texts of a fixed length and multiplies padding, too.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,))

    def __init__(
        self,
        dim: int,
        other_dim: int,
        *,
        operation: Literal["dim_based", "common", "seq_based"] = "dim_based",
        num_tokens: PositiveInt | None = None,
    ) -> None:
        super().__init__()
        self.operation = operation
        self.columns = dim if num_tokens is None else num_tokens

    @classmethod
    def list_aligned(cls, count: int, options: Mapping[str, object]) -> list[tuple[int, ...]]:
        # seq_based sums over the tokens that both share
        return [(0, 1)] if read_option(cls, options, "operation", str) == "seq_based" else []

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        operation = read_option(cls, options, "operation", str)
        num_tokens = options.get("num_tokens")
        if (operation == "dim_based") != (num_tokens is not None):
            expected = "a number" if operation == "dim_based" else "null"
            raise ConfigError(
                f"matrix_multiply: num_tokens: found {'null' if num_tokens is None else num_tokens}"
                f", expected {expected} for the operation {operation}."
            )
        dim, other_dim = inputs[0].dim, inputs[1].dim
        if operation == "seq_based":
            return Shape(VECTOR, dim * other_dim)
        if operation == "common":
            return Shape(SEQUENCE, other_dim)
        require_equal("matrix_multiply: dim_based", dim, other_dim)
        return Shape(SEQUENCE, read_option(cls, options, "num_tokens", int))

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        y_BSE: Float[Tensor, "B S E"],
        mask_BS: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B T _"] | Float[Tensor, "B _"]:
        x_BTD, y_BSE = zero_padding(x_BTD, mask_BT), zero_padding(y_BSE, mask_BS)
        if self.operation == "seq_based":
            return torch.bmm(x_BTD.transpose(1, 2), y_BSE).flatten(1)
        missing = self.columns - y_BSE.shape[1]  # a negative number cuts
        y_BPE = functional.pad(y_BSE, (0, 0, 0, missing))
        return torch.bmm(x_BTD, y_BPE.transpose(1, 2) if self.operation == "dim_based" else y_BPE)
