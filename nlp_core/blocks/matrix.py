"""Products of two sequences taken as matrices.

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D and E widths,
P number of tokens that a width stands for.
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
    """Multiply two sequences as matrices, of which rows of padding are zero.

    `dim_based`: Z = X Y^T, how much token t of X is like token s of Y, for the first
    `num_tokens` tokens of Y: a width must be known before any text is, so that columns without a
    token are zero and later tokens are not seen.
    `common`: Z = X Y, where number s of x_t is the weight of token s of Y, as `dim_based` gives
    it: z_t = sum_s x_ts y_s over the first D tokens of Y.
    `seq_based`: Z = X^T Y = sum_t x_t y_t^T for two sequences over the same tokens, a matrix
    without tokens that is returned row by row as one vector.

    Args:
        dim: width D of X.
        other_dim: width E of Y; for `dim_based` equal to that of X.
        operation: see above.
        num_tokens: columns of `dim_based`, at least 1; null for the other operations.

    Shape: X [B, T, D] and Y [B, S, E] to [B, T, num_tokens] (`dim_based`), [B, T, E] (`common`) or
        [B, D * E] (`seq_based`, where S = T).

    Source: NeuronBlocks, MatrixMultiply.
    Note: theirs wants texts of a fixed length and multiplies padding too.
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
        """Return both inputs for `seq_based`, which sums over the tokens that they share."""
        return [(0, 1)] if read_option(cls, options, "operation", str) == "seq_based" else []

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of `num_tokens` or E numbers, or a vector of D * E.

        Raises:
            ConfigError: `num_tokens` is missing or has no meaning, or the widths differ.
        """
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
        """Return the product."""
        x_BTD, y_BSE = zero_padding(x_BTD, mask_BT), zero_padding(y_BSE, mask_BS)
        if self.operation == "seq_based":
            return torch.bmm(x_BTD.transpose(1, 2), y_BSE).flatten(1)
        missing = self.columns - y_BSE.shape[1]  # a negative number cuts
        y_BPE = functional.pad(y_BSE, (0, 0, 0, missing))
        return torch.bmm(x_BTD, y_BPE.transpose(1, 2) if self.operation == "dim_based" else y_BPE)
