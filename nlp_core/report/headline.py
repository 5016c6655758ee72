"""Count the outcomes of all tables, and write what README.md shows of them.

A published number counts once. Where a paper chose the epoch on the split that it reports, the
number is compared with ours of the same choice; the honest choice is counted separately.

In README.md, `<!-- generated:headline -->` and `<!-- /generated -->` are each on a line of their
own; the text between them is generated.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import replacing, write_text
from nlp_core.metrics import find_direction
from nlp_core.report.comparison import (
    ComparedPart,
    Comparison,
    Entry,
    is_measured,
    list_tables,
    read_comparison,
)
from nlp_core.report.figure import build_figure, name_rows, save_figure, styled
from nlp_core.report.markdown import render_rows

FIGURE = Path("reports") / "headline.svg"
BLOCK = re.compile(
    r"^<!-- generated:(\w+) -->\n(.*?)^<!-- /generated -->$", re.MULTILINE | re.DOTALL
)

Standing = Literal["above", "reproduced", "below"]
STANDINGS: dict[str, Standing] = {
    "above": "above",
    "reproduced": "reproduced",
    "trend": "reproduced",
    "below": "below",
    "no trend": "below",
}
"""The outcomes of a number that is compared with a published one, and how each is counted."""
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


class ComparedNumber(NamedTuple):
    """A published number and ours."""

    standing: Standing
    lead: float
    """By how much ours is better, in the unit of the metric; negative: worse."""


class Tally(NamedTuple):
    """The outcomes of one table.

    Attributes:
        compared: its published numbers that we have a number for, in the table's order.
        honest: our honest numbers where `compared` has those chosen as the paper chose.
        num_not_run: published numbers that we would compare with, but have not measured.
    """

    table: str
    title: str
    compared: list[ComparedNumber]
    honest: list[ComparedNumber]
    num_not_run: int

    @property
    def num_good(self) -> int:
        """How many of the compared numbers are reproduced or above."""
        return sum(number.standing != "below" for number in self.compared)

    @property
    def num_below(self) -> int:
        return len(self.compared) - self.num_good


class Headline(NamedTuple):
    """The outcomes of all tables, those with the most compared numbers first."""

    tallies: list[Tally]

    @property
    def total(self) -> Tally:
        return Tally(
            table="all",
            title="All tables",
            compared=[number for tally in self.tallies for number in tally.compared],
            honest=[number for tally in self.tallies for number in tally.honest],
            num_not_run=sum(tally.num_not_run for tally in self.tallies),
        )


def read_headline(root: Path) -> Headline:
    """Read all tables and count their outcomes."""
    names = [name for name in list_tables(root) if is_measured(name, root)]
    return count_outcomes([read_comparison(name, root) for name in names])


def count_outcomes(comparisons: Sequence[Comparison]) -> Headline:
    """Count the outcomes of tables; a table for which nothing was published is left out."""
    published = [
        comparison
        for comparison in comparisons
        if any(entry.number.value is not None for entry in comparison.entries)
    ]
    tallies = [_count_table(comparison) for comparison in published]
    return Headline(sorted(tallies, key=lambda t: (-len(t.compared), -t.num_not_run, t.table)))


def _count_table(comparison: Comparison) -> Tally:
    compared, honest = [], []
    num_not_run = 0
    for part in comparison.parts:
        # of a row and column, the entry chosen as the paper chose comes first
        for _, (first, *others) in groupby(part.entries, lambda entry: (entry.row, entry.column)):
            number = _compare(first, part)
            if number is not None:
                compared.append(number)
                honest += [found for entry in others if (found := _compare(entry, part))]
            elif first.number.value is not None and first.verdict.outcome == "open":
                num_not_run += 1
    return Tally(
        table=comparison.results.table,
        title=comparison.published.title,
        compared=compared,
        honest=honest,
        num_not_run=num_not_run,
    )


def _compare(entry: Entry, part: ComparedPart) -> ComparedNumber | None:
    standing = STANDINGS.get(entry.verdict.outcome)
    if standing is None or entry.difference is None:
        return None
    direction = find_direction(part.config.columns[entry.column])
    return ComparedNumber(standing, direction * entry.difference)


def update_readme(path: Path, root: Path) -> bool:
    """Write the generated parts of a README and the figure, and return whether the text changed.

    Raises:
        ConfigError: a marker has an unknown name, or a file of published numbers is wrong.
        DataError: a marker has no end, or a results file is damaged.
    """
    headline = read_headline(root)
    text = path.read_text(encoding="utf-8")
    updated = fill_markers(text, headline, where=str(path))
    with replacing(root / FIGURE) as temporary:
        temporary.write_bytes(draw_headline(headline))
    if updated != text:
        write_text(path, updated)
    return updated != text


def fill_markers(text: str, headline: Headline, *, where: str) -> str:
    """Return a markdown text with the generated parts between its markers."""
    if len(BLOCK.findall(text)) != text.count("<!-- generated:"):
        raise DataError(
            f"{where}: found a marker '<!-- generated:NAME -->' without its '<!-- /generated -->', "
            "or with other text on its line; expected each marker on a line of its own, in pairs."
        )

    def write(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in PARTS:
            raise ConfigError(f"{where}: unknown marker 'generated:{name}'. {suggest(name, PARTS)}")
        return f"<!-- generated:{name} -->\n{PARTS[name](headline)}\n<!-- /generated -->"

    return BLOCK.sub(write, text)


def render_headline(headline: Headline) -> str:
    """Return how many numbers were compared and their outcomes, in sentences."""
    total = headline.total
    text = (
        f"**{len(total.compared)} numbers compared with published ones: {total.num_good} "
        f"reproduced or above, {total.num_below} below.\n"
        f"{total.num_not_run} published numbers are not run**; the reports give the reasons."
    )
    if total.honest:
        good = sum(number.standing != "below" for number in total.honest)
        text += (
            f" For {len(total.honest)} of the compared numbers the paper\n"
            "chose the epoch on the reported split, and so do we. With the epoch chosen on "
            f"held-out data, {good} of these {len(total.honest)} are reproduced or above."
        )
    return text


def render_tables(headline: Headline) -> str:
    """Return one row for each table, and their sum."""
    header = ["table", "compared", "reproduced or above", "below", "not run", "report"]
    rows = [
        [tally.title, *_count(tally), f"[{tally.table}](reports/{tally.table}.md)"]
        for tally in headline.tallies
    ]
    return render_rows(header, [*rows, ["all", *_count(headline.total), ""]])


PARTS: dict[str, Callable[[Headline], str]] = {
    "headline": render_headline,
    "tables": render_tables,
}
"""What writes a generated part, by the name in its marker."""


def _count(tally: Tally) -> list[str]:
    counts = [len(tally.compared), tally.num_good, tally.num_below, tally.num_not_run]
    return [str(count) for count in counts]


def draw_headline(headline: Headline) -> bytes:
    """Return a dot for each compared number, and a bar for each table's counts, as SVG.

    The background is transparent, and every color has contrast on white and on black.
    """
    shown = [tally for tally in headline.tallies if tally.compared or tally.num_not_run]
    with styled(**_style_text()):
        height = FRAME_HEIGHT + ROW_HEIGHT * len(shown)
        figure = build_figure(height, width=WIDTH, facecolor="none")
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        _draw_dots(left, shown)
        _draw_bars(right, shown)
        handles = [
            Line2D([], [], color=color, marker="o", ms=6.5, mew=0, ls="", label=label)
            for label, color in [*COLORS.items(), ("not run", NOT_RUN)]
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
        return save_figure(figure)


def _style_text() -> dict[str, Any]:  # Any: matplotlib types each key and value
    names = ["text.color"]
    names += [f"{part}color" for part in ("axes.title", "axes.label", "xtick.label", "ytick.label")]
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
    axes.set_xlabel("points of score", fontsize=SMALL)
    names = [textwrap.fill(tally.title, NAME_LETTERS) for tally in tallies]
    name_rows(axes, "Ours less the published number: right is better", names)
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
