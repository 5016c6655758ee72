"""Plan a model graph: order, sharing and shapes of its layers, before any data is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.blocks import BLOCKS, CHARACTERS, GRID, SEQUENCE, VECTOR, WORDS, Block, Shape
from nlp_core.config.model import HeadConfig, LayerConfig, ModelConfig, read_model
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads import HEADS, Head
from nlp_core.models.options import check_options

Axes = tuple[str, ...]
"""For each axis of tokens of a layer's output, what its lengths come from: a column, and on."""

RANK_NAMES = {0: "words", 1: "characters", 2: "a vector", 3: "a sequence", 4: "a grid"}


AXES = ("B", "T", "S", "R")


def format_shape(shape: Shape) -> str:
    """Return a shape as it is written: `[B,T,200]`, `[B,200]`, `[B,T]` for words."""
    if shape.rank == WORDS:
        return "[B,T]"
    if shape.rank == CHARACTERS:
        return "[B,T,C]"
    return f"[{','.join([*AXES[: shape.rank - 1], str(shape.dim)])}]"


@dataclass(frozen=True)
class LayerPlan:
    """A layer that fits.

    Attributes:
        name: its name in the model file.
        owner: the layer whose parameters it uses: itself, or the one it shares.
        block: the class of the block.
        options: checked options of the block.
        inputs: names of model inputs or layers.
        shapes: shape of each input.
        shape: shape of its output.
    """

    name: str
    owner: str
    block: type[Block]
    options: dict[str, Any]
    inputs: list[str]
    shapes: list[Shape]
    shape: Shape


@dataclass(frozen=True)
class HeadPlan:
    """A head that fits.

    Attributes:
        name: its name in the model file.
        head: the class of the head.
        options: checked options of the head.
        inputs: names of the layers that it reads.
        shapes: shape of each.
        axes: what the lengths of all of them come from: the column of their tokens.
        weight: factor on its loss.
    """

    name: str
    head: type[Head]
    options: dict[str, Any]
    inputs: list[str]
    shapes: list[Shape]
    axes: Axes
    weight: float


@dataclass(frozen=True)
class ModelPlan:
    """A model file that can be built.

    Attributes:
        where: path of the file, for error messages.
        inputs: the column that each model input reads.
        layers: in an order in which each layer follows its inputs.
        heads: by name.
    """

    where: str
    inputs: dict[str, str]
    layers: list[LayerPlan]
    heads: dict[str, HeadPlan]

    @property
    def grouped(self) -> bool:
        """Whether a training batch must hold whole groups."""
        return any(head.head.grouped for head in self.heads.values())


def read_plan(path: Path) -> ModelPlan:
    """Read and plan a model file.

    Raises:
        ConfigError: see `plan_model`.
    """
    return plan_model(read_model(path), where=str(path))


def plan_model(config: ModelConfig, *, where: str) -> ModelPlan:
    """Check a model graph and work out its shapes.

    In `block` the name of a layer goes before that of a block, so that a block which comes into the
    zoo later changes no model file.

    Args:
        config: the model file.
        where: its path, for error messages.

    Raises:
        ConfigError: a name used twice or unknown, a cycle, a layer that nothing reads, a wrong
            rank, widths or lengths that do not fit together, a wrong option.
    """
    _refuse_twice(config, where)
    shapes = {
        name: Shape(CHARACTERS if column.endswith(".characters") else WORDS, 0)
        for name, column in config.inputs.items()
    }
    axes: dict[str, Axes] = {
        name: (column.partition(".")[0],) for name, column in config.inputs.items()
    }
    plans: dict[str, LayerPlan] = {}
    for layer in _sort_layers(config, where):
        place = f"{where}: layer '{layer.name}'"
        plans[layer.name] = _plan_layer(layer, plans, shapes, place)
        shapes[layer.name] = plans[layer.name].shape
        axes[layer.name] = _find_axes(plans[layer.name], axes, place)
    heads = {}
    for name, head in config.heads.items():
        heads[name] = _plan_head(name, head, shapes, axes, f"{where}: head '{name}'")
    _refuse_unread(config, where)
    return ModelPlan(where, dict(config.inputs), list(plans.values()), heads)


def _refuse_twice(config: ModelConfig, where: str) -> None:
    seen = set(config.inputs)
    for layer in config.layers:
        if layer.name in seen:
            raise ConfigError(
                f"{where}: layer '{layer.name}': this name stands twice; give each input and "
                "each layer a name of its own."
            )
        seen.add(layer.name)


def _sort_layers(config: ModelConfig, where: str) -> list[LayerConfig]:
    """Return the layers so that each follows what it reads and what it shares."""
    layers = {layer.name: layer for layer in config.layers}
    known = {*config.inputs, *layers}
    done: set[str] = set(config.inputs)
    ordered: list[LayerConfig] = []
    waiting = list(config.layers)
    for layer in config.layers:
        for name in layer.inputs:
            if name not in known:
                raise ConfigError(
                    f"{where}: layer '{layer.name}': inputs: unknown input or layer '{name}'. "
                    f"{suggest(name, known - {layer.name})}"
                )
    while waiting:
        ready = [layer for layer in waiting if _needs(layer, layers) <= done]
        if not ready:
            cycle = _find_cycle(waiting[0].name, layers, done)
            raise ConfigError(
                f"{where}: layer '{cycle[0]}': inputs: {' waits for '.join([*cycle, cycle[0]])}, a "
                "cycle; expected each layer to read only inputs and layers that do not read it."
            )
        ordered.extend(ready)
        done.update(layer.name for layer in ready)
        waiting = [layer for layer in waiting if layer.name not in done]
    return ordered


def _find_cycle(name: str, layers: dict[str, LayerConfig], done: set[str]) -> list[str]:
    """Follow what a layer waits for until a name comes again."""
    path = [name]
    while True:
        name = min(_needs(layers[name], layers) - done)
        if name in path:
            return path[path.index(name) :]
        path.append(name)


def _needs(layer: LayerConfig, layers: dict[str, LayerConfig]) -> set[str]:
    shared = layer.block in layers and layer.block != layer.name
    return {*layer.inputs, *([layer.block] if shared else [])}


def _plan_layer(
    layer: LayerConfig, plans: dict[str, LayerPlan], known: dict[str, Shape], where: str
) -> LayerPlan:
    shapes = [known[name] for name in layer.inputs]
    shared = plans.get(layer.block)
    if shared is not None:
        return _plan_shared(layer, shared, shapes, where)
    if layer.block not in BLOCKS.names():
        allowed = [*BLOCKS.names(), *plans]
        raise ConfigError(
            f"{where}: block: unknown block '{layer.block}'. {suggest(layer.block, allowed)}"
        )
    block = BLOCKS.get(layer.block)
    options = check_options(block, layer.options, where=where)
    _check_ranks(_list_ranks(block, len(shapes)), layer.inputs, shapes, where)
    return LayerPlan(
        layer.name,
        layer.name,
        block,
        options,
        layer.inputs,
        shapes,
        _infer(block, layer.inputs, shapes, options, where=where),
    )


def _plan_shared(
    layer: LayerConfig, shared: LayerPlan, shapes: list[Shape], where: str
) -> LayerPlan:
    if layer.options:
        is_block = shared.name in BLOCKS.names()
        hint = ", or rename that layer if you mean the block of its name" if is_block else ""
        raise ConfigError(
            f"{where}: found the options {', '.join(sorted(layer.options))}; a layer that shares "
            f"the parameters of '{shared.name}' has no options of its own; remove them{hint}."
        )
    _check_ranks(_list_ranks(shared.block, len(shapes)), layer.inputs, shapes, where)
    if [shape.dim for shape in shapes] != [shape.dim for shape in shared.shapes]:
        raise ConfigError(
            f"{where}: inputs: found widths {[s.dim for s in shapes]}, expected those of "
            f"'{shared.name}', whose parameters it shares: {[s.dim for s in shared.shapes]}."
        )
    shape = _infer(shared.block, layer.inputs, shapes, shared.options, where=where)
    return LayerPlan(
        layer.name, shared.owner, shared.block, shared.options, layer.inputs, shapes, shape
    )


def _infer(
    block: type[Block],
    names: list[str],
    shapes: list[Shape],
    options: dict[str, Any],
    *,
    where: str,
) -> Shape:
    try:
        return block.infer(*shapes, **options)
    except ConfigError as err:
        read = [f"{name} {format_shape(shape)}" for name, shape in zip(names, shapes, strict=True)]
        raise ConfigError(f"{where}: {err} Its inputs are {', '.join(read)}.") from err


def _list_ranks(block: type[Block], num_inputs: int) -> Sequence[tuple[int, ...]]:
    """Return the ranks that each input of a block may have."""
    ranks = list(block.ranks)
    if block.variadic:
        ranks += [ranks[-1]] * (num_inputs - len(ranks))
    return ranks


def _check_ranks(
    ranks: Sequence[tuple[int, ...]], names: list[str], shapes: list[Shape], where: str
) -> None:
    if len(shapes) != len(ranks):
        raise ConfigError(f"{where}: inputs: found {len(shapes)}, expected {len(ranks)}.")
    for name, shape, allowed in zip(names, shapes, ranks, strict=True):
        if shape.rank not in allowed:
            expected = " or ".join(RANK_NAMES[rank] for rank in allowed)
            raise ConfigError(
                f"{where}: inputs: '{name}' is {RANK_NAMES[shape.rank]}, expected {expected}."
            )


def _find_axes(layer: LayerPlan, known: dict[str, Axes], where: str) -> Axes:
    """Return what the lengths of a layer's output come from, after a check of its inputs."""
    inputs = [known[name] for name in layer.inputs]
    if layer.block.elementwise and len(set(inputs)) > 1:
        found = ", ".join(
            f"'{name}' by {' and '.join(axes)}"
            for name, axes in zip(layer.inputs, inputs, strict=True)
        )
        raise ConfigError(
            f"{where}: inputs: found sequences or grids of different lengths ({found}), expected "
            "one place for each token in all of them; pool them to vectors first."
        )
    if layer.shape.rank == VECTOR:
        return ()
    if layer.shape.rank == GRID and layer.shapes[0].rank == SEQUENCE:
        return inputs[0] + inputs[1]
    if layer.block.resizes:
        options = ", ".join(f"{key} {value}" for key, value in sorted(layer.options.items()))
        return tuple(f"{axis} after {layer.block.__name__}({options})" for axis in inputs[0])
    return inputs[0]


def _find_head_axes(head: HeadConfig, known: dict[str, Axes], where: str) -> Axes:
    """Return what the lengths of a head's inputs come from, after a check of them."""
    found = [known[name] for name in head.inputs]
    for name, axes in zip(head.inputs, found, strict=True):
        if any(" after " in axis for axis in axes):
            raise ConfigError(
                f"{where}: inputs: '{name}' has other lengths than the text ({axes[0]}), expected "
                "a sequence with one place for each token."
            )
    if len(set(found)) > 1:
        places = " and ".join(" and ".join(axes) for axes in found)
        raise ConfigError(
            f"{where}: inputs: found layers over {places}, expected all of them over one text."
        )
    return found[0]


def _plan_head(
    name: str,
    head: HeadConfig,
    known: dict[str, Shape],
    axes: dict[str, Axes],
    where: str,
) -> HeadPlan:
    kind = head.head
    if kind not in HEADS.names():
        raise ConfigError(f"{where}: head: unknown head '{kind}'. {suggest(kind, HEADS.names())}")
    for layer in head.inputs:
        if layer not in known:
            raise ConfigError(f"{where}: inputs: unknown layer '{layer}'. {suggest(layer, known)}")
    options = check_options(HEADS.get(kind), head.options, where=where)
    shapes = [known[layer] for layer in head.inputs]
    _check_ranks(HEADS.get(kind).ranks, head.inputs, shapes, where)
    places = _find_head_axes(head, axes, where)
    return HeadPlan(name, HEADS.get(kind), options, head.inputs, shapes, places, head.weight)


def _refuse_unread(config: ModelConfig, where: str) -> None:
    read = {name for layer in config.layers for name in layer.inputs}
    read |= {name for head in config.heads.values() for name in head.inputs}
    for name in [*config.inputs, *(layer.name for layer in config.layers)]:
        if name not in read:
            raise ConfigError(
                f"{where}: layer or input '{name}': nothing reads it; remove it, or name it in the "
                "inputs of a layer or a head."
            )
