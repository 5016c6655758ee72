"""Check published numbers against what they are compared with: mistakes of whoever wrote them."""

from collections.abc import Iterator
from typing import NamedTuple

from nlp_core.config.base import check_known
from nlp_core.config.params import Params
from nlp_core.config.published import NumberConfig, PartConfig, PublishedTable, RowConfig
from nlp_core.errors import ConfigError, suggest
from nlp_core.metrics import find_metric
from nlp_core.report.results import Results
from nlp_core.statistics.summands import POINTS


class _Published(NamedTuple):
    """A number with its place."""

    table: str
    part: PartConfig
    row: RowConfig
    column: str
    number: NumberConfig

    @property
    def where(self) -> str:
        place = f"parts '{self.part.title}', rows '{self.row.name}', column '{self.column}'"
        return f"reports/published/{self.table}.yaml: {place}"

    @property
    def cell(self) -> str | None:
        return self.row.find_cell(self.column)


def check_numbers(published: PublishedTable, results: Results) -> None:
    """Check that scores are in points, and that measured cells have the metrics of their numbers.

    Raises:
        ConfigError: a number is wrong.
    """
    for item in _list_numbers(published, results.table):
        metric, number = item.part.columns[item.column], item.number
        values = [number.value, *(other.value for other in number.literature)]
        wrong = [value for value in values if value is not None and not abs(value) <= POINTS]
        known = find_metric(metric)
        if wrong and known is not None and known.in_points:
            raise ConfigError(
                f"{item.where}: found {wrong[0]:g}, expected points, which are 100 at most. "
                "Correct the number."
            )
        if number.claim == "not_run" or item.cell not in results.cells:
            continue
        name = number.name_metric(metric)
        measured = results.cells[item.cell].metrics
        if not measured.keys() & {name, f"{name}.paper"}:
            raise ConfigError(
                f"{item.where}: found '{name}', by which '{item.cell}' is not measured. "
                f"{suggest(name, measured)}"
            )


def check_cells(published: PublishedTable, results: Results, params: Params) -> None:
    """Check that the grid has the cells of all numbers but those with a reason for being not run.

    Raises:
        ConfigError: it has no such cell.
    """
    for item in _list_numbers(published, results.table):
        if item.cell in results.cells or item.number.reason or item.row.reason:
            continue
        table = item.row.table or results.table
        cells = params.list_cells(table, params.optional)
        check_known(item.where, "cell", item.cell, cells, ConfigError)


def _list_numbers(published: PublishedTable, table: str) -> Iterator[_Published]:
    for part in published.parts:
        for row in part.rows:
            for column, number in row.numbers.items():
                yield _Published(table, part, row, column, number)
