"""The section of a report on pretrained cells, with their curves."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from nlp_core.config.pretraining import EncoderConfig
from nlp_core.report.figure import (
    GRID,
    HONEST,
    OURS,
    PUBLISHED,
    QUIET,
    build_figure,
    save_figure,
    styled,
)
from nlp_core.report.markdown import render_rows
from nlp_core.report.results import CellResult

Curves = dict[str, dict[str, list[tuple[int, float]]]]
"""For each encoder and each text its points: step and perplexity."""

COLORS = (OURS, HONEST, PUBLISHED, QUIET)
PANEL_HEIGHT = 2.6  # inches


def render_encoders(cells: Mapping[str, CellResult], encoders: Mapping[str, EncoderConfig]) -> str:
    """Return what pretrained cells were made of."""
    header = ["encoder", "begins with", "corpus", "steps of only the head", "steps", "seeds"]
    header.append("parameters")
    rows = []
    for name, cell in cells.items():
        config = encoders[name]
        head = str(config.head_start.steps) if config.head_start else ""
        seeds = ", ".join(map(str, cell.seeds))
        row = [f"`{name}`", cell.model, config.data, head, str(config.num_steps), seeds]
        rows.append([*row, f"{cell.parameters['total']:,}"])
    return render_rows(header, rows)


def draw_encoders(curves: Curves, encoders: Mapping[str, EncoderConfig]) -> bytes:
    """Return a figure with a panel for each encoder and a line for each text, as SVG."""
    with styled():
        figure = build_figure(PANEL_HEIGHT * max(len(curves), 1) + 0.6)
        figure.suptitle("Held-out masked perplexity, first seed", fontsize=12, fontweight="bold")
        for idx, (name, lines) in enumerate(sorted(curves.items())):
            start = encoders[name].head_start
            axes = figure.add_subplot(len(curves), 1, idx + 1)
            _draw_panel(axes, name, lines, start.steps if start else 0)
        return save_figure(figure)


def _draw_panel(
    axes: Axes, name: str, lines: Mapping[str, Sequence[tuple[int, float]]], head: int
) -> None:
    ordered = sorted(lines.items(), key=lambda line: (line[1][-1][1], line[0]), reverse=True)
    places = iter(["bottom", "top"])  # the upper end's number above it, the next one's below
    for idx, (text, points) in enumerate(ordered):
        steps, values = [step for step, _ in points], [value for _, value in points]
        color = COLORS[idx % len(COLORS)]
        axes.plot(steps, values, "-o", color=color, label=text, linewidth=1.6, ms=3.6)
        axes.annotate(
            f"{values[-1]:.4g}",
            (steps[-1], values[-1]),
            xytext=(5, 0),
            textcoords="offset points",
            color=color,
            va=next(places, "center"),
        )
    if head:
        axes.axvline(head, color=QUIET, linestyle="--", linewidth=1.0)
        above = axes.get_xaxis_transform()
        axes.annotate("only the head ", (head, 0.9), xycoords=above, ha="right", color=QUIET)
    axes.set_yscale("log")
    axes.set_title(name, loc="left")
    axes.set_xlabel("steps")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines["bottom"].set_color(GRID)
    axes.legend(frameon=False)
