"""Draw what `reglue bench` measured: P50, P90 and P99 of each model, and its throughput."""

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nlp_core.report.figure import (
    FRAME_HEIGHT,
    GRID,
    LINE_HEIGHT,
    MARGIN_HEIGHT,
    OURS,
    STYLE,
    WIDTH,
)

RANKS = ("p50", "p90", "p99")
Row = Mapping[str, str]


def draw_latency(text: str) -> bytes:
    """Return the figure, as SVG, of the CSV that `reglue bench --csv` writes."""
    rows = list(csv.DictReader(StringIO(text)))
    with mpl.rc_context():
        mpl.rcdefaults()  # a person's own matplotlibrc must not change the bytes
        mpl.rcParams.update(STYLE)
        height = MARGIN_HEIGHT + FRAME_HEIGHT + LINE_HEIGHT * len(rows)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        _draw_percentiles(left, rows)
        _draw_rates(right, rows)
        figure.suptitle(rows[0]["hardware"], fontsize=8)
        file = BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _draw_percentiles(axes: Axes, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        values = [float(row[f"{rank}_ms"]) for rank in RANKS]
        axes.plot(values, [place] * len(RANKS), color=OURS, lw=1.6)
        axes.plot(values, [place] * len(RANKS), color=OURS, ls="", marker="o", ms=6.5, mec="white")
        axes.annotate(f"{values[0]:.2f}", (values[0], place), (0, 6), textcoords="offset points")
    _frame(axes, "ms a sentence at batch 1: P50, P90, P99, without featurising", rows)


def _draw_rates(axes: Axes, rows: Sequence[Row]) -> None:
    rates = [float(row["per_second"]) for row in rows]
    axes.barh(range(len(rows)), rates, height=0.5, color=OURS)
    _frame(axes, "sentences a second at batch 32", rows)


def _frame(axes: Axes, title: str, rows: Sequence[Row]) -> None:
    axes.set_title(title, loc="left")
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
