"""The section of a report on the times of exports, and their figure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from nlp_core.config.export import TimingConfig
from nlp_core.errors import DataError
from nlp_core.report.figure import (
    FRAME_HEIGHT,
    GRID,
    LINE_HEIGHT,
    MARGIN_HEIGHT,
    OURS,
    build_figure,
    name_rows,
    save_figure,
    styled,
)
from nlp_core.report.markdown import render_rows
from nlp_core.report.results import CellResult

RANKS = (50, 90, 99)


class FigureLine(NamedTuple):
    """A model in the figure.

    Attributes:
        percentiles: milliseconds a sentence: P50, P90 and P99.
        rate: sentences a second, in batches.
    """

    name: str
    percentiles: Sequence[float]
    rate: float


def render_times(
    cells: Mapping[str, CellResult], table: str, config: TimingConfig | None
) -> list[str]:
    """Return how the times were taken, and of what.

    Raises:
        DataError: the grid no longer says how.
    """
    if config is None:
        raise DataError(
            f"results/{table}.json: found the timed cell '{next(iter(cells))}', but "
            f"grid/{table}.yaml has no timing; add it, or measure the table again with "
            f"`dvc repro evaluate@{table}`."
        )
    return [
        f"Each of {config.runs} runs times all ways of running a model in turn on the same "
        f"sentence, {config.sentences} real ones in an order of its own, after a warm-up; then "
        f"{config.batches} batches. Ratios are taken within a run.",
        _render_models(cells),
    ]


def draw_times(cells: Mapping[str, CellResult]) -> bytes:
    """Return the figure of the times, as SVG."""
    lines = [
        FigureLine(
            name,
            [cell.metrics[f"latency.p{rank}"].mean for rank in RANKS],
            cell.metrics["speed.per_second"].mean,
        )
        for name, cell in cells.items()
    ]
    return draw_latency(lines, "; ".join({c.fingerprint["processor"]: 0 for c in cells.values()}))


def _render_models(cells: Mapping[str, CellResult]) -> str:
    header = ["cell", "model", "seed", "parameters", "sentences of", "megabytes of the bundle"]
    rows = []
    for name, cell in cells.items():
        splits = [f"{task}, {facts.report_split}" for task, facts in cell.tasks.items()]
        size = cell.metrics.get("size.megabytes")
        rows.append(
            [
                f"`{name}`",
                f"[{cell.model}](../{cell.model})",
                str(cell.seeds[0]),
                f"{cell.parameters['total']:,}",
                "; ".join(splits),
                "" if size is None else f"{size.mean:.1f}",
            ]
        )
    return render_rows(header, rows)


def draw_latency(lines: Sequence[FigureLine], title: str) -> bytes:
    """Return the figure as SVG, its lines from top to bottom."""
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
    name_rows(axes, title, [line.name for line in lines])
    axes.set_xlim(left=0)
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
