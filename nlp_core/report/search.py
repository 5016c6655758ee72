"""Draw a search: the score of each trial, and how much each value matters."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from nlp_core.config.space import Outcome, SearchObjective
from nlp_core.report.figure import (
    GRID,
    HONEST,
    LINE_HEIGHT,
    OURS,
    QUIET,
    build_figure,
    save_figure,
    styled,
)

HISTORY_HEIGHT = 2.6  # inches
FRAME = 0.9


def draw_search(
    outcomes: Sequence[Outcome], importance: Mapping[str, float], objective: SearchObjective
) -> bytes:
    """Return the figure of a search as SVG; without importance it has the history only."""
    heights = [HISTORY_HEIGHT] + ([FRAME + LINE_HEIGHT * len(importance)] if importance else [])
    with styled():
        figure = build_figure(sum(heights))
        axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _draw_history(axes[0], outcomes, objective)
        if importance:
            _draw_importance(axes[1], importance)
        return save_figure(figure)


def _draw_history(axes: Axes, outcomes: Sequence[Outcome], objective: SearchObjective) -> None:
    styles = {"finished": (OURS, OURS), "pruned": ("white", QUIET)}
    for state, (face, edge) in styles.items():
        found = [item for item in outcomes if item.state == state and item.score is not None]
        if found:
            numbers = [item.number for item in found]
            scores = [item.score or 0.0 for item in found]
            axes.scatter(numbers, scores, s=18, facecolor=face, edgecolor=edge, label=state)
    finished = [(item.number, item.score) for item in outcomes if item.state == "finished"]
    choose = max if objective.direction > 0 else min
    best = list(accumulate((score for _, score in finished if score is not None), choose))
    axes.plot(
        [number for number, _ in finished],
        best,
        color=HONEST,
        drawstyle="steps-post",
        label="best so far",
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="trial", title=f"{objective.metric} on {objective.split}")
    axes.grid(axis="y", color=GRID)
    axes.legend(frameon=False)


def _draw_importance(axes: Axes, importance: Mapping[str, float]) -> None:
    names = sorted(importance, key=lambda name: importance[name])
    axes.barh(names, [importance[name] for name in names], color=OURS, height=0.6)
    axes.set(xlim=(0, 1), title="share of each value in the variance of the scores (fANOVA)")
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
