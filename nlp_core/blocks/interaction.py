"""Grids that compare every token of one sequence with every token of another; matrix products.

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D width of the
first, E width of the second, F width of a cell, P tokens of the second that are read.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.attention import multiply_rows
from nlp_core.blocks.base import BLOCKS, GRID, SEQUENCE, VECTOR, Block, Shape, require_equal
from nlp_core.blocks.combination import require_each_once
from nlp_core.blocks.masking import Mask, OtherMask, Tokens, cross_masks, zero_padding
from nlp_core.blocks.option import PositiveInt, read_option
from nlp_core.errors import ConfigError

Matching = Literal["general", "dot", "cosine", "multiply", "plus", "minus", "concat"]


@BLOCKS.register("interaction")
class Interaction(Block):
    """Compare each token x of X with each token y of Y and concatenate the comparisons.

    general: x . W y; dot: x . y; cosine: x . y / (|x| |y|), zero if a vector is zero; multiply,
    plus and minus: elementwise; concat: [x; y]. All but general and concat need equal widths.

    Args:
        operations: the comparisons, in this order.

    Shape: X [B, T, D] and Y [B, S, E] to a grid [B, T, S, F], where general, dot and cosine add 1
        to F, multiply, plus and minus D, and concat D + E.

    Source: Pang et al. 2016 (MatchPyramid), matching matrix: dot and cosine; Wan et al. 2016
        (MV-LSTM), bilinear: general, without its bias; Hu et al. 2014 (ARC-II), section 3.2:
        concat and, after a convolution of each side, plus.
    Note: the grid has a mask for the lengths of both sequences, so nothing is padded to a fixed
        length. Plus is NeuronBlocks' Expand_plus; its Match is dot after a `linear` layer that both
        sequences share.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,))

    def __init__(
        self, dim: int, other_dim: int, *, operations: Sequence[Matching] = ("general",)
    ) -> None:
        super().__init__()
        self.operations = tuple(operations)
        if "general" in self.operations:
            self.bilinear = nn.Linear(dim, other_dim, bias=False)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        operations = read_option(cls, options, "operations", tuple)
        require_each_once("interaction", operations, get_args(Matching))
        dim, other_dim = inputs[0].dim, inputs[1].dim
        width = {"general": 1, "dot": 1, "cosine": 1, "concat": dim + other_dim}
        for operation in operations:
            if operation not in ("general", "concat"):
                require_equal(f"interaction: {operation}", dim, other_dim)
        return Shape(GRID, sum(width.get(operation, dim) for operation in operations))

    def output_mask(self, *masks: Tensor | None) -> Tensor | None:
        mask_BT, mask_BS = masks
        assert mask_BT is not None, "a sequence has a mask"
        assert mask_BS is not None, "a sequence has a mask"
        return cross_masks(mask_BT, mask_BS)

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, y_BSE: Float[Tensor, "B S E"], mask_BS: OtherMask
    ) -> Float[Tensor, "B T S F"]:
        parts = [self._compare(operation, x_BTD, y_BSE) for operation in self.operations]
        return zero_padding(torch.cat(parts, -1), cross_masks(mask_BT, mask_BS))

    def _compare(self, operation: Matching, x_BTD: Tensor, y_BSE: Tensor) -> Tensor:
        match operation:
            case "general":
                return multiply_rows(self.bilinear(x_BTD), y_BSE).unsqueeze(-1)
            case "dot":
                return multiply_rows(x_BTD, y_BSE).unsqueeze(-1)
            case "cosine":
                unit_BTD = functional.normalize(x_BTD, dim=-1)
                return multiply_rows(unit_BTD, functional.normalize(y_BSE, dim=-1)).unsqueeze(-1)
        x_BT1D, y_B1SE = x_BTD.unsqueeze(2), y_BSE.unsqueeze(1)
        match operation:
            case "multiply":
                return x_BT1D * y_B1SE
            case "plus":
                return x_BT1D + y_B1SE
            case "minus":
                return x_BT1D - y_B1SE
            case "concat":
                size = (-1, x_BTD.shape[1], y_BSE.shape[1], -1)
                return torch.cat([x_BT1D.expand(size), y_B1SE.expand(size)], -1)


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
        self, x_BTD: Tokens, mask_BT: Mask, y_BSE: Float[Tensor, "B S E"], mask_BS: OtherMask
    ) -> Float[Tensor, "B T _"] | Float[Tensor, "B _"]:
        x_BTD, y_BSE = zero_padding(x_BTD, mask_BT), zero_padding(y_BSE, mask_BS)
        if self.operation == "seq_based":
            return torch.bmm(x_BTD.transpose(1, 2), y_BSE).flatten(1)
        missing = self.columns - y_BSE.shape[1]  # a negative number cuts
        y_BPE = functional.pad(y_BSE, (0, 0, 0, missing))
        return torch.bmm(x_BTD, y_BPE.transpose(1, 2) if self.operation == "dim_based" else y_BPE)
