"""The closed model of reports/published/*.yaml: a paper's table, as data.

A file holds the grids of one table in the paper's own shape. A column names the metric, a row or a
number names our cell, a number says what was printed and what we claim about it. Each fact stands
once: papers and reasons have a key, and numbers refer to them by it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, read_config
from nlp_core.config.name import Name
from nlp_core.errors import suggest

Text = Annotated[str, Field(min_length=1)]
Metric = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+(@.+)?$")]
Spread = Annotated[float, Field(ge=0)]
Claim = Literal["reproduce", "trend", "not_run"]


class PaperConfig(ClosedModel):
    """Where numbers were printed."""

    name: Text
    """What the report calls it: 'Gong et al. 2019'."""
    citation: Text
    """Title, venue, year."""
    place: Text | None = None
    """Table or section; null when only other numbers are compared with it."""
    url: Text | None = None


class LiteratureConfig(ClosedModel):
    """A number that somebody else printed for the same thing."""

    value: float
    sd: Spread | None = None
    """Standard deviation, where it was printed."""
    paper: Name
    """A key of papers."""


class NumberConfig(ClosedModel):
    """One number of a paper's table, and what we claim about it."""

    value: float | None = None
    """As printed, scores in points; null: the paper has no such number."""
    sd: Spread | None = None
    """Standard deviation, where it was printed."""
    cell: Name | None = None
    """The experiment that it is compared with; null: the row's."""
    task: Name | None = None
    """The task of the cell that it is of, where the cell is trained on several; null: its one."""
    claim: Claim = "reproduce"
    """reproduce: our mean is within the tolerance, or above. trend: our difference to the row
    `against` has the sign that the paper's has. not_run: see reason; should results exist all the
    same, they are compared as for reproduce."""
    tolerance: Spread | None = None
    """Points; null: the part's."""
    reason: Name | None = None
    """A key of reasons: why it is not run; null: the row's."""
    against: Text | None = None
    """For trend: the row that the difference is taken to."""
    literature: list[LiteratureConfig] = Field(default_factory=list)
    remark: Text | None = None
    """What a reader must know to judge the difference."""

    @model_validator(mode="after")
    def _check_claim(self) -> "NumberConfig":
        if (self.claim == "trend") != (self.against is not None):
            raise ValueError("claim: 'against' belongs to the claim trend, and to it alone.")
        return self


class RowConfig(ClosedModel):
    """A row of a grid: a model, or a model of one author."""

    name: Text
    cell: Name | None = None
    """The experiment of all its numbers that name none; null: numbers for reference only."""
    paper: Name | None = None
    """A key of papers; null: the part's."""
    reason: Name | None = None
    """A key of reasons: why its numbers are not run that give no reason of their own."""
    table: Name | None = None
    """The table that its cells belong to, whose report has our numbers; null: this one."""
    gain_over: Text | None = None
    """Another row of the part: each of our numbers is compared with the one of that row."""
    numbers: dict[Text, NumberConfig] = Field(default_factory=dict)
    """By column. A column that is left out shows what we measured, with nothing beside it."""


class PartConfig(ClosedModel):
    """A grid of a table."""

    title: Text
    note: Text | None = None
    """What a reader must know of all its numbers."""
    paper: Name | None = None
    """A key of papers: where its numbers were printed; null: nowhere."""
    selection: Literal["honest", "paper", "both"] = "honest"
    """How the paper chose the epoch. honest: on a split that it does not report. paper: on the
    reported split itself; then both of our numbers are shown, each with its verdict. both: no
    paper chose; both are shown, and the honest one comes first."""
    tolerance: Spread = 0.0
    """Points that a mean may be below a published number and still reproduce it; where lower is
    better, units of the metric that it may be above."""
    decimals: Annotated[int, Field(ge=0, le=4)] = 2
    """Decimals that the paper prints."""
    columns: Annotated[dict[Text, Metric], Field(min_length=1)]
    """Each column's metric: '<split>.<metric>', as results/<table>.json names it. Of a cell of
    several tasks the name there begins with the task, which the number says: see `task`."""
    rows: Annotated[list[RowConfig], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_names(self) -> "PartConfig":
        names = [row.name for row in self.rows]
        for row in self.rows:
            if names.count(row.name) > 1:
                raise ValueError(f"rows: found '{row.name}' twice; each row has its own name.")
            others = [name for name in names if name != row.name]
            _check_optional(f"rows '{row.name}', gain_over", "row", row.gain_over, others)
            for column, number in row.numbers.items():
                where = f"rows '{row.name}', column '{column}'"
                _check_known(where, "column", column, self.columns)
                if number.against is not None:
                    _check_known(where, "row", number.against, names)
                if number.claim == "not_run" and (number.reason or row.reason) is None:
                    raise ValueError(f"{where}: found not_run without a reason; name one.")
                if number.value is not None and (row.paper or self.paper) is None:
                    raise ValueError(f"{where}: found a number of no paper; name the paper.")
        return self


class PublishedTable(ClosedModel):
    """A table of a paper: what it printed and what we make of it."""

    title: Text
    description: Text
    """What the table shows, in a paragraph."""
    measured_over: Literal["seeds", "runs"] | None = "seeds"
    """What our means and deviations are over; null: each of our numbers is measured once."""
    papers: dict[Name, PaperConfig] = Field(default_factory=dict)
    reasons: dict[Name, Text] = Field(default_factory=dict)
    """Why something is not run: a sentence each."""
    parts: Annotated[list[PartConfig], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_references(self) -> "PublishedTable":
        for part in self.parts:
            papers = [part.paper, *(row.paper for row in part.rows)]
            numbers = [number for row in part.rows for number in row.numbers.values()]
            papers += [beside.paper for number in numbers for beside in number.literature]
            for paper in papers:
                _check_optional(f"parts '{part.title}'", "paper", paper, self.papers)
            reasons = [row.reason for row in part.rows] + [item.reason for item in numbers]
            for reason in reasons:
                _check_optional(f"parts '{part.title}'", "reason", reason, self.reasons)
        return self


def read_published(path: Path) -> PublishedTable:
    """Read and check a file of published numbers.

    Raises:
        ConfigError: a key, a type, a value or a reference is wrong.
    """
    return read_config(path, PublishedTable)


def _check_optional(where: str, sort: str, name: str | None, allowed: Iterable[str]) -> None:
    if name is not None:
        _check_known(where, sort, name, allowed)


def _check_known(where: str, sort: str, name: str, allowed: Iterable[str]) -> None:
    if name not in allowed:
        raise ValueError(f"{where}: unknown {sort} '{name}'. {suggest(name, allowed)}")
