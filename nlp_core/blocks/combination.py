"""Blocks that combine or compare vectors, or sequences or grids over the same tokens.

Shape letters: B batch, T tokens, S tokens of a second sequence, D and E widths. Inputs are [B, D],
[B, T, D] or [B, T, S, D], written [*N, D]; they come as `x, mask, y, mask, ...`.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from nlp_core.blocks.base import (
    ANY_RANK,
    BLOCKS,
    GRID,
    SEQUENCE,
    VECTOR,
    Block,
    Shape,
    require_equal,
)
from nlp_core.blocks.masking import AnyMask, Mask, Tokens, zero_padding
from nlp_core.blocks.option import read_option
from nlp_core.errors import ConfigError

Operation = Literal["origin", "difference", "product"]
DistanceOperation = Literal["cos", "euclidean", "manhattan", "chebyshev"]
_ORDERS = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": torch.inf}

Field: TypeAlias = Float[Tensor, "*N _"] | AnyMask
"""An input, or the mask that follows it."""
_RANKS = {VECTOR: "vectors", SEQUENCE: "sequences", GRID: "grids"}


def require_one_rank(what: str, inputs: Sequence[Shape]) -> int:
    """Return the rank that all inputs have; several are a ConfigError."""
    ranks = sorted({shape.rank for shape in inputs})
    if len(ranks) > 1:
        found = " and ".join(_RANKS[rank] for rank in ranks)
        raise ConfigError(
            f"{what}: found {found} together, expected inputs of one rank; pool the "
            f"{_RANKS[ranks[-1]]} first."
        )
    return inputs[0].rank


def require_each_once(what: str, found: Sequence[str], allowed: Sequence[str]) -> None:
    if not found or len(set(found)) < len(found):
        raise ConfigError(
            f"{what}: operations: found {list(found)}, expected at least one of "
            f"{', '.join(allowed)}, each once."
        )


def split_fields(fields: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the inputs among the `x, mask, y, mask, ...` of a block's forward."""
    return [field for field in fields[::2] if field is not None]


class Elementwise(Block):
    """Combine any number of inputs over the same tokens."""

    ranks: ClassVar[tuple[tuple[int, ...], ...]] = (ANY_RANK,)
    causal = True
    variadic = True
    elementwise = True

    def __init__(self, *dims: int) -> None:
        super().__init__()


@BLOCKS.register("concat")
class Concat(Elementwise):
    """Concatenate inputs: y = [x1; x2; ...].

    Shape: any number of [*N, D_i] to [*N, sum of D_i].
    """

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(require_one_rank("concat", inputs), sum(shape.dim for shape in inputs))

    def forward(self, *fields: Field) -> Float[Tensor, "*N E"]:
        return zero_padding(torch.cat(split_fields(fields), -1), fields[1])


@BLOCKS.register("append_vector")
class AppendVector(Block):
    """Concatenate a vector of the example to each token: y_t = [x_t; v].

    Shape: [B, T, D] and [B, E] to [B, T, D + E].

    Source: Aly et al. 2018 (PyText), the contextual model of intents and slots.
    """

    ranks = ((SEQUENCE,), (VECTOR,))

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(SEQUENCE, sum(shape.dim for shape in inputs))

    def __init__(self, dim: int, vector_dim: int) -> None:
        super().__init__()

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, vector_BE: Float[Tensor, "B E"], no_mask: None = None
    ) -> Float[Tensor, "B T F"]:
        each_BTE = vector_BE.unsqueeze(1).expand(-1, x_BTD.shape[1], -1)
        return zero_padding(torch.cat([x_BTD, each_BTE], -1), mask_BT)


class Broadcast(Elementwise):
    """Fold inputs of equal width; those of width 1 are stretched."""

    operation: ClassVar[Callable[[Tensor, Tensor], Tensor]]

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        name = BLOCKS.name_of(cls)
        first, *rest = [shape.dim for shape in inputs if shape.dim > 1] or [1]
        for dim in rest:
            require_equal(name, first, dim)
        return Shape(require_one_rank(name, inputs), first)

    def forward(self, *fields: Field) -> Float[Tensor, "*N D"]:
        return zero_padding(reduce(type(self).operation, split_fields(fields)), fields[1])


@BLOCKS.register("add")
class Add(Broadcast):
    """Sum inputs of equal width, or of width 1: y = x1 + x2 + ...

    Shape: any number of [*N, D] to [*N, D].
    """

    operation = torch.add


@BLOCKS.register("multiply")
class Multiply(Broadcast):
    """Multiply inputs of equal width, or of width 1, elementwise: y = x1 * x2 * ...

    Shape: any number of [*N, D] to [*N, D].
    """

    operation = torch.mul


@BLOCKS.register("minus")
class Minus(Broadcast):
    """Subtract two inputs of equal width, or one of width 1: y = x1 - x2, or |x1 - x2|.

    Args:
        absolute: drop the signs, so that the order of the inputs does not matter.

    Shape: [*N, D] and [*N, D] to [*N, D].
    """

    ranks = (ANY_RANK, ANY_RANK)
    variadic = False
    operation = torch.sub

    def __init__(self, dim: int, other_dim: int, *, absolute: bool = False) -> None:
        super().__init__()
        self.absolute = absolute

    def forward(self, *fields: Field) -> Float[Tensor, "*N D"]:
        difference = super().forward(*fields)
        return difference.abs() if self.absolute else difference


@BLOCKS.register("combination")
class Combination(Elementwise):
    """Compare inputs: y = [origin: x1; x2; ... | difference: |x1 - x2| | product: x1 * x2].

    Args:
        operations: what is concatenated, in this order; `difference` and `product` need two inputs
            of equal width.

    Shape: any number of [*N, D_i] to [*N, E], E the sum of the widths of the operations.

    Source: Mou et al. 2016 (tree-based convolution), heuristic matching.
    Note: the difference is absolute, so that it does not depend on the order of the inputs.
    """

    def __init__(
        self, *dims: int, operations: Sequence[Operation] = ("origin", "difference", "product")
    ) -> None:
        super().__init__()
        self.operations = tuple(operations)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        rank = require_one_rank("combination", inputs)
        operations = read_option(cls, options, "operations", tuple)
        require_each_once("combination", operations, get_args(Operation))
        dim = sum(shape.dim for shape in inputs) if "origin" in operations else 0
        for operation in operations:
            if operation == "origin":
                continue
            if len(inputs) != 2:
                raise ConfigError(
                    f"combination: {operation}: found {len(inputs)} inputs, expected two of equal "
                    "width."
                )
            require_equal(f"combination: {operation}", inputs[0].dim, inputs[1].dim)
            dim += inputs[0].dim
        return Shape(rank, dim)

    def forward(self, *fields: Field) -> Float[Tensor, "*N E"]:
        inputs = split_fields(fields)
        parts: list[Tensor] = []
        for operation in self.operations:
            if operation == "origin":
                parts.extend(inputs)
            elif operation == "difference":
                parts.append((inputs[0] - inputs[1]).abs())
            else:
                parts.append(inputs[0] * inputs[1])
        return zero_padding(torch.cat(parts, -1), fields[1])


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
        mask_x: AnyMask,
        y_ND: Float[Tensor, "*N D"],
        mask_y: AnyMask,
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
