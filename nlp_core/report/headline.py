"""Count the outcomes of all tables: what README.md and its figure show.

A published number counts once. Where a paper chose the epoch on the split that it reports, the
number is compared with ours of the same choice; the honest choice is counted separately.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from nlp_core.metrics import is_lower_better
from nlp_core.report.comparison import ComparedPart, Comparison, Entry
from nlp_core.report.measured_table import is_measured, list_tables, read_comparison

Standing = Literal["above", "reproduced", "below"]
STANDINGS: dict[str, Standing] = {
    "above": "above",
    "reproduced": "reproduced",
    "trend": "reproduced",
    "below": "below",
    "no trend": "below",
}
"""The outcomes of a number that is compared with a published one, and how each is counted."""


class ComparedNumber(NamedTuple):
    """A published number and ours.

    Attributes:
        standing: how ours compares.
        lead: by how much ours is better, in the unit of the metric; negative: worse.
    """

    standing: Standing
    lead: float


class Tally(NamedTuple):
    """The outcomes of one table.

    Attributes:
        compared: its published numbers that we have a number for, in the table's order.
        honest: our honest numbers where `compared` has those chosen as the paper chose.
        num_not_run: published numbers that we claim and have not measured.
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
        """How many of the compared numbers are below."""
        return len(self.compared) - self.num_good


class Headline(NamedTuple):
    """The outcomes of all tables.

    Attributes:
        tallies: of each table; those with the most compared numbers come first.
    """

    tallies: list[Tally]

    @property
    def total(self) -> Tally:
        """The sum of all tables."""
        return Tally(
            table="all",
            title="All tables",
            compared=[number for tally in self.tallies for number in tally.compared],
            honest=[number for tally in self.tallies for number in tally.honest],
            num_not_run=sum(tally.num_not_run for tally in self.tallies),
        )


def read_headline(root: Path) -> Headline:
    """Read all tables and count their outcomes.

    Raises:
        ConfigError: a file of published numbers is wrong.
        DataError: a results file is damaged.
    """
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
        for first, *others in _group_places(part):
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


def _group_places(part: ComparedPart) -> list[list[Entry]]:
    """Return the entries of each place of a part; the one chosen as the paper chose is first."""
    places: dict[tuple[str, str], list[Entry]] = {}
    for entry in part.entries:
        places.setdefault((entry.row, entry.column), []).append(entry)
    return list(places.values())


def _compare(entry: Entry, part: ComparedPart) -> ComparedNumber | None:
    standing = STANDINGS.get(entry.verdict.outcome)
    if standing is None or entry.difference is None:
        return None
    lower_is_better = is_lower_better(part.config.columns[entry.column])
    return ComparedNumber(standing, -entry.difference if lower_is_better else entry.difference)
