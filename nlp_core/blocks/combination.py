"""Blocks that bring several vectors, or several sequences or grids of one length, together.

Shape letters: B batch, T tokens, S tokens of a second sequence, D and E widths. Inputs are [B, D],
[B, T, D] or [B, T, S, D], written [*N, D]; they come as `x, mask, y, mask, ...`.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nlp_core.blocks.base import BLOCKS, GRID, SEQUENCE, VECTOR, Block, Shape, require_equal
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import read_option
from nlp_core.errors import ConfigError

Operation = Literal["origin", "difference", "product"]


_RANKS = {VECTOR: "vectors", SEQUENCE: "sequences", GRID: "grids"}


def require_one_rank(what: str, inputs: Sequence[Shape]) -> int:
    """Return the rank that all inputs have.

    Raises:
        ConfigError: there are two ranks among them.
    """
    ranks = sorted({shape.rank for shape in inputs})
    if len(ranks) > 1:
        found = " and ".join(_RANKS[rank] for rank in ranks)
        raise ConfigError(
            f"{what}: found {found} together, expected inputs of one rank; pool the "
            f"{_RANKS[ranks[-1]]} first."
        )
    return inputs[0].rank


def require_broadcast(what: str, inputs: Sequence[Shape]) -> int:
    """Return the one width of the inputs, to which those of width 1 are stretched.

    Raises:
        ConfigError: two inputs are wider than 1 and differ.
    """
    first, *rest = [shape.dim for shape in inputs if shape.dim > 1] or [1]
    for dim in rest:
        require_equal(what, first, dim)
    return first


def require_each_once(what: str, found: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse a list of operations that is empty or names one twice.

    Raises:
        ConfigError: it does.
    """
    if not found or len(set(found)) < len(found):
        raise ConfigError(
            f"{what}: operations: found {list(found)}, expected at least one of "
            f"{', '.join(allowed)}, each once."
        )


@BLOCKS.register("concat")
class Concat(Block):
    """Put inputs side by side: y = [x1; x2; ...].

    Args:
        dims: widths of the inputs.

    Shape: any number of [*N, D_i] to [*N, sum of D_i].
    """

    ranks = ((VECTOR, SEQUENCE, GRID),)
    variadic = True
    elementwise = True

    def __init__(self, *dims: int) -> None:
        super().__init__()

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the common rank and the sum of the widths."""
        return Shape(require_one_rank("concat", inputs), sum(shape.dim for shape in inputs))

    def forward(
        self, *fields: Float[Tensor, "*N _"] | Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N E"]:
        """Return the inputs side by side."""
        return zero_padding(torch.cat(split_fields(fields), -1), fields[1])


@BLOCKS.register("add")
class Add(Block):
    """Sum inputs of equal width: y = x1 + x2 + ...

    Args:
        dims: widths of the inputs; one of width 1 is added to each number of the others.

    Shape: any number of [*N, D] to [*N, D].
    """

    ranks = ((VECTOR, SEQUENCE, GRID),)
    variadic = True
    elementwise = True

    def __init__(self, *dims: int) -> None:
        super().__init__()

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the shape that all inputs have."""
        return Shape(require_one_rank("add", inputs), require_broadcast("add", inputs))

    def forward(
        self, *fields: Float[Tensor, "*N _"] | Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N D"]:
        """Return the sum of the inputs."""
        total, *rest = split_fields(fields)
        for x in rest:
            total = total + x
        return zero_padding(total, fields[1])


@BLOCKS.register("multiply")
class Multiply(Block):
    """Multiply inputs of equal width number by number: y = x1 * x2 * ...

    Args:
        dims: widths of the inputs; one of width 1 multiplies each number of the others.

    Shape: any number of [*N, D] to [*N, D].
    """

    ranks = ((VECTOR, SEQUENCE, GRID),)
    variadic = True
    elementwise = True

    def __init__(self, *dims: int) -> None:
        super().__init__()

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the shape that all inputs have."""
        return Shape(require_one_rank("multiply", inputs), require_broadcast("multiply", inputs))

    def forward(
        self, *fields: Float[Tensor, "*N _"] | Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N D"]:
        """Return the product of the inputs."""
        product, *rest = split_fields(fields)
        for x in rest:
            product = product * x
        return zero_padding(product, fields[1])


@BLOCKS.register("minus")
class Minus(Block):
    """Subtract two inputs of equal width: y = x1 - x2, or |x1 - x2|.

    Args:
        dim: width of the first input.
        other_dim: width of the second; a width of 1 goes with each number of the other input.
        absolute: drop the signs, so that the order of the inputs does not matter.

    Shape: [*N, D] and [*N, D] to [*N, D].
    """

    ranks = ((VECTOR, SEQUENCE, GRID), (VECTOR, SEQUENCE, GRID))
    elementwise = True

    def __init__(self, dim: int, other_dim: int, *, absolute: bool = False) -> None:
        super().__init__()
        self.absolute = absolute

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the shape that both inputs have."""
        return Shape(require_one_rank("minus", inputs), require_broadcast("minus", inputs))

    def forward(
        self,
        x: Float[Tensor, "*N _"],
        mask: Bool[Tensor, "*N"] | None,
        y: Float[Tensor, "*N _"],
        mask_y: Bool[Tensor, "*N"] | None,
    ) -> Float[Tensor, "*N D"]:
        """Return the difference of the inputs."""
        difference = x - y
        return zero_padding(difference.abs() if self.absolute else difference, mask)


@BLOCKS.register("combination")
class Combination(Block):
    """Compare inputs: y = [origin: x1; x2; ... | difference: |x1 - x2| | product: x1 * x2].

    Args:
        dims: widths of the inputs; for `difference` and `product` two that are equal.
        operations: what stands side by side in the output, in this order.

    Shape: any number of [*N, D_i] to [*N, E], E the sum of the widths of the operations.

    Source: Mou et al. 2016 (tree-based convolution), heuristic matching.
    Note: the difference is absolute, so that it does not tell the order of the inputs.
    """

    ranks = ((VECTOR, SEQUENCE, GRID),)
    variadic = True
    elementwise = True

    def __init__(
        self,
        *dims: int,
        operations: Sequence[Operation] = ("origin", "difference", "product"),
    ) -> None:
        super().__init__()
        self.operations = tuple(operations)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the common rank and the summed width of the operations.

        Raises:
            ConfigError: there is no operation, one stands twice, or the inputs do not suit one.
        """
        rank = require_one_rank("combination", inputs)
        operations = read_option(cls, options, "operations", tuple)
        require_each_once("combination", operations, get_args(Operation))
        dim = sum(shape.dim for shape in inputs) if "origin" in operations else 0
        for operation in operations:
            if operation != "origin":
                _require_pair(operation, inputs)
                dim += inputs[0].dim
        return Shape(rank, dim)

    def forward(
        self, *fields: Float[Tensor, "*N _"] | Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N E"]:
        """Return the operations' results side by side."""
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


def split_fields(fields: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the inputs among the `x, mask, y, mask, ...` of a block's forward."""
    return [field for field in fields[::2] if field is not None]


def _require_pair(operation: str, inputs: Sequence[Shape]) -> None:
    if len(inputs) != 2:
        raise ConfigError(
            f"combination: {operation}: found {len(inputs)} inputs, expected two of equal width."
        )
    require_equal(f"combination: {operation}", inputs[0].dim, inputs[1].dim)
