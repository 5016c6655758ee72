"""Draw a compared table: what was published as ticks, what we measured as dots.

A panel without any number of ours is left out: the report has its published numbers. Where a row is
compared with another one, a thin tick marks the other row's mean, and a pale band the interval of
the difference, drawn from there. The band of a gain does not reach its tick.

The figure's bytes depend only on its content: no date, ids hashed with a fixed salt, and text
kept as text, so that the fonts of a machine do not matter.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nlp_core.report.comparison import ComparedPart, Comparison, Entry

OURS, HONEST, PUBLISHED, QUIET, GRID = "#1f6fb2", "#e08214", "#222222", "#9a9a9a", "#e3e3e3"
STYLE: dict[Any, Any] = {  # Any: matplotlib types each key and value
    "svg.hashsalt": "reglue",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Values that would make the bytes depend on the day or on matplotlib's version are left out."""
WIDE_SPAN = 20.0  # points: numbers further apart than this cannot share an axis and be read
PANEL_COLUMNS = 3
LONG_NAME = 18
"""With longer names of rows, at most two panels are next to each other."""
LEAST_SPAN = 2.0
LEGEND_LETTERS = 90  # more of them do not fit into the width
PALE = 0.22  # opacity of a band under dots of the same colour
WIDTH = 9.0  # inches, as are the heights
LINE_HEIGHT = 0.27
FRAME_HEIGHT = 0.6
MARGIN_HEIGHT = 0.75
TITLE_HEIGHT = 0.17
NAME_LETTER = 0.073
"""Inches of a letter of a row's name, and below, of a panel's title; rather too wide."""
TITLE_LETTER = 0.085
MOST_LETTERS = 36  # of a line of a row's name


class Panel(NamedTuple):
    """Numbers that share an axis: by label the entries of each line, from top to bottom.

    With `has_both`, a line has a number for both ways of choosing the epoch.
    """

    title: str
    lines: dict[str, list[Entry]]
    has_both: bool


def draw_figure(comparison: Comparison, *, file_format: str = "svg") -> bytes:
    """Return the figure of a table, as SVG or in another format of matplotlib."""
    shown = [part for part in comparison.parts if _has_ours(part.entries)]
    panels = [
        panel
        for part in shown
        for panel in split_panels(part, is_only=len(shown) == 1)
        if any(_has_ours(line) for line in panel.lines.values())
    ]
    with styled():
        return save_figure(_draw_panels(panels, comparison.published.title), file_format)


@contextmanager
def styled(**more: object) -> Iterator[None]:
    """Draw in the style of all figures, whatever the user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE | more)
        yield


def build_figure(height: float, *, width: float = WIDTH, facecolor: str | None = None) -> Figure:
    """Return an empty figure; sizes are in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=facecolor)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, file_format: str = "svg") -> bytes:
    file = BytesIO()
    figure.savefig(file, format=file_format, metadata=METADATA.get(file_format), dpi=110)
    return file.getvalue()


def split_panels(part: ComparedPart, *, is_only: bool = True) -> list[Panel]:
    """Return one panel for a part, or one a column where metrics differ or are far apart.

    Args:
        is_only: whether the figure has no other part, so that a column's name says enough.
    """
    entries = [entry for entry in part.entries if _values(entry)]
    if not entries:
        return []
    values = [value for entry in entries for value in _values(entry)]
    columns = list(dict.fromkeys(entry.column for entry in entries))
    has_both = part.config.selection != "honest"
    if len(columns) == 1:
        lines = _group(entries, "{0.row}")
        return [Panel(f"{part.config.title}: {columns[0]}", lines, has_both)]
    metrics = {part.config.columns[name] for name in columns}
    if len(metrics) == 1 and max(values) - min(values) <= WIDE_SPAN:
        return [Panel(part.config.title, _group(entries, "{0.row}, {0.column}"), has_both)]
    panels = []
    for name in columns:
        title = name if is_only else f"{part.config.title}: {name}"
        found = [entry for entry in entries if entry.column == name]
        panels.append(Panel(title, _group(found, "{0.row}"), has_both))
    return panels


def _group(entries: Sequence[Entry], label: str) -> dict[str, list[Entry]]:
    lines: dict[str, list[Entry]] = {}
    for entry in entries:
        lines.setdefault(label.format(entry), []).append(entry)
    return lines


def _has_ours(entries: Sequence[Entry]) -> bool:
    return any(entry.ours is not None for entry in entries)


def _values(entry: Entry) -> list[float]:
    published = [] if entry.number.value is None else [entry.number.value]
    return published + (entry.ours.values if entry.ours is not None else [])


def _draw_panels(panels: Sequence[Panel], title: str) -> Figure:
    named = [_wrap_name(name) for panel in panels for name in panel.lines]
    longest = max((len(line) for name in named for line in name.split("\n")), default=0)
    most = PANEL_COLUMNS if longest <= LONG_NAME else 2
    columns = 1 if len(panels) <= 2 else most
    letters = int((WIDTH / columns - longest * NAME_LETTER) / TITLE_LETTER)
    panels = [
        panel._replace(title=textwrap.fill(panel.title, letters, break_on_hyphens=False))
        for panel in panels
    ]
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [_measure_height(row) for row in rows]
    figure = build_figure(sum(heights) + MARGIN_HEIGHT)
    # a name may have dollar signs
    figure.suptitle(title, fontsize=12, fontweight="bold", parse_math=False)
    if rows:
        grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
        for row, shown in enumerate(rows):
            for column, panel in enumerate(shown):
                _draw_panel(figure.add_subplot(grid[row, column]), panel)
    handles = _build_legend(panels)
    label_letters = sum(len(str(handle.get_label())) for handle in handles)
    lines = 1 if label_letters <= LEGEND_LETTERS else 2
    columns = -(-len(handles) // lines)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _wrap_name(name: str) -> str:
    """Return the name of a row on several lines, so that its numbers have room."""
    return textwrap.fill(name, MOST_LETTERS)


def _measure_height(row: Sequence[Panel]) -> float:
    """Return the inches that panels side by side need."""
    lines = max(sum(_wrap_name(name).count("\n") + 1 for name in panel.lines) for panel in row)
    breaks = max(panel.title.count("\n") for panel in row)
    return FRAME_HEIGHT + LINE_HEIGHT * lines + TITLE_HEIGHT * breaks


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for height, entries in enumerate(panel.lines.values()):
        measured = [entry for entry in entries if entry.ours is not None]
        for idx, entry in enumerate(measured):
            offset = (idx - (len(measured) - 1) / 2) * 0.36
            _draw_entry(axes, entry, height + offset, _color(panel, entry))
        value = entries[0].number.value
        if value is not None:
            color = PUBLISHED if measured else QUIET
            ends = [height - 0.34, height + 0.34]
            axes.plot([value, value], ends, color=color, linewidth=2.2, zorder=2)
    name_rows(axes, panel.title, [_wrap_name(name) for name in panel.lines])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", color=GRID)
    axes.spines["bottom"].set_color(GRID)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    _widen(axes)
    for label, entries in zip(axes.get_yticklabels(), panel.lines.values(), strict=True):
        if all(entry.ours is None for entry in entries):
            label.set_color(QUIET)


def name_rows(axes: Axes, title: str, names: Sequence[str]) -> None:
    """Give a panel its title, and each row its name, from top to bottom."""
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _draw_entry(axes: Axes, entry: Entry, height: float, color: str) -> None:
    assert entry.ours is not None, entry
    _draw_gain(axes, entry, height, color)
    mean, sd, values = entry.ours.mean, entry.ours.sd, entry.ours.values
    axes.plot([mean - sd, mean + sd], [height] * 2, color=color, linewidth=1.6, zorder=3)
    if len(values) > 1:
        (dots,) = axes.plot(values, [height] * len(values), "o", color=color, zorder=4, ms=3.6)
        dots.set(markerfacecolor="white", markeredgewidth=0.9, alpha=0.75)
    axes.plot([mean], [height], "o", color=color, ms=6.5, mec="white", mew=0.8, zorder=5)


def _draw_gain(axes: Axes, entry: Entry, height: float, color: str) -> None:
    gain = entry.gain
    if entry.ours is None or gain is None or gain.difference is None or gain.interval is None:
        return
    other = entry.ours.mean - gain.difference
    band = [other + gain.interval.low, other + gain.interval.high]
    ends = [height - 0.16, height + 0.16]
    (line,) = axes.plot(band, [height] * 2, color=color, linewidth=7.0, zorder=1.5)
    line.set(alpha=PALE, solid_capstyle="butt")
    axes.plot([other, other], ends, color=color, linewidth=1.2, zorder=2.5)


def _widen(axes: Axes) -> None:
    """Keep dots off the edges, and show two points at least: small differences must look small."""
    axes.margins(x=0.08)
    low, high = axes.get_xlim()
    middle, half = (low + high) / 2, max(high - low, LEAST_SPAN) / 2
    axes.set_xlim(middle - half, middle + half)


def _color(panel: Panel, entry: Entry) -> str:
    return HONEST if panel.has_both and entry.selection == "honest" else OURS


def _build_legend(panels: Sequence[Panel]) -> list[Line2D]:
    shown = [(panel, e) for panel in panels for line in panel.lines.values() for e in line]
    entries = [entry for _, entry in shown]
    colors = {_color(panel, entry) for panel, entry in shown if entry.ours is not None}
    has_both = HONEST in colors
    published = [entry for entry in entries if entry.number.value is not None]
    handles = []
    if any(entry.ours is not None for entry in published):
        handles.append(_tick(PUBLISHED, "published"))
    if any(entry.ours is None for entry in published):
        handles.append(_tick(QUIET, "published, nothing of ours"))
    if OURS in colors:
        label = "ours, epoch chosen as the paper" if has_both else "ours: mean, sd"
        handles.append(_dot(OURS, label))
    if has_both:
        handles.append(_dot(HONEST, "ours, honest"))
    if any(entry.ours is not None and entry.ours.n > 1 for entry in entries):
        seed = Line2D([], [], marker="o", mec=OURS, mfc="white", mew=0.9, ms=3.6, ls="")
        seed.set_label("each seed")
        handles.append(seed)
    if any(entry.gain is not None and entry.gain.interval is not None for entry in entries):
        label = "difference to it, 95 % interval"
        handles += [
            Line2D([], [], color=OURS, marker="|", ms=7, mew=1.2, ls="", label="compared row"),
            Line2D([], [], color=OURS, alpha=PALE, lw=7.0, solid_capstyle="butt", label=label),
        ]
    return handles


def _dot(color: str, label: str) -> Line2D:
    return Line2D([], [], color=color, marker="o", ms=6.5, mec="white", lw=1.6, label=label)


def _tick(color: str, label: str) -> Line2D:
    return Line2D([], [], color=color, marker="|", ms=11, mew=2.2, ls="", label=label)
