"""reports/published/*.yaml: a paper's table, as data.

A file holds the grids of one table in the paper's shape. A column names the metric, a row or a
number names our cell, a number says what was printed and what we claim about it. Papers and reasons
are written once and have a key.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Name, NonNegative, Text, check_known, read_config

Metric = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+(@.+)?$")]
Claim = Literal["reproduce", "trend", "not_run", "other_hardware"]


class PaperConfig(ClosedModel):
    name: Text
    """Name in the report: 'Gong et al. 2019'."""
    citation: Text
    """Title, venue, year."""
    place: Text | None = None
    """Table or section; null if only other numbers are compared with it."""
    url: Text | None = None


class LiteratureConfig(ClosedModel):
    """Another paper's number for the same thing."""

    value: float
    sd: NonNegative | None = None
    paper: Name
    """A key of papers."""


class NumberConfig(ClosedModel):
    """A number of a paper's table, and what we claim about it."""

    value: float | None = None
    """As printed, scores in points; null: the paper has no such number."""
    sd: NonNegative | None = None
    """Standard deviation, if printed."""
    cell: Name | None = None
    """The experiment it is compared with; null: the row's."""
    task: Name | None = None
    """The task of a multi-task cell; null: the only one."""
    claim: Claim = "reproduce"
    """reproduce: one more run of ours is expected to reach it. trend: our difference to the row
    `against` has the paper's sign. not_run: see reason; if results exist all the same, they are
    compared as for reproduce. other_hardware: a time, or what is computed of times; both numbers
    are shown without a verdict."""
    reason: Name | None = None
    """A key of reasons why it is not run; null: the row's."""
    against: Text | None = None
    """For trend: the row that the difference is to."""
    literature: list[LiteratureConfig] = Field(default_factory=list)
    remark: Text | None = None
    """What a reader must know to judge the difference."""

    def name_metric(self, metric: str) -> str:
        """Return the key in the results of a column's metric."""
        return metric if self.task is None else f"{self.task}.{metric}"

    @model_validator(mode="after")
    def _check_claim(self) -> "NumberConfig":
        if (self.claim == "trend") != (self.against is not None):
            raise ValueError("claim: expected 'against' with the claim trend and only with it.")
        return self


class RowConfig(ClosedModel):
    """A model, or a model of one author."""

    name: Text
    cell: Name | None = None
    """The experiment of its numbers that name none; null: numbers for reference only."""
    paper: Name | None = None
    """A key of papers; null: the part's."""
    reason: Name | None = None
    """A key of reasons, for numbers without one."""
    table: Name | None = None
    """The table whose report has our numbers; null: this one."""
    gain_over: Text | None = None
    """Another row of the part: each of our numbers is compared with that row's."""
    numbers: dict[Text, NumberConfig] = Field(default_factory=dict)
    """By column. A missing column shows only what we measured."""

    def find_cell(self, column: str) -> str | None:
        """Return our cell for a column."""
        number = self.numbers.get(column)
        return (number and number.cell) or self.cell


class PartConfig(ClosedModel):
    """A grid of a table."""

    title: Text
    note: Text | None = None
    """What a reader must know about all its numbers."""
    paper: Name | None = None
    """A key of papers: where its numbers were printed."""
    selection: Literal["honest", "paper", "both"] = "honest"
    """How the paper chose the epoch. honest: on a split that it does not report. paper: on the
    reported split; then both of our numbers are shown, each with its verdict. both: no paper chose;
    both are shown, the honest one first."""
    decimals: Annotated[int, Field(ge=0, le=4)] = 2
    columns: Annotated[dict[Text, Metric], Field(min_length=1)]
    """Metric of each column: '<split>.<metric>', as in results/<table>.json, without the task of a
    multi-task cell."""
    rows: Annotated[list[RowConfig], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_names(self) -> "PartConfig":
        names = [row.name for row in self.rows]
        for row in self.rows:
            if names.count(row.name) > 1:
                raise ValueError(f"rows: found '{row.name}' twice; rename one.")
            others = [name for name in names if name != row.name]
            check_known(f"rows '{row.name}', gain_over", "row", row.gain_over, others)
            for column, number in row.numbers.items():
                where = f"rows '{row.name}', column '{column}'"
                check_known(where, "column", column, self.columns)
                check_known(where, "row", number.against, others)
                if number.claim == "not_run" and (number.reason or row.reason) is None:
                    raise ValueError(f"{where}: found not_run without a reason; name one.")
                if number.value is not None and not (row.paper or self.paper):
                    raise ValueError(f"{where}: found a number without a paper; name one.")
        return self


class PublishedTable(ClosedModel):
    """A table of a paper."""

    title: Text
    description: Text
    """A paragraph."""
    measured_over: Literal["seeds", "runs"] = "seeds"
    """What our means and standard deviations are computed over."""
    papers: dict[Name, PaperConfig] = Field(default_factory=dict)
    reasons: dict[Name, Text] = Field(default_factory=dict)
    """A sentence each."""
    parts: Annotated[list[PartConfig], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_titles(self) -> "PublishedTable":
        titles = [part.title for part in self.parts]
        if twice := next((title for title in titles if titles.count(title) > 1), None):
            raise ValueError(f"parts: found the title '{twice}' twice; rename one.")
        return self

    @model_validator(mode="after")
    def _check_references(self) -> "PublishedTable":
        for part in self.parts:
            where = f"parts '{part.title}'"
            numbers = [number for row in part.rows for number in row.numbers.values()]
            papers = [part.paper, *(row.paper for row in part.rows)]
            papers += [other.paper for number in numbers for other in number.literature]
            for paper in papers:
                check_known(where, "paper", paper, self.papers)
            for reason in [row.reason for row in part.rows] + [item.reason for item in numbers]:
                check_known(where, "reason", reason, self.reasons)
        return self


def read_published(path: Path) -> PublishedTable:
    return read_config(path, PublishedTable)
