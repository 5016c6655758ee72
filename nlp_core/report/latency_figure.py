"""Draw times: P50, P90 and P99 of each model, and its throughput."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from nlp_core.report.figure import (
    FRAME_HEIGHT,
    GRID,
    LINE_HEIGHT,
    MARGIN_HEIGHT,
    OURS,
    build_figure,
    save_figure,
    styled,
)


class FigureLine(NamedTuple):
    """A model in the figure.

    Attributes:
        name: of the model.
        percentiles: milliseconds a sentence: P50, P90 and P99.
        rate: sentences a second, in batches.
    """

    name: str
    percentiles: Sequence[float]
    rate: float


def draw_latency(lines: Sequence[FigureLine], title: str) -> bytes:
    """Return the figure, as SVG.

    Args:
        lines: from top to bottom.
        title: what the times are of.
    """
    with styled():
        figure = build_figure(MARGIN_HEIGHT + FRAME_HEIGHT + LINE_HEIGHT * len(lines))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        _draw_percentiles(left, lines)
        _draw_rates(right, lines)
        figure.suptitle(title, fontsize=8)
        return save_figure(figure)


def _draw_percentiles(axes: Axes, lines: Sequence[FigureLine]) -> None:
    for place, line in enumerate(lines):
        values = line.percentiles
        axes.plot(values, [place] * len(values), color=OURS, lw=1.6)
        axes.plot(values, [place] * len(values), color=OURS, ls="", marker="o", ms=6.5, mec="white")
        axes.annotate(f"{values[0]:.2f}", (values[0], place), (0, 6), textcoords="offset points")
    _frame(axes, "ms a sentence at batch 1: P50, P90, P99, without featurising", lines)


def _draw_rates(axes: Axes, lines: Sequence[FigureLine]) -> None:
    rates = [line.rate for line in lines]
    axes.barh(range(len(lines)), rates, height=0.5, color=OURS)
    _frame(axes, "sentences a second at batch 32", lines)


def _frame(axes: Axes, title: str, lines: Sequence[FigureLine]) -> None:
    axes.set_title(title, loc="left")
    axes.set_yticks(range(len(lines)), [line.name for line in lines])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
