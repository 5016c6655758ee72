"""What the pages show: all tables compared, what is known of their differences, and their cells."""

import re
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.params import Params, read_params
from nlp_core.report.comparison import (
    ComparedPart,
    Comparison,
    Entry,
    is_measured,
    list_tables,
    read_comparison,
)
from nlp_core.report.headline import STANDINGS, Headline, count_outcomes
from nlp_core.report.results import CellResult
from nlp_core.report.significance import RowFinding
from nlp_core.site.review import Review, start_reviews
from nlp_core.statistics import Interval

REASON = re.compile(r"\[(\w+)\]$")


class CellPlace(NamedTuple):
    """A cell and the table that has its page."""

    table: str
    cell: str

    @property
    def path(self) -> str:
        """The path of its page in the site."""
        return f"{self.table}/{self.cell}.html"


class ShownNumber(NamedTuple):
    """A number of a table with all that the pages say of it.

    Attributes:
        finding: what its column's tests say; None without committed predictions.
        interval: 95 %, over seeds and examples, or over runs.
        literature: numbers of other papers, with their names.
        reason: the key of the reason why it is not run.
        remark: the anchor of its remark on the table's page, which ends in the remark's number.
    """

    table: str
    part: ComparedPart
    entry: Entry
    finding: RowFinding | None
    interval: Interval | None
    place: CellPlace | None
    literature: list[str]
    reason: str | None
    remark: str | None

    @property
    def is_compared(self) -> bool:
        """Whether it has a verdict against a published number."""
        return self.entry.verdict.outcome in STANDINGS and self.entry.difference is not None


@dataclass(frozen=True)
class Project:
    """All tables of a project, those without results included.

    Attributes:
        started: the review of each table, which another process may still be making.
    """

    root: Path
    params: Params
    tables: Mapping[str, Comparison]
    started: Mapping[str, Future[Review]]
    headline: Headline

    @cached_property
    def reviews(self) -> dict[str, Review]:
        return {table: review.result() for table, review in self.started.items()}

    @cached_property
    def places(self) -> list[CellPlace]:
        """The cells of the grid, and measured ones that it does not name, such as bundles."""
        experiments, encoders = self.params.experiments, self.params.encoders
        found = {CellPlace(item.table, cell) for cell, item in experiments.items()}
        found |= {CellPlace(item.table, cell) for cell, item in encoders.items()}
        named = {place.cell for place in found}
        for table, comparison in self.tables.items():
            others = comparison.results.cells.keys() - named
            found |= {CellPlace(table, cell) for cell in others}
        return sorted(place for place in found if place.table in self.tables)

    @cached_property
    def numbers(self) -> list[ShownNumber]:
        return [
            number
            for table, comparison in self.tables.items()
            for idx, part in enumerate(comparison.parts, 1)
            for number in self._list_numbers(table, part, idx)
        ]

    def find_place(self, table: str, cell: str | None) -> CellPlace | None:
        """Return where the page of a cell is; a teacher may have it in another table."""
        places = [place for place in self.places if place.cell == cell]
        return next((place for place in places if place.table == table), next(iter(places), None))

    def find_result(self, place: CellPlace) -> CellResult | None:
        return self.tables[place.table].results.cells.get(place.cell)

    def is_older(self, place: CellPlace) -> bool:
        """Whether the cell was trained by code of a lower `numerics`."""
        found = self.find_result(place)
        return found is not None and found.numerics < self.params.numerics

    def _list_numbers(self, table: str, part: ComparedPart, idx: int) -> list[ShownNumber]:
        remarked = dict.fromkeys(
            (entry.row, entry.column) for entry in part.entries if entry.number.remark
        )
        remarks = {place: f"part-{idx}-remark-{mark}" for mark, place in enumerate(remarked, 1)}
        rows = {
            (item.column, item.selection, row.row): row
            for item in self.reviews[table].findings
            if item.part == part.config.title
            for row in item.rows
        }
        comparison, found = self.tables[table], []
        papers = comparison.published.papers
        for entry in part.entries:
            reason = REASON.search(entry.verdict.text)
            finding = rows.get((entry.column, entry.selection, entry.row))
            found.append(
                ShownNumber(
                    table,
                    part,
                    entry,
                    finding,
                    finding.interval if finding else comparison.find_mean_interval(entry),
                    self.find_place(table, entry.cell),
                    [
                        f"{item.value:.{part.config.decimals}f} ({papers[item.paper].name})"
                        for item in entry.number.literature
                    ],
                    reason[1] if reason else None,
                    remarks.get((entry.row, entry.column)),
                )
            )
        return found


def read_project(root: Path) -> Project:
    """Read and compare all tables of a project, and start to review them."""
    tables = {name: read_comparison(name, root, allow_missing=True) for name in list_tables(root)}
    return Project(
        root,
        read_params(root / "params.yaml"),
        tables,
        start_reviews(tables, root),
        count_outcomes([item for name, item in tables.items() if is_measured(name, root)]),
    )
