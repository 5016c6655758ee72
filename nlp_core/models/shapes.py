"""The shapes of layers: their notation, and the ranks that fit."""

from collections.abc import Sequence

from nlp_core.blocks.base import (
    CHARACTERS,
    GRID,
    NUMBERS,
    PIECES,
    SEQUENCE,
    TOKEN_NUMBERS,
    VECTOR,
    WORDS,
    Block,
    Shape,
)
from nlp_core.config import column as columns
from nlp_core.errors import ConfigError

RANK_NAMES = {
    PIECES: "texts",
    TOKEN_NUMBERS: "numbers of tokens",
    NUMBERS: "numbers",
    WORDS: "words",
    CHARACTERS: "characters",
    VECTOR: "a vector",
    SEQUENCE: "a sequence",
    GRID: "a grid",
}
RAW_SHAPES = {
    PIECES: "[B,T]",
    TOKEN_NUMBERS: "[B,T,W]",
    NUMBERS: "[B,W]",
    WORDS: "[B,T]",
    CHARACTERS: "[B,T,C]",
}
AXES = ("B", "T", "S", "R")


def format_shape(shape: Shape) -> str:
    """Return the notation of a shape: `[B,T,200]`, `[B,200]`, `[B,T]` for words."""
    if shape.rank in RAW_SHAPES:
        return RAW_SHAPES[shape.rank]
    return f"[{','.join([*AXES[: shape.rank - 1], str(shape.dim)])}]"


def shape_input(column: str) -> Shape:
    """Return the shape of a model's input; its width is unknown before data is read."""
    if column.endswith(".characters"):
        return Shape(CHARACTERS, 0)
    if column in columns.WHOLE_TEXTS or column.endswith(columns.PIECES):
        return Shape(PIECES, 0)
    if column.startswith(columns.NUMBERS):
        return Shape(NUMBERS, 0)
    return Shape(TOKEN_NUMBERS if column.startswith(columns.TOKEN_NUMBERS) else WORDS, 0)


def list_ranks(block: type[Block], num_inputs: int) -> Sequence[tuple[int, ...]]:
    ranks = list(block.ranks)
    if block.variadic:
        ranks += [ranks[-1]] * (num_inputs - len(ranks))
    return ranks


def check_ranks(
    ranks: Sequence[tuple[int, ...]], names: list[str], shapes: list[Shape], where: str
) -> None:
    """Raise ConfigError if the number or the rank of inputs is wrong."""
    if len(shapes) != len(ranks):
        raise ConfigError(f"{where}: inputs: found {len(shapes)}, expected {len(ranks)}.")
    for name, shape, allowed in zip(names, shapes, ranks, strict=True):
        if shape.rank not in allowed:
            expected = " or ".join(RANK_NAMES[rank] for rank in allowed)
            raise ConfigError(
                f"{where}: inputs: '{name}' is {RANK_NAMES[shape.rank]}, expected {expected}."
            )
