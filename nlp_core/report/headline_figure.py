"""Draw the outcomes of all tables: a dot for each compared number, a bar for each table's counts.

The background is transparent, and every color has contrast on white and on black.
"""

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from nlp_core.report.figure import build_figure, save_figure, styled
from nlp_core.report.headline import ComparedNumber, Headline, Standing, Tally

TEXT, RULE, NOT_RUN, BAR_TEXT = "#727b84", "#727b8450", "#8f99a3", "#111111"
COLORS: dict[Standing, str] = {"above": "#2f81d6", "reproduced": "#1a9e77", "below": "#e0721b"}
WIDTH = 8.4  # inches: 806 pixels
ROW_HEIGHT = 0.36
FRAME_HEIGHT = 1.15
NAME_LETTERS = 30  # of a line of a table's title
DOT, SMALL = 5.0, 8.5  # points of the page: a dot, a letter
SLOTS = (0.0, 0.18, -0.18, 0.36, -0.36)
"""Heights of dots over the middle of their row, in rows: the first free one is taken."""
GAP = 0.38
"""Least distance of two dots of the same height, in points of score."""


def draw_headline(headline: Headline, *, file_format: str = "svg") -> bytes:
    """Return the figure.

    Args:
        file_format: svg, or png to look at.
    """
    shown = [tally for tally in headline.tallies if tally.compared or tally.num_not_run]
    with styled(**_style_text()):
        height = FRAME_HEIGHT + ROW_HEIGHT * len(shown)
        figure = build_figure(height, width=WIDTH, facecolor="none")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        _draw_dots(left, shown)
        _draw_bars(right, shown)
        figure.legend(handles=_build_legend(), loc="outside lower center", ncols=4, frameon=False)
        return save_figure(figure, file_format)


def _style_text() -> dict[str, Any]:  # Any: matplotlib types each key and value
    names = (
        "text.color",
        "axes.titlecolor",
        "axes.labelcolor",
        "xtick.labelcolor",
        "ytick.labelcolor",
    )
    return dict.fromkeys(names, TEXT) | {"axes.facecolor": "none", "axes.titlesize": 9}


def _draw_dots(axes: Axes, tallies: Sequence[Tally]) -> None:
    for place, tally in enumerate(tallies):
        if not tally.compared:
            axes.text(0.4, place, "not run", va="center", color=TEXT)
            continue
        axes.axhline(place, color=RULE, linewidth=0.6, zorder=1)
        for number, offset in stack(tally.compared):
            color = COLORS[number.standing]
            axes.plot([number.lead], [place + offset], "o", color=color, ms=DOT, mew=0)
    axes.axvline(0.0, color=TEXT, linewidth=1.2, zorder=1)
    axes.set_title("Ours less the published number: right is better", loc="left")
    axes.set_xlabel("points of score", fontsize=SMALL)
    names = [textwrap.fill(tally.title, NAME_LETTERS) for tally in tallies]
    axes.set_yticks(range(len(tallies)), names)
    axes.set_ylim(len(tallies) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MultipleLocator(5))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+.0f}" if x else "0")
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.margins(x=0.06)
    _frame(axes)


def stack(numbers: Sequence[ComparedNumber]) -> list[tuple[ComparedNumber, float]]:
    """Return numbers from the worst to the best, each with the height of its dot, in rows.

    Dots nearer to each other than GAP have different heights while any is free.
    """
    placed: list[tuple[ComparedNumber, float]] = []
    last = dict.fromkeys(SLOTS, float("-inf"))
    for number in sorted(numbers, key=lambda number: number.lead):
        free = [slot for slot in SLOTS if number.lead - last[slot] >= GAP]
        slot = free[0] if free else min(SLOTS, key=lambda slot: last[slot])
        last[slot] = number.lead
        placed.append((number, slot))
    return placed


def _draw_bars(axes: Axes, tallies: Sequence[Tally]) -> None:
    for place, tally in enumerate(tallies):
        counts = Counter(COLORS[number.standing] for number in tally.compared)
        counts[NOT_RUN] = tally.num_not_run
        start = 0
        for color in [*COLORS.values(), NOT_RUN]:
            count = counts[color]
            if count:
                bars = axes.barh(place, count, left=start, height=0.56, color=color)
                axes.bar_label(bars, label_type="center", color=BAR_TEXT, fontsize=SMALL)
            start += count
    axes.set_title("Published numbers", loc="left")
    _frame(axes)
    axes.set_xticks([])


def _frame(axes: Axes) -> None:
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)
    axes.set_axisbelow(True)


def _build_legend() -> list[Line2D]:
    colors = [*COLORS.items(), ("not run", NOT_RUN)]
    return [
        Line2D([], [], color=color, marker="o", ms=6.5, mew=0, ls="", label=label)
        for label, color in colors
    ]
