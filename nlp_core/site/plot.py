"""Small plots as SVG that take their colours from the page: seeds on a line, and curves."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

STRIP_WIDTH, STRIP_HEIGHT, EDGE = 150.0, 18.0, 8.0  # pixels, as all lengths here
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640.0, 260.0, 60.0, 30.0, 12.0
RIGHT = 90.0  # room for the last value of a line
NUM_TICKS = 6
LABEL_HEIGHT = 14.0
SAME = 1e-9

Points = Sequence[tuple[int, float]]


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


def draw_lines(lines: Mapping[str, Points], title: str) -> Markup:
    """Return curves over steps, the values on a logarithmic axis.

    Args:
        lines: the points of each line: step and a value above 0.
        title: what a screen reader says of it.
    """
    points = [point for line in lines.values() for point in line]
    last = max(max(step for step, _ in points), 1)
    logs = [math.log(value) for _, value in points]
    low, span = min(logs), max(max(logs) - min(logs), SAME)

    def place(step: int, value: float) -> tuple[float, float]:
        share = (math.log(value) - low) / span
        return (
            LEFT + step / last * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP),
        )

    parts = []
    for idx in range(NUM_TICKS):
        value = math.exp(low + span * idx / (NUM_TICKS - 1))
        parts.append(
            _draw_tick(
                LEFT, place(0, value)[1], f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
            )
        )
        step = round(last * idx / (NUM_TICKS - 1))
        parts.append(_write(place(step, value)[0], HEIGHT - BOTTOM + 18, f"{step:,}", "middle"))
    free = HEIGHT - BOTTOM - LABEL_HEIGHT / 2  # a name is above that of the line below it
    ordered = sorted(lines.items(), key=lambda line: line[1][-1][1])
    for idx, (name, line) in enumerate(ordered):
        placed = [place(*point) for point in line]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        x, y = placed[-1]
        y = min(y, free)
        free = y - LABEL_HEIGHT
        dots = [Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3"/>').format(*dot) for dot in placed]
        parts.append(
            Markup('<g class="line line-{}"><path d="{}"/>{}{}</g>').format(
                idx % 4, path, Markup("").join(dots), _write(x + 8, y + 4, name, "start")
            )
        )
    opening = Markup('<svg class="curve" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">')
    return opening.format(WIDTH, HEIGHT, title) + Markup("").join(parts) + Markup("</svg>")


def _draw_tick(x: float, y: float, text: str) -> Markup:
    line = Markup('<path class="axis" d="M{:g} {:.1f}H{:g}"/>').format(x, y, WIDTH - RIGHT)
    return line + _write(x - 6, y + 4, text, "end")


def _write(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )
