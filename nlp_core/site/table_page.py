"""What the page of a table shows: its parts with our numbers, its cells, and what tests say."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.config.published import PaperConfig
from nlp_core.errors import DataError
from nlp_core.metrics import is_lower_better
from nlp_core.report import figure, headline
from nlp_core.report.comparison import ComparedPart, Comparison
from nlp_core.report.headline import Tally
from nlp_core.report.markdown import summarise_outcomes
from nlp_core.report.results import CellResult
from nlp_core.report.significance import ColumnFinding
from nlp_core.site.project import CellPlace, Project, ShownNumber

PROLOGUE = re.compile(r"^.*?(?=<svg )|<metadata>.*?</metadata>", re.DOTALL)
COLORS = {
    figure.PUBLISHED: "var(--ink)",
    figure.QUIET: "var(--quiet)",
    figure.GRID: "var(--rule)",
    figure.OURS: "var(--accent)",
    figure.HONEST: "var(--honest)",
    headline.TEXT: "var(--quiet)",
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
}
"""Colours of the reports' figures, and the page's own, which follow its theme."""


class PartView(NamedTuple):
    """A part of a table.

    Attributes:
        lower: its columns where less is better.
        findings: what the tests say of its columns with committed predictions.
        remarks: row, column and text.
    """

    part: ComparedPart
    numbers: list[ShownNumber]
    lower: list[str]
    findings: list[ColumnFinding]
    remarks: list[tuple[str, str, str]]

    @property
    def has_published(self) -> bool:
        return any(number.entry.number.value is not None for number in self.numbers)

    @property
    def has_gain(self) -> bool:
        return any(number.entry.gain is not None for number in self.numbers)


class CellRow(NamedTuple):
    place: CellPlace
    model: str
    recipe: str
    result: CellResult | None
    is_older: bool


class TablePage(NamedTuple):
    """The page of a table.

    Attributes:
        tally: its outcomes; None where nothing was published.
        reasons: why numbers are not run, by key.
    """

    name: str
    comparison: Comparison
    tally: Tally | None
    summary: str
    figure: Markup
    parts: list[PartView]
    reasons: dict[str, str]
    cells: list[CellRow]
    papers: list[PaperConfig]

    @property
    def num_measured(self) -> int:
        return sum(cell.result is not None for cell in self.cells)

    @property
    def num_older(self) -> int:
        return sum(cell.is_older for cell in self.cells)


def build_table(name: str, project: Project) -> TablePage:
    """Return the page of a table."""
    comparison = project.tables[name]
    published = comparison.published
    numbers = [number for number in project.numbers if number.table == name]
    reasons = {number.reason for number in numbers if number.reason in published.reasons}
    tallies = {tally.table: tally for tally in project.headline.tallies}
    return TablePage(
        name,
        comparison,
        tallies.get(name),
        summarise_outcomes(comparison.entries),
        read_figure(project.root / "reports" / f"{name}.svg", published.title),
        [_view_part(part, numbers, project.reviews[name].findings) for part in comparison.parts],
        {key: published.reasons[key].strip() for key in sorted(filter(None, reasons))},
        [_view_cell(place, project) for place in project.places if place.table == name],
        sorted(published.papers.values(), key=lambda paper: paper.name),
    )


def read_figure(path: Path, title: str) -> Markup:
    """Return an SVG file of the reports to include in a page, in the colours of the page's theme.

    Raises:
        DataError: the file is missing.
    """
    if not path.exists():
        command = f"python -m stages.report {path.stem if path.stem != 'headline' else '--readme'}"
        raise DataError(f"{path}: no such file; run `{command}`, which writes it.")
    text = PROLOGUE.sub("", path.read_text(encoding="utf-8"))
    for color, name in COLORS.items():
        text = text.replace(color, name)
    opening = Markup('<svg role="img" aria-label="{}" ').format(title)
    return Markup(text.replace("<svg ", opening, 1))


def _view_part(
    part: ComparedPart, numbers: Sequence[ShownNumber], findings: Sequence[ColumnFinding]
) -> PartView:
    own = [number for number in numbers if number.part is part]
    entries = [number.entry for number in own]
    remarks = {
        (entry.row, entry.column, entry.number.remark.strip()): None
        for entry in entries
        if entry.number.remark
    }
    return PartView(
        part,
        own,
        sorted({entry.column for entry in entries if is_lower_better(entry.metric)}),
        [item for item in findings if item.part == part.config.title],
        list(remarks),
    )


def _view_cell(place: CellPlace, project: Project) -> CellRow:
    result = project.find_result(place)
    experiment = project.params.experiments.get(place.cell)
    if experiment is not None:
        model, recipe = experiment.model, experiment.recipe
    elif result is not None:
        model, recipe = result.model, result.recipe
    else:
        model, recipe = project.params.encoders[place.cell].init, ""
    return CellRow(place, model, recipe, result, project.is_older(place))
