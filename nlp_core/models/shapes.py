"""Checks of a model file before its layers are planned: names, order and ranks of inputs."""

from graphlib import CycleError, TopologicalSorter

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
from nlp_core.config.model import LayerConfig, ModelConfig
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads.base import Head
from nlp_core.kinds import SENTENCES

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
    is_number = column.startswith((columns.TOKEN_NUMBERS, columns.TOKEN_VECTORS, SENTENCES))
    return Shape(TOKEN_NUMBERS if is_number else WORDS, 0)


def check_ranks(
    owner: type[Block] | type[Head], names: list[str], shapes: list[Shape], where: str
) -> None:
    """Raise ConfigError if the number or the rank of inputs of a block or head is wrong."""
    ranks = list(owner.ranks)
    if issubclass(owner, Block) and owner.variadic:
        ranks += [ranks[-1]] * (len(shapes) - len(ranks))
    if len(shapes) != len(ranks):
        raise ConfigError(f"{where}: inputs: found {len(shapes)}, expected {len(ranks)}.")
    for name, shape, allowed in zip(names, shapes, ranks, strict=True):
        if shape.rank not in allowed:
            expected = " or ".join(RANK_NAMES[rank] for rank in allowed)
            raise ConfigError(
                f"{where}: inputs: '{name}' is {RANK_NAMES[shape.rank]}, expected {expected}."
            )


def check_names(config: ModelConfig, where: str) -> None:
    seen = set(config.inputs)
    for layer in config.layers:
        if layer.name in seen:
            raise ConfigError(
                f"{where}: layer '{layer.name}': this name is taken; expected a different name for "
                "each input and layer."
            )
        seen.add(layer.name)


def sort_layers(config: ModelConfig, where: str) -> list[LayerConfig]:
    """Return the layers in an order in which each follows what it reads or shares.

    Raises:
        ConfigError: a layer reads something unknown, or there is a cycle.
    """
    layers = {layer.name: layer for layer in config.layers}
    known = {*config.inputs, *layers}
    for layer in config.layers:
        for name in layer.inputs:
            if name not in known:
                raise ConfigError(
                    f"{where}: layer '{layer.name}': inputs: unknown input or layer '{name}'. "
                    f"{suggest(name, known - {layer.name})}"
                )
    sorter = TopologicalSorter({name: _needs(layer, layers) for name, layer in layers.items()})
    try:
        sorter.prepare()
    except CycleError as err:
        names = err.args[1][::-1]
        raise ConfigError(
            f"{where}: layer '{names[0]}': inputs: {' waits for '.join(names)}, a cycle; expected "
            "each layer to read only inputs and layers that do not read it."
        ) from err
    ordered: list[LayerConfig] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        # in the order of the file: it decides the random numbers that initialise each layer
        ordered += [layer for layer in config.layers if layer.name in ready]
        sorter.done(*ready)
    return ordered


def _needs(layer: LayerConfig, layers: dict[str, LayerConfig]) -> set[str]:
    shared = {layer.block} - {layer.name}
    return {*layer.inputs, *shared} & layers.keys()


def check_head_tasks(config: ModelConfig, where: str) -> None:
    """Raise if only some of the heads name a task."""
    without = [name for name, head in config.heads.items() if head.task is None]
    if without and len(without) < len(config.heads):
        raise ConfigError(
            f"{where}: head '{without[0]}': task: found none, expected the name of a task, as for "
            "the other heads."
        )


def check_read(config: ModelConfig, where: str) -> None:
    read = {name for layer in config.layers for name in layer.inputs}
    read |= {name for head in config.heads.values() for name in head.inputs}
    for name in [*config.inputs, *(layer.name for layer in config.layers)]:
        if name not in read:
            raise ConfigError(
                f"{where}: layer or input '{name}': nothing reads it; remove it, or add it to the "
                "inputs of a layer or head."
            )
