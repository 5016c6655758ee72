"""Pictures as SVG: the graph of a model, seeds on a line, and curves.

In a graph, nodes are in layers by their longest way from an input. An edge that skips layers passes
them in gaps between the boxes. Colours come from the page's style sheet.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.models.description import Node

BOX_HEIGHT, LINE = 50, 15  # pixels
PAD, GAP, GAP_LAYER, MARGIN = 18, 16, 20, 6
BEND_WIDTH = 10  # of the gap that an edge passes
SWEEPS = 6
STRIP_WIDTH, STRIP_HEIGHT, EDGE = 150.0, 18.0, 8.0  # pixels
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640.0, 260.0, 60.0, 30.0, 12.0
RIGHT = 90.0  # least room for the name of a line, after its last point
LETTER = 6.5  # width of a letter of 12 pixels
NUM_TICKS = 6
LABEL_HEIGHT = 14.0
SAME = 1e-9

STYLE = """
text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: #16181d }
.name { font-weight: 600 }
path { fill: none; stroke: #6b7280 }
rect { fill: #eef0f3; stroke: #6b7280 }
.layer rect { fill: #eaf2fb; stroke: #2563a8 }
.head rect { fill: #e6f4ea; stroke: #1e7b3c }
.shared rect { stroke-dasharray: 4 3 }
"""
"""Of a picture that no page styles."""

Points = Sequence[tuple[int, float]]


class Box(NamedTuple):
    """A node with its place; an edge's bend has no node and no text."""

    node: Node | None
    x: float
    y: float
    width: float
    height: float


def draw_model(nodes: Sequence[Node]) -> Markup:
    """Return the graph of a model, whose nodes are in an order in which they can run."""
    edges, layers = _layer(nodes)
    boxes = _place(_order(layers, edges), {node.key: node for node in nodes})
    width = max(box.x + box.width / 2 for box in boxes.values()) + MARGIN
    height = max(box.y + box.height for box in boxes.values()) + MARGIN
    lines = [
        _draw_edge(boxes[start], boxes[end]) for end, starts in edges.items() for start in starts
    ]
    lines += [_draw_box(box, box.node) for box in boxes.values() if box.node is not None]
    opening = Markup(
        '<svg class="model" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" aria-hidden="true">'
    )
    return opening.format(width, height, width) + Markup("\n").join(lines) + Markup("</svg>")


def write_picture(nodes: Sequence[Node]) -> str:
    """Return the graph of a model as a file of its own, which browsers and editors open."""
    head, _, rest = str(draw_model(nodes)).partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{rest}\n'


def _layer(nodes: Sequence[Node]) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return what each node or bend reads, and the keys of each layer."""
    depth: dict[str, int] = {}
    edges: dict[str, list[str]] = {}
    layers: list[list[str]] = []
    for node in nodes:
        depth[node.key] = 1 + max((depth[key] for key in node.reads), default=-1)
        layers += [[] for _ in range(depth[node.key] + 1 - len(layers))]
        edges[node.key] = []
        for start in dict.fromkeys(node.reads):
            last = start
            for level in range(depth[start] + 1, depth[node.key]):
                bend = f"{start}>{level}"  # edges from one node share their bends
                if bend not in edges:
                    layers[level].append(bend)
                    edges[bend] = [last]
                last = bend
            edges[node.key].append(last)
        layers[depth[node.key]].append(node.key)
    return edges, layers


def _order(layers: Sequence[list[str]], edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the layers with each node near the middle of its neighbours.

    Source: Sugiyama et al. 1981 (visual understanding of hierarchical systems), barycentres.
    """
    reading: dict[str, list[str]] = {key: [] for key in edges}
    for end, starts in edges.items():
        for start in starts:
            reading[start].append(end)
    found = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        is_down = sweep % 2 == 0
        neighbours: Mapping[str, Sequence[str]] = edges if is_down else reading
        for layer in found if is_down else reversed(found):
            place = {
                key: (idx + 0.5) / len(other) for other in found for idx, key in enumerate(other)
            }
            middle = {
                key: sum(place[other] for other in neighbours[key]) / len(neighbours[key])
                if neighbours[key]
                else place[key]
                for key in layer
            }
            layer.sort(key=lambda key: middle[key])
    return found


def _place(layers: Sequence[Sequence[str]], nodes: Mapping[str, Node]) -> dict[str, Box]:
    widths = {
        key: PAD + LETTER * max(map(len, _label(nodes[key]))) if key in nodes else BEND_WIDTH
        for layer in layers
        for key in layer
    }
    totals = [sum(widths[key] for key in layer) + GAP * (len(layer) - 1) for layer in layers]
    boxes = {}
    for level, layer in enumerate(layers):
        x = MARGIN + (max(totals) - totals[level]) / 2
        y = MARGIN + level * (BOX_HEIGHT + GAP_LAYER)
        for key in layer:
            width = widths[key]
            boxes[key] = Box(nodes.get(key), x + width / 2, y, width, BOX_HEIGHT)
            x += width + GAP
    return boxes


def _label(node: Node) -> list[str]:
    what = f"{node.what}, shares {node.shares}" if node.shares else node.what
    return [node.name, what, f"reads {node.shape}" if node.sort == "head" else node.shape]


def _draw_edge(start: Box, end: Box) -> Markup:
    y = start.y + start.height
    half = (y + end.y) / 2
    path = f"M{start.x:.0f} {y:.0f}C{start.x:.0f} {half:.0f} {end.x:.0f} {half:.0f} "
    path += f"{end.x:.0f} {end.y:.0f}"
    if end.node is None:
        path += f"V{end.y + end.height:.0f}"
    return Markup('<path d="{}"/>').format(path)


def _draw_box(box: Box, node: Node) -> Markup:
    left = box.x - box.width / 2
    texts = [
        Markup('<text x="{:.0f}" y="{:.0f}"{}>{}</text>').format(
            box.x, box.y + LINE * (idx + 1), Markup(' class="name"') if idx == 0 else "", line
        )
        for idx, line in enumerate(_label(node))
    ]
    shape = Markup('<rect x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{}" rx="{}"/>').format(
        left, box.y, box.width, box.height, 16 if node.sort == "input" else 4
    )
    sort = f"{node.sort} shared" if node.shares else node.sort
    return Markup('<g class="{}">{}{}</g>').format(sort, shape, Markup("").join(texts))


def draw_strip(values: Sequence[float], published: float | None = None) -> Markup:
    """Return a line with a dot for each seed, a tick at their mean and one at a published number.

    The numbers are in the table next to it, so the picture is hidden from screen readers.
    """
    ends = [*values, *([] if published is None else [published])]
    low, high = min(ends), max(ends)

    def place(value: float) -> float:
        if high - low < SAME:
            return STRIP_WIDTH / 2
        return EDGE + (value - low) / (high - low) * (STRIP_WIDTH - 2 * EDGE)

    middle = STRIP_HEIGHT / 2
    parts = [Markup('<path class="axis" d="M0 {:g}H{:g}"/>').format(middle, STRIP_WIDTH)]
    ticks = {"published": published, "mean": sum(values) / len(values)}
    for name, value in ticks.items():
        if value is not None:
            parts.append(
                Markup('<path class="{}" d="M{:.1f} 1V{:g}"/>').format(
                    name, place(value), STRIP_HEIGHT - 1
                )
            )
    parts += [
        Markup('<circle cx="{:.1f}" cy="{:g}" r="3.5"/>').format(place(value), middle)
        for value in values
    ]
    opening = Markup('<svg class="strip" viewBox="0 0 {:g} {:g}" width="{:g}" aria-hidden="true">')
    return (
        opening.format(STRIP_WIDTH, STRIP_HEIGHT, STRIP_WIDTH)
        + Markup("").join(parts)
        + Markup("</svg>")
    )


def draw_lines(lines: Mapping[str, Points], title: str, *, is_log: bool = False) -> Markup:
    """Return curves over steps; on a logarithmic axis all values must be above 0."""
    width = WIDTH - LEFT - max(RIGHT, 12 + LETTER * max(map(len, lines)))
    shift, unshift = (math.log, math.exp) if is_log else (float, float)
    points = [point for line in lines.values() for point in line]
    last = max(max(step for step, _ in points), 1)
    heights = [shift(value) for _, value in points]
    low, span = min(heights), max(max(heights) - min(heights), SAME)

    def place(step: int, value: float) -> tuple[float, float]:
        share = (shift(value) - low) / span
        return (
            LEFT + step / last * width,
            HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP),
        )

    parts = []
    for idx in range(NUM_TICKS):
        value = unshift(low + span * idx / (NUM_TICKS - 1))
        text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        y = place(0, value)[1]
        axis = Markup('<path class="axis" d="M{:g} {:.1f}H{:g}"/>').format(LEFT, y, LEFT + width)
        parts += [axis, _write(LEFT - 6, y + 4, text, "end")]
        step = round(last * idx / (NUM_TICKS - 1))
        parts.append(_write(place(step, value)[0], HEIGHT - BOTTOM + 18, f"{step:,}", "middle"))
    ordered = sorted(lines.items(), key=lambda line: line[1][-1][1])
    names = _spread([place(*line[-1])[1] for _, line in ordered])
    for idx, ((name, line), name_y) in enumerate(zip(ordered, names, strict=True)):
        placed = [place(*point) for point in line]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dots = [Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3"/>').format(*dot) for dot in placed]
        label = _write(placed[-1][0] + 8, name_y + 4, name, "start")
        parts.append(
            Markup('<g class="line line-{}"><path d="{}"/>{}{}</g>').format(
                idx % 4, path, Markup("").join(dots), label
            )
        )
    opening = Markup('<svg class="curve" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">')
    return opening.format(WIDTH, HEIGHT, title) + Markup("").join(parts) + Markup("</svg>")


def _spread(heights: Sequence[float]) -> list[float]:
    """Return where names of lines go, from the lowest line up, so that none covers another."""
    spread, free = [], HEIGHT - BOTTOM - LABEL_HEIGHT / 2
    for y in heights:
        spread.append(min(y, free))
        free = spread[-1] - LABEL_HEIGHT
    used = TOP - LABEL_HEIGHT
    for idx in reversed(range(len(spread))):  # what went over the top comes down again
        spread[idx] = used = max(spread[idx], used + LABEL_HEIGHT)
    return spread


def _write(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )
