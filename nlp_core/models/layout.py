"""Places for the nodes of a graph, in layers from top to bottom: the same for the same graph.

Each node stands below all that it reads. An edge over several layers passes through a place of its
own in each of them, so that it runs beside the nodes and not through them. The order in a layer is
found by sweeps that put each place at the mean of its neighbours, and the sweep with the fewest
crossings counts; then places move towards their neighbours as far as the order lets them.

Source: Sugiyama et al. 1981 (layered drawings); the moves are the isotonic regression of
    Ayer et al. 1955.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

ORDER_SWEEPS = 24
PLACE_SWEEPS = 12
PASS_WIDTH = 14.0
PASS_WEIGHT = 4.0


class Size(NamedTuple):
    """Width and height of a node."""

    width: float
    height: float


class Point(NamedTuple):
    """A place, from the top left."""

    x: float
    y: float


class Layout(NamedTuple):
    """Where everything stands.

    Attributes:
        centres: the centre of each node.
        routes: for each edge the points that it goes through, from the foot of a node to the head
            of another; between two points of one height it runs straight down.
        size: of the whole.
    """

    centres: dict[str, Point]
    routes: dict[tuple[str, str], list[Point]]
    size: Size


def lay_out(
    sizes: Mapping[str, Size],
    edges: Sequence[tuple[str, str]],
    *,
    gap: float = 24.0,
    drop: float = 44.0,
) -> Layout:
    """Place the nodes of a graph without cycles.

    Args:
        sizes: of each node, each behind those that it reads.
        edges: from a node to one that reads it; one that stands twice is drawn once.
        gap: least distance between two neighbours.
        drop: distance between two layers.
    """
    edges = list(dict.fromkeys(edges))
    levels = _find_levels(list(sizes), edges)
    chains = {edge: _chain(edge, levels) for edge in edges}
    links = [link for chain in chains.values() for link in pairwise(chain)]
    rows = _order(_fill_rows(levels, chains), links)
    widths = {name: size.width for name, size in sizes.items()}
    x = _place(rows, links, widths, gap)
    heights = [max(sizes[name].height for name in row if name in sizes) for row in rows]
    tops = [sum(heights[:level]) + level * drop for level in range(len(rows))]
    centres = {
        name: Point(x[name], tops[levels[name]] + heights[levels[name]] / 2) for name in sizes
    }
    routes = {}
    for (start, end), chain in chains.items():
        points = [Point(x[start], centres[start].y + sizes[start].height / 2)]
        for level, name in enumerate(chain[1:-1], start=levels[start] + 1):
            points += [Point(x[name], tops[level]), Point(x[name], tops[level] + heights[level])]
        points.append(Point(x[end], centres[end].y - sizes[end].height / 2))
        routes[start, end] = points
    width = max(centres[name].x + size.width / 2 for name, size in sizes.items())
    width = max([width, *(point.x for points in routes.values() for point in points)])
    return Layout(centres, routes, Size(width, tops[-1] + heights[-1]))


def _find_levels(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the layer of each node: as high as can be, but just above its first reader at the top.

    The nodes come each behind those that it reads.
    """
    levels: dict[str, int] = {}
    for name in names:
        levels[name] = max((levels[a] + 1 for a, b in edges if b == name), default=0)
    for name in names:
        if not any(b == name for _, b in edges):
            levels[name] = min((levels[b] - 1 for a, b in edges if a == name), default=0)
    return levels


def _chain(edge: tuple[str, str], levels: Mapping[str, int]) -> list[str]:
    """Return the places that an edge goes through, from node to node."""
    start, end = edge
    between = range(levels[start] + 1, levels[end])
    return [start, *(f"{start} {end} {level}" for level in between), end]


def _fill_rows(
    levels: Mapping[str, int], chains: Mapping[tuple[str, str], Sequence[str]]
) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(max(levels.values()) + 1)]
    for name, level in levels.items():
        rows[level].append(name)
    for (start, _), chain in chains.items():
        for level, name in enumerate(chain[1:-1], start=levels[start] + 1):
            rows[level].append(name)
    return rows


def _order(rows: list[list[str]], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the rows in an order with few crossings."""
    above, below = _find_neighbours(links)
    best, fewest = rows, _count_crossings(rows, links)
    for sweep in range(ORDER_SWEEPS):
        neighbours, step = (above, 1) if sweep % 2 == 0 else (below, -1)
        rows = [list(row) for row in rows]
        for level in range(len(rows))[::step]:
            position = {name: idx for row in rows for idx, name in enumerate(row)}
            wanted = {
                name: _mean([position[other] for other in neighbours.get(name, [])], idx)
                for idx, name in enumerate(rows[level])
            }
            rows[level].sort(key=wanted.__getitem__)
        crossings = _count_crossings(rows, links)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _find_neighbours(
    links: Sequence[tuple[str, str]],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for start, end in links:
        above.setdefault(end, []).append(start)
        below.setdefault(start, []).append(end)
    return above, below


def _count_crossings(rows: list[list[str]], links: Sequence[tuple[str, str]]) -> int:
    place = {name: (level, idx) for level, row in enumerate(rows) for idx, name in enumerate(row)}
    spans = [(place[start], place[end][1]) for start, end in links]
    return sum(
        first[0][0] == second[0][0] and (first[0][1] - second[0][1]) * (first[1] - second[1]) < 0
        for idx, first in enumerate(spans)
        for second in spans[:idx]
    )


def _place(
    rows: list[list[str]],
    links: Sequence[tuple[str, str]],
    widths: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """Return the horizontal centre of each place; the leftmost edge of all is 0."""
    above, below = _find_neighbours(links)
    x: dict[str, float] = {}
    for row in rows:
        for idx, name in enumerate(row):
            x[name] = x[row[idx - 1]] + _distance(row[idx - 1], name, widths, gap) if idx else 0.0
    for sweep in range(PLACE_SWEEPS):
        near = (above, below)[sweep % 2]
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [_mean([x[other] for other in near.get(name, [])], x[name]) for name in row]
            weights = [1.0 if name in widths else PASS_WEIGHT for name in row]
            steps = [_distance(a, b, widths, gap) for a, b in pairwise(row)]
            x.update(zip(row, space_out(wanted, steps, weights), strict=True))
    left = min(x[name] - widths.get(name, PASS_WIDTH) / 2 for name in x)
    return {name: value - left for name, value in x.items()}


def _distance(first: str, second: str, widths: Mapping[str, float], gap: float) -> float:
    return (widths.get(first, PASS_WIDTH) + widths.get(second, PASS_WIDTH)) / 2 + gap


def space_out(
    wanted: Sequence[float], steps: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Return the places nearest to the wanted ones that keep order and distances.

    They minimise sum_i weight_i * (place_i - wanted_i)^2.

    Args:
        wanted: where each would stand by itself.
        steps: least distance of each to the one before it, from the second on.
        weights: above 0.
    """
    offsets = [sum(steps[:idx]) for idx in range(len(wanted))]
    groups: list[tuple[float, float, int]] = []
    for place, offset, weight in zip(wanted, offsets, weights, strict=True):
        group = (place - offset, weight, 1)
        while groups and groups[-1][0] > group[0]:
            mean, mass, count = groups.pop()
            total = mass + group[1]
            group = ((mean * mass + group[0] * group[1]) / total, total, count + group[2])
        groups.append(group)
    level = [mean for mean, _, count in groups for _ in range(count)]
    return [value + offset for value, offset in zip(level, offsets, strict=True)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
