"""The section of times: how exports are measured, and what a report shows of them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from matplotlib.axes import Axes

from nlp_core.config.params import EAGER, TEACHER, Params, TimingConfig
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
from nlp_core.report.markdown import render_rows
from nlp_core.report.results import CellResult, Score, summarise

EXACT = "float32"
RANKS = (50, 90, 99)
MEGABYTE = 1e6


class Times(Protocol):
    """What a run measured of a model."""

    @property
    def name(self) -> str:
        """How the model is run: eager, or the variant of a bundle."""

    @property
    def model(self) -> Mapping[int, float]:
        """Milliseconds a sentence at batch 1 by percentile, without featurising."""

    @property
    def whole(self) -> Mapping[int, float]:
        """The same with featurising."""

    @property
    def model_rate(self) -> float:
        """Sentences a second in batches, without featurising."""

    @property
    def whole_rate(self) -> float:
        """The same with featurising."""


class Timings(Protocol):
    """What was measured of an export."""

    @property
    def hardware(self) -> str:
        """What the times are of."""

    @property
    def runs(self) -> Sequence[Sequence[Times]]:
        """The times of each way of running it, and of its teacher, for each run."""


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


TimeExport = Callable[[str, Params, Path], Timings]
"""Times an export of the grid; exports are on the same floor as reports."""


def measure_export(
    timed: Sequence[Sequence[Times]], bundles: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Score]]:
    """Return the metrics of each way of running a model, over the runs.

    `ratio` is how often the eager model's time holds its time, and `gain` how often its rate holds
    that of the float32 bundle, and `lead` that of its teacher's float32 bundle, all within a run.

    Args:
        timed: the times of each way, for each run.
        bundles: of each bundle by its variant: what its export measured, and its bytes.
    """
    metrics: dict[str, dict[str, Score]] = {}
    for idx, way in enumerate(timing.name for timing in timed[0]):
        if way == TEACHER:
            continue
        runs = [_measure_run(timings, idx) for timings in timed]
        values = {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}
        if way in bundles:
            values["size.megabytes"] = summarise([bundles[way]["bytes"] / MEGABYTE])
        values |= _find_scores(way, bundles)
        metrics[way] = values
    return metrics


def _measure_run(timings: Sequence[Times], idx: int) -> dict[str, float]:
    own, by_way = timings[idx], {timing.name: timing for timing in timings}
    eager, exact, teacher = by_way[EAGER], by_way.get(EXACT), by_way.get(TEACHER)
    values = {f"latency.p{rank}": ms for rank, ms in own.model.items()}
    values |= {f"latency.whole_p{rank}": ms for rank, ms in own.whole.items()}
    values |= {"speed.per_second": own.model_rate, "speed.whole_per_second": own.whole_rate}
    values |= {f"ratio.p{rank}": eager.model[rank] / ms for rank, ms in own.model.items()}
    values["ratio.per_second"] = own.model_rate / eager.model_rate
    if exact is not None:
        values["gain.per_second"] = own.model_rate / exact.model_rate
    if teacher is not None:
        values["lead.per_second"] = own.model_rate / teacher.model_rate
        values |= {f"lead.p{rank}": teacher.model[rank] / ms for rank, ms in own.model.items()}
    return values


def _find_scores(way: str, parities: Mapping[str, Mapping[str, Any]]) -> dict[str, Score]:
    """Return the first metric of the task, where an export measured it."""
    if way in parities and "exported" in parities[way]:
        return {"score.first": summarise([parities[way]["exported"]])}
    trained = [note["trained"] for note in parities.values() if "trained" in note]
    return {"score.first": summarise(trained[:1])} if way == EAGER and trained else {}


def render_times(cells: Mapping[str, CellResult], config: TimingConfig) -> list[str]:
    """Return how the times were taken, and of what.

    Args:
        config: how often.
    """
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
