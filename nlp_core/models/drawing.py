"""A model graph as a Mermaid flowchart, which GitHub draws in Markdown pages."""

import textwrap
from collections.abc import Sequence
from xml.sax.saxutils import escape

from nlp_core.models.description import Node

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
