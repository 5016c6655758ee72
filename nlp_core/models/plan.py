"""Plan a model graph: order, sharing and shapes of its layers, before any data is read."""

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nlp_core.blocks.base import BLOCKS, GRID, SEQUENCE, VECTOR, Block, Shape
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.blocks.option import check_options
from nlp_core.config.base import check_known
from nlp_core.config.column import SINGLE_TEXTS, TEXTS, WHOLE_TEXTS
from nlp_core.config.model import HeadConfig, LayerConfig, ModelConfig, find_axes, read_model
from nlp_core.encoders.encoder_decoder import PretrainedEncoderDecoder
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads.base import HEADS, Head
from nlp_core.kinds import HISTORY, KINDS, SENTENCES
from nlp_core.models.shapes import (
    check_head_tasks,
    check_names,
    check_ranks,
    check_read,
    format_shape,
    shape_input,
    sort_layers,
)

TOWERS = (
    ("tokens_a", "tokens_a.characters", SINGLE_TEXTS[0]),
    ("tokens_b", "tokens_b.characters", SINGLE_TEXTS[1]),
)
"""The columns that a tower over the first text may read, and those of one over the second."""
Axes = tuple[str, ...]
"""The source of the lengths of each token axis: a column, changed by blocks that resize."""


@dataclass(frozen=True)
class LayerPlan:
    """A checked layer."""

    name: str
    owner: str
    """The layer whose parameters it uses: itself, or the one it shares."""
    block: type[Block]
    options: dict[str, Any]
    inputs: list[str]
    """Model inputs or layers."""
    shapes: list[Shape]
    shape: Shape

    @property
    def is_owner(self) -> bool:
        return self.owner == self.name


@dataclass(frozen=True)
class HeadPlan:
    """A checked head."""

    name: str
    head: type[Head]
    options: dict[str, Any]
    inputs: list[str]
    shapes: list[Shape]
    axes: Axes
    weight: float
    task: str | None = None
    """None: the only one."""


@dataclass(frozen=True)
class ModelPlan:
    """A model file that can be built."""

    where: str
    """Path of the file, for error messages."""
    inputs: dict[str, str]
    """The column of each model input."""
    layers: list[LayerPlan]
    """Each follows its inputs."""
    heads: dict[str, HeadPlan]

    def __deepcopy__(self, memo: object) -> "ModelPlan":
        return self

    @property
    def raw_layers(self) -> list[LayerPlan]:
        """The layers that read columns of the task."""
        return [layer for layer in self.layers if layer.shapes[0].rank < VECTOR]

    @property
    def vector_tables(self) -> list[str]:
        """The tables of word vectors that the layers read, sorted."""
        names = {layer.options.get("vectors") for layer in self.layers} - {None}
        return sorted(map(str, names))

    @property
    def files(self) -> list[Path]:
        """The files of the project that training of the model reads, sorted."""
        names = {
            str(layer.options[name])
            for layer in self.layers
            for name in layer.block.files
            if name in layer.options
        }
        return [Path(name) for name in sorted(names)]

    def find_missing(self, columns: Container[str]) -> dict[str, str]:
        """Return the inputs whose columns are not among those of a task."""
        inputs = self.inputs.items()
        return {name: column for name, column in inputs if find_source(column) not in columns}

    @property
    def grouped(self) -> bool:
        """Whether a training batch must hold whole groups."""
        return any(head.head.grouped for head in self.heads.values())

    @property
    def writing_layer(self) -> LayerPlan | None:
        """The layer whose decoder writes answers; None: there is none."""
        names = {head.inputs[0] for head in self.heads.values() if head.head.writes_pieces}
        return next((layer for layer in self.layers if layer.name in names), None)

    @property
    def tasks(self) -> list[str]:
        """The tasks of the heads, sorted; empty if the model serves any one task."""
        return sorted({head.task for head in self.heads.values() if head.task is not None})

    def for_task(self, task: str) -> "ModelPlan":
        """Return the part of the model that serves a task: its heads, and what they read.

        Raises:
            ConfigError: the heads name tasks, but not this one.
        """
        if not self.tasks:
            return self
        if task not in self.tasks:
            raise ConfigError(
                f"{self.where}: heads: found no head for the task '{task}'. "
                f"{suggest(task, self.tasks)}"
            )
        heads = {name: head for name, head in self.heads.items() if head.task == task}
        part = self.cut_below({name for head in heads.values() for name in head.inputs})
        return replace(part, heads=heads)

    def cut_below(self, names: Collection[str]) -> "ModelPlan":
        """Return some layers and all that they read, without heads."""
        needed = set(names)
        for layer in reversed(self.layers):
            if layer.name in needed:
                needed |= set(layer.inputs)
        layers = [layer for layer in self.layers if layer.name in needed]
        inputs = {name: column for name, column in self.inputs.items() if name in needed}
        return ModelPlan(self.where, inputs, layers, {})

    @property
    def kinds(self) -> list[str]:
        """The kinds of task that all heads serve: those on pairs if it reads two texts.

        Kinds with a history come last: a model that does not read it serves the others first.
        """
        heads = [head.head for head in self.heads.values()]
        names = frozenset.intersection(*(head.kinds for head in heads))
        targets = {head.target for head in heads}
        kinds = [kind for kind in map(KINDS.get, sorted(names)) if targets >= {*kind.target_names}]
        columns = {*self.inputs.values()}
        if columns & {*SINGLE_TEXTS}:
            return [kind.name for kind in kinds if columns & {*kind.texts}]
        if TEXTS in columns:
            return [kind.name for kind in kinds if kind.texts]
        if any(column.startswith(HISTORY) for column in columns):
            kinds = [kind for kind in kinds if kind.has_history]
        kinds = [kind for kind in kinds if kind.has_sentences == (SENTENCES in columns)]
        kinds = sorted(kinds, key=lambda kind: kind.has_history)
        num_texts = 2 if any(column.startswith("tokens_b") for column in columns) else 1
        return [kind.name for kind in kinds if kind.num_texts == num_texts]


def find_source(column: str) -> str:
    """Return the task's column of a model's input, which may be its characters."""
    return column.removesuffix(".characters")


def read_plan(path: Path) -> ModelPlan:
    return plan_model(read_model(path), where=str(path))


def plan_model(config: ModelConfig, *, where: str) -> ModelPlan:
    """Check a model graph and infer its shapes.

    In `block` the name of a layer wins over that of a block, so new blocks change no model file.

    Raises:
        ConfigError: a name is taken or unknown, a cycle, a layer that nothing reads, a wrong rank,
            widths or lengths that do not match, a wrong option.
    """
    check_names(config, where)
    shapes = {name: shape_input(column) for name, column in config.inputs.items()}
    axes: dict[str, Axes] = {name: find_axes(column) for name, column in config.inputs.items()}
    plans: dict[str, LayerPlan] = {}
    for layer in sort_layers(config, where):
        place = f"{where}: layer '{layer.name}'"
        plans[layer.name] = _plan_layer(layer, plans, shapes, place)
        shapes[layer.name] = plans[layer.name].shape
        axes[layer.name] = _find_axes(plans[layer.name], axes, place)
    heads = {}
    for name, head in config.heads.items():
        place = f"{where}: head '{name}'"
        heads[name] = _plan_head(name, head, shapes, axes, place)
        if heads[name].head.causal:
            _check_causal(heads[name], plans, place)
        if heads[name].head.writes_pieces:
            _check_decoder(heads[name], plans, place)
    check_read(config, where)
    check_head_tasks(config, where)
    _check_encoders(config, plans, where)
    plan = ModelPlan(where, dict(config.inputs), list(plans.values()), heads)
    _check_towers(plan)
    return plan


def _plan_layer(
    layer: LayerConfig, plans: dict[str, LayerPlan], known: dict[str, Shape], where: str
) -> LayerPlan:
    shapes = [known[name] for name in layer.inputs]
    shared = plans.get(layer.block)
    if shared is not None:
        if layer.options:
            is_block = shared.name in BLOCKS.names()
            hint = ", or rename that layer if you mean the block" if is_block else ""
            raise ConfigError(
                f"{where}: found the options {', '.join(sorted(layer.options))}; the layer shares "
                f"the parameters of '{shared.name}' and can have none; remove them{hint}."
            )
        owner, block, options = shared.owner, shared.block, shared.options
    else:
        allowed = [*BLOCKS.names(), *plans]
        check_known(f"{where}: block", "block", layer.block, allowed, ConfigError)
        owner, block = layer.name, BLOCKS.get(layer.block)
        options = check_options(block, layer.options, where=where)
    check_ranks(block, layer.inputs, shapes, where)
    if shared is not None and [item.dim for item in shapes] != [s.dim for s in shared.shapes]:
        raise ConfigError(
            f"{where}: inputs: found widths {[s.dim for s in shapes]}, expected those of "
            f"'{shared.name}', whose parameters it shares: {[s.dim for s in shared.shapes]}."
        )
    try:
        shape = block.infer(*shapes, **options)
    except ConfigError as err:
        pairs = zip(layer.inputs, map(format_shape, shapes), strict=True)
        read = ", ".join(map(" ".join, pairs))
        raise ConfigError(f"{where}: {err} Its inputs are {read}.") from err
    return LayerPlan(layer.name, owner, block, options, layer.inputs, shapes, shape)


def _find_axes(layer: LayerPlan, known: dict[str, Axes], where: str) -> Axes:
    """Check the lengths of a layer's inputs and return those of its output."""
    inputs = [known[name] for name in layer.inputs]
    for group in layer.block.list_aligned(len(inputs), layer.options):
        if len({inputs[idx] for idx in group}) > 1:
            found = [f"'{layer.inputs[idx]}' by {' and '.join(inputs[idx])}" for idx in group]
            hint = "; pool them to vectors first" if layer.block.elementwise else ""
            raise ConfigError(
                f"{where}: inputs: found sequences or grids of different lengths "
                f"({', '.join(found)}), expected the same tokens in all of them{hint}."
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
    """Check the lengths of a head's inputs and return them."""
    found = [known[name] for name in head.inputs]
    for name, axes in zip(head.inputs, found, strict=True):
        if any(" after " in axis for axis in axes):
            raise ConfigError(
                f"{where}: inputs: '{name}' does not have the text's lengths ({axes[0]}), expected "
                "a sequence with one place per token."
            )
    if len(set(found)) > 1:
        places = " and ".join(" and ".join(axes) for axes in found)
        raise ConfigError(
            f"{where}: inputs: found layers over {places}, expected layers over one text."
        )
    return found[0]


def _plan_head(
    name: str, head: HeadConfig, known: dict[str, Shape], axes: dict[str, Axes], where: str
) -> HeadPlan:
    check_known(f"{where}: head", "head", head.head, HEADS.names(), ConfigError)
    for layer in head.inputs:
        check_known(f"{where}: inputs", "layer", layer, known, ConfigError)
    kind = HEADS.get(head.head)
    options = check_options(kind, head.options, where=where)
    shapes = [known[layer] for layer in head.inputs]
    check_ranks(kind, head.inputs, shapes, where)
    places = _find_head_axes(head, axes, where)
    if kind.reads_texts and places != (TEXTS,):
        raise ConfigError(
            f"{where}: inputs: found a layer over {' and '.join(places)}, expected one over "
            f"{TEXTS}, the input of a pretrained encoder."
        )
    return HeadPlan(name, kind, options, head.inputs, shapes, places, head.weight, head.task)


def _check_causal(head: HeadPlan, plans: Mapping[str, LayerPlan], where: str) -> None:
    """Raise if a layer below a head looks ahead, or its `vocabulary` has another width."""
    waiting, seen = list(head.inputs), set()
    while waiting:
        name = waiting.pop()
        layer = plans.get(name)
        if layer is None or name in seen:
            continue
        if not layer.block.is_causal(layer.options):
            raise ConfigError(
                f"{where}: found the layer '{name}' of block {BLOCKS.name_of(layer.block)} below "
                "it, which reads later tokens and so the word to predict; expected only blocks "
                "that read earlier tokens, such as forward_lstm."
            )
        seen.add(name)
        waiting += layer.inputs
    name = head.options["vocabulary"]
    tables = {key: plans[key] for key in seen if issubclass(plans[key].block, WordEmbedding)}
    if name not in tables:
        raise ConfigError(
            f"{where}: vocabulary: found '{name}', expected the name of a word_embedding layer "
            f"below the head. {suggest(name, tables)}"
        )
    width, (read,) = tables[name].shape.dim, head.shapes
    if head.options.get("tied", True) and width != read.dim:
        raise ConfigError(
            f"{where}: tied: found an input of width {read.dim} and the embedding '{name}' "
            f"of width {width}, expected equal widths; add a linear layer of width {width} before "
            "the head, or set tied to false."
        )


def _check_decoder(head: HeadPlan, plans: Mapping[str, LayerPlan], where: str) -> None:
    """Raise if a head that writes with the decoder of its layer reads another layer."""
    (name,) = head.inputs
    if name not in plans or not issubclass(plans[name].block, PretrainedEncoderDecoder):
        raise ConfigError(
            f"{where}: inputs: found '{name}', expected a layer of the block "
            "pretrained_encoder_decoder, whose decoder writes."
        )


def _check_towers(plan: ModelPlan) -> None:
    """Raise if a tower of a head reads more than its own text."""
    for name, head in plan.heads.items():
        for layer, texts in zip(head.inputs, TOWERS if head.head.separate else (), strict=False):
            read = plan.cut_below([layer]).inputs
            if wrong := {item: column for item, column in read.items() if column not in texts}:
                item, column = next(iter(wrong.items()))
                raise ConfigError(
                    f"{plan.where}: head '{name}': inputs: found '{layer}', which reads '{column}' "
                    f"(input '{item}'), expected a layer that only reads {' or '.join(texts)}: a "
                    "query and a passage have a tower each."
                )


def _check_encoders(config: ModelConfig, plans: Mapping[str, LayerPlan], where: str) -> None:
    """Raise if several tokenizers cut the same texts: their lengths would differ."""
    for column in WHOLE_TEXTS:
        inputs = {name for name, read in config.inputs.items() if read == column}
        owners = {plan.owner for plan in plans.values() if inputs & set(plan.inputs)}
        if len(owners) > 1:
            raise ConfigError(
                f"{where}: found the layers {' and '.join(sorted(owners))} on {column}, expected "
                "one encoder; share its parameters, or read tokens.pieces."
            )
