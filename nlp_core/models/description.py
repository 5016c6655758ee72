"""The nodes of a model graph, described before any data is read, and drawn.

Shape letters: B batch, T tokens, C characters in a word, W numbers.
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape

import torch
from pydantic import BaseModel

from nlp_core.blocks.base import BLOCKS, VECTOR
from nlp_core.heads.base import HEADS
from nlp_core.models.plan import LayerPlan, ModelPlan
from nlp_core.models.shapes import format_shape, shape_input


class Node(NamedTuple):
    """An input, a layer or a head."""

    sort: Literal["input", "layer", "head"]
    name: str
    what: str
    """The column, the block or the head."""
    shares: str | None
    """The layer whose parameters it uses, if it has none of its own."""
    options: list[str]
    """Those set in the model file, as text."""
    reads: list[str]
    """Keys of the nodes that it reads."""
    shape: str
    """Of its output; of a head, its input."""
    parameters: int | None
    """None: it depends on the data."""

    @property
    def key(self) -> str:
        """A name that is unique in the graph."""
        return f"{self.sort}_{self.name}"


def describe_plan(plan: ModelPlan) -> list[Node]:
    """Return the nodes of a model: inputs, layers in an order in which they can run, heads."""
    inputs = [
        Node("input", name, column, None, [], [], format_shape(shape_input(column)), None)
        for name, column in plan.inputs.items()
    ]
    heads = [
        Node(
            "head",
            name,
            HEADS.name_of(head.head),
            None,
            [*([f"task={head.task}"] if head.task else []), *_list_options(head.options)],
            [_key_of(layer, plan) for layer in head.inputs],
            ", ".join(map(format_shape, head.shapes)),
            None,
        )
        for name, head in plan.heads.items()
    ]
    return [*inputs, *(_describe_layer(layer, plan) for layer in plan.layers), *heads]


def count_layer(layer: LayerPlan) -> int | None:
    """Return the parameters of a layer: 0 if shared, None if they depend on a vocabulary."""
    if not layer.is_owner:
        return 0
    if any(shape.rank < VECTOR for shape in layer.shapes):
        return None
    with torch.device("meta"):
        block = layer.block(*(shape.dim for shape in layer.shapes), **layer.options)
    return sum(item.numel() for item in block.parameters())


def _describe_layer(layer: LayerPlan, plan: ModelPlan) -> Node:
    is_shared = not layer.is_owner
    return Node(
        "layer",
        layer.name,
        BLOCKS.name_of(layer.block),
        layer.owner if is_shared else None,
        [] if is_shared else _list_options(layer.options),
        [_key_of(name, plan) for name in layer.inputs],
        format_shape(layer.shape),
        count_layer(layer),
    )


def _key_of(name: str, plan: ModelPlan) -> str:
    return f"input_{name}" if name in plan.inputs else f"layer_{name}"


def _list_options(options: Mapping[str, object]) -> list[str]:
    return [f"{name}={_format(value)}" for name, value in options.items()]


def _format(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, BaseModel):
        fields = value.model_dump(exclude_unset=True)
        return f"{{{', '.join(f'{key}: {_format(item)}' for key, item in fields.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format, value))}]"
    return json.dumps(value)


LETTERS_A_LINE = 30
COLORS = {
    "input": "fill:#eef0f3,stroke:#6b7280,color:#111",
    "layer": "fill:#eaf2fb,stroke:#2563a8,color:#111",
    "head": "fill:#e6f4ea,stroke:#1e7b3c,color:#111",
}


def write_mermaid(nodes: Sequence[Node]) -> str:
    """Return the flowchart of the nodes that `describe_plan` returns.

    A box with a dashed border shares the parameters of the layer that it names.
    """
    lines = ["flowchart TD"]
    for node in nodes:
        opening, closing = ("([", "])") if node.sort == "input" else ("[", "]")
        text = "<br/>".join(escape(line, {'"': "#quot;"}) for line in _label(node))
        lines.append(f'  {node.key}{opening}"{text}"{closing}')
    lines += [f"  {other} --> {node.key}" for node in nodes for other in dict.fromkeys(node.reads)]
    for sort, colors in COLORS.items():
        keys = ",".join(node.key for node in nodes if node.sort == sort)
        lines += [f"  classDef {sort} {colors}", f"  class {keys} {sort}"]
    shared = ",".join(node.key for node in nodes if node.shares)
    if shared:
        lines += ["  classDef shared stroke-dasharray:4 3", f"  class {shared} shared"]
    return "\n".join(lines) + "\n"


def _label(node: Node) -> list[str]:
    what = f"shares {node.shares}" if node.shares else node.what
    options = textwrap.wrap(", ".join(node.options), LETTERS_A_LINE)
    shape = f"reads {node.shape}" if node.sort == "head" else node.shape
    return [node.name, what, *options, shape]
