"""A model graph as a picture: SVG, or text for Mermaid. The same bytes for the same model.

No program and no font file is needed: widths follow from a monospaced font, and places from
nlp_core.models.layout.
"""

import textwrap
from collections.abc import Sequence
from xml.sax.saxutils import escape

from nlp_core.models.description import Node
from nlp_core.models.layout import Layout, Point, Size, lay_out

FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
FONT_SIZE = 12
LETTER = 7.3  # the widest of those fonts at 12 px
LINE = 16.0
PADDING = 10.0
MARGIN = 24.0
LETTERS_A_LINE = 30
TITLE_LETTERS = 60
GREY = "#6b7280"
FILLS = {"input": "#eef0f3", "layer": "#eaf2fb", "head": "#e6f4ea"}
STROKES = {"input": GREY, "layer": "#2563a8", "head": "#1e7b3c"}
LEGEND = "B examples, T tokens, C characters. Dashed: shares the parameters of the layer it names."


def draw_svg(nodes: Sequence[Node], title: str) -> str:
    """Return a picture of a model.

    Args:
        nodes: as `describe_plan` returns them.
        title: what stands above it.
    """
    texts = {node.key: write_lines(node) for node in nodes}
    sizes = {key: _measure(lines) for key, lines in texts.items()}
    edges = [(other, node.key) for node in nodes for other in node.reads]
    layout = lay_out(sizes, edges)
    columns = max(TITLE_LETTERS, int(layout.size.width / LETTER))
    above = [*textwrap.wrap(title, columns), *textwrap.wrap(LEGEND, columns)]
    top = MARGIN + LINE * len(above) + LINE
    text_width = max(len(line) for line in above) * LETTER
    width = max(layout.size.width, text_width) + 2 * MARGIN
    shift = Point((width - layout.size.width) / 2, top)
    height = layout.size.height + top + MARGIN
    body = [_draw_text(line, MARGIN, MARGIN + LINE * idx) for idx, line in enumerate(above)]
    body += [_draw_edge(points, shift) for points in layout.routes.values()]
    body += [_draw_node(node, texts[node.key], layout, sizes[node.key], shift) for node in nodes]
    return "\n".join([_open(width, height), *body, "</svg>", ""])


def write_lines(node: Node) -> list[str]:
    """Return what a node's box says: name, what it is, options, shape."""
    what = f"shares {node.shares}" if node.shares else node.what
    options = textwrap.wrap(", ".join(node.options), LETTERS_A_LINE)
    shape = f"reads {node.shape}" if node.sort == "head" else node.shape
    return [node.name, what, *options, shape]


def write_mermaid(nodes: Sequence[Node]) -> str:
    """Return a model as a flowchart of Mermaid, which Markdown pages of GitHub draw."""
    lines = ["flowchart TD"]
    for node in nodes:
        opening, closing = ("([", "])") if node.sort == "input" else ("[", "]")
        text = "<br/>".join(escape(line, {'"': "#quot;"}) for line in write_lines(node))
        lines.append(f'  {node.key}{opening}"{text}"{closing}')
    lines += [f"  {other} --> {node.key}" for node in nodes for other in dict.fromkeys(node.reads)]
    for sort in FILLS:
        keys = ",".join(node.key for node in nodes if node.sort == sort)
        lines.append(f"  classDef {sort} fill:{FILLS[sort]},stroke:{STROKES[sort]},color:#111")
        lines.append(f"  class {keys} {sort}")
    shared = ",".join(node.key for node in nodes if node.shares)
    if shared:
        lines += ["  classDef shared stroke-dasharray:4 3", f"  class {shared} shared"]
    return "\n".join(lines) + "\n"


def _measure(lines: Sequence[str]) -> Size:
    width = max(len(line) for line in lines) * LETTER + 2 * PADDING
    return Size(width, LINE * len(lines) + PADDING)


def _open(width: float, height: float) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    font = f'font-family="{FONT}" font-size="{FONT_SIZE}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
    )


def _draw_text(text: str, x: float, y: float, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#111827"{attributes}>{escape(text)}</text>'


def _draw_edge(points: Sequence[Point], shift: Point) -> str:
    moved = [Point(point.x + shift.x, point.y + shift.y) for point in points]
    path = [f"M{moved[0].x:.1f} {moved[0].y:.1f}"]
    for idx in range(1, len(moved), 2):
        start, end = moved[idx - 1], moved[idx]
        half = (start.y + end.y) / 2
        path.append(f"C{start.x:.1f} {half:.1f} {end.x:.1f} {half:.1f} {end.x:.1f} {end.y:.1f}")
        if idx + 1 < len(moved):
            path.append(f"V{moved[idx + 1].y:.1f}")
    drawn = " ".join(path)
    return f'<path d="{drawn}" fill="none" stroke="{GREY}" marker-end="url(#arrow)"/>'


def _draw_node(node: Node, lines: Sequence[str], layout: Layout, size: Size, shift: Point) -> str:
    centre = layout.centres[node.key]
    x, y = centre.x + shift.x, centre.y + shift.y - size.height / 2
    dashes = ' stroke-dasharray="4 3"' if node.shares else ""
    radius = 16 if node.sort == "input" else 4
    box = (
        f'<rect x="{x - size.width / 2:.1f}" y="{y:.1f}" width="{size.width:.1f}" '
        f'height="{size.height:.1f}" rx="{radius}" fill="{FILLS[node.sort]}" '
        f'stroke="{STROKES[node.sort]}"{dashes}/>'
    )
    texts = []
    for idx, line in enumerate(lines):
        weight = ' font-weight="bold"' if idx == 0 else ""
        attributes = f' text-anchor="middle"{weight}'
        texts.append(_draw_text(line, x, y + PADDING / 2 + LINE * idx + FONT_SIZE, attributes))
    return "\n".join(["<g>", box, *texts, "</g>"])
