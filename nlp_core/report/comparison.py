"""Compare what we measured with what a paper printed, and give each number its verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nlp_core.config.published import NumberConfig, PartConfig, PublishedTable, RowConfig
from nlp_core.metrics import is_lower_better
from nlp_core.report.gain import SMALLEST, Gain, expect_run, measure_gain
from nlp_core.report.results import CellResult, Results, Score
from nlp_core.statistics import Interval

Outcome = Literal[
    "above", "reproduced", "below", "trend", "no trend", "no verdict", "ours", "reference", "open"
]
Selection = Literal["honest", "paper"]

NO_EXPERIMENT = "no experiment has that cell"
NO_METRIC = "the task is not measured by it"
SHOWN: Mapping[str, list[Selection]] = {
    "honest": ["honest"],
    "paper": ["paper", "honest"],
    "both": ["honest", "paper"],
}
"""By how a part says that the epoch was chosen: which of our numbers it shows, in their order."""


class Verdict(NamedTuple):
    """What came of a number.

    Attributes:
        outcome: its sort. `reproduced`: one more run of ours is expected to reach the published
            number; `above` and `below`: it is expected to be better or worse, also where lower is
            better; `no verdict`: ours is one run, or depends on the hardware. `ours` has nothing to
            compare with, `reference` nothing of ours, `open` is not run.
        text: what the report says of it.
    """

    outcome: Outcome
    text: str


@dataclass(frozen=True)
class Entry:
    """One number of a part: a row, a column and a way of choosing the epoch.

    Attributes:
        metric: its key in the results.
        selection: how the epoch of our number was chosen.
        cell: our experiment; None for a number that is there for reference only.
        number: what was printed; without a value where the paper has none.
        ours: what we measured; None where it was not.
        gain: what our number gains over another row; None where the row is compared with none, or
            nothing was measured.
    """

    row: str
    column: str
    metric: str
    selection: Selection
    cell: str | None
    number: NumberConfig
    ours: Score | None
    verdict: Verdict
    gain: Gain | None = None

    @property
    def expected(self) -> Interval | None:
        """Where one more run is expected, if there is a published number to compare it with."""
        if self.ours is None or self.number.value is None:
            return None
        return expect_run(self.ours)

    @property
    def difference(self) -> float | None:
        """Our mean less the published number, in points."""
        if self.ours is None or self.number.value is None:
            return None
        return self.ours.mean - self.number.value


@dataclass(frozen=True)
class ComparedPart:
    """A grid of a table with our numbers in it.

    Attributes:
        entries: its numbers in the grid's order; two for one where two ways of choosing are shown.
    """

    config: PartConfig
    entries: list[Entry]


@dataclass(frozen=True)
class Comparison:
    """A whole table with our numbers in it.

    Attributes:
        parts: its grids, and one more for cells that no grid shows.
    """

    published: PublishedTable
    results: Results
    parts: list[ComparedPart]

    @property
    def entries(self) -> list[Entry]:
        """The numbers of all parts."""
        return [entry for part in self.parts for entry in part.entries]


def compare(published: PublishedTable, results: Results) -> Comparison:
    """Compare the results of a table with its published numbers; every cell of either is there."""
    parts = [ComparedPart(part, _compare_part(part, results)) for part in published.parts]
    shown = {entry.cell for part in parts for entry in part.entries}
    others = [name for name in sorted(results.cells) if name not in shown]
    if others:
        config = _collect_others({name: results.cells[name] for name in others})
        parts.append(ComparedPart(config, _compare_part(config, results)))
    return Comparison(published, results, parts)


def judge(
    number: NumberConfig, ours: Score, decimals: int, *, lower_is_better: bool = False
) -> Verdict:
    """Return the verdict of a measured number for the claim `reproduce`.

    The paper's number is one run on the split that we measure too, so it is compared with what our
    seeds expect of one more run.

    Args:
        ours: in points or in the metric's own units.
        decimals: of the published number; it was rounded to them.
        lower_is_better: whether less of the metric is better.
    """
    if number.value is None:
        return Verdict("ours", "no published number")
    expected = expect_run(ours)
    if expected is None:
        return Verdict("no verdict", "no verdict: one run")
    rounding = 0.5 * 10**-decimals + SMALLEST
    if expected.low - rounding <= number.value <= expected.high + rounding:
        return Verdict("reproduced", "reproduced")
    lead = number.value - ours.mean if lower_is_better else ours.mean - number.value
    if lead > 0:
        return Verdict("above", "better, lower" if lower_is_better else "above")
    text = "worse, higher by" if lower_is_better else "below by"
    return Verdict("below", f"{text} {-lead:.2f}")


def judge_trend(ours: float, published: float, against: str) -> Verdict:
    """Return the verdict of a difference between two rows for the claim `trend`.

    Args:
        ours: our difference, in points.
        published: the paper's.
        against: the row that both are differences to.
    """
    holds = ours * published > 0 or abs(ours - published) <= SMALLEST
    text = f"{ours:+.2f} to {against}, paper {published:+.2f}"
    return Verdict("trend", f"trend: {text}") if holds else Verdict("no trend", f"no trend: {text}")


@dataclass(frozen=True)
class _Place:
    """A place of a grid: a row, a column, and all that is known of it."""

    part: PartConfig
    row: RowConfig
    column: str
    results: Results

    @property
    def number(self) -> NumberConfig:
        return self.row.numbers.get(self.column, NumberConfig())

    @property
    def cell(self) -> str | None:
        return self.number.cell or self.row.cell

    @property
    def is_needed(self) -> bool:
        """Whether it is shown though we measured nothing."""
        if self.number.value is not None or self.number.literature:
            return True
        others = self.row.numbers.values()
        return self.cell is not None and all(other.value is None for other in others)

    def name_metric(self, selection: Selection) -> str:
        prefix = "" if self.number.task is None else f"{self.number.task}."
        suffix = ".paper" if selection == "paper" else ""
        return f"{prefix}{self.part.columns[self.column]}{suffix}"

    def find_score(self, selection: Selection) -> Score | None:
        if self.cell is None or self.cell not in self.results.cells:
            return None
        return self.results.cells[self.cell].metrics.get(self.name_metric(selection))

    def build_entry(self, selection: Selection) -> Entry:
        ours = self.find_score(selection)
        return Entry(
            row=self.row.name,
            column=self.column,
            metric=self.name_metric(selection),
            selection=selection,
            cell=self.cell,
            number=self.number,
            ours=ours,
            verdict=self._explain_absence() if ours is None else self._judge(ours, selection),
            gain=None if ours is None else self._measure_gain(ours, selection),
        )

    def _find_place(self, name: str) -> "_Place":
        """Return the place of another row in the same column."""
        row = next(row for row in self.part.rows if row.name == name)
        return _Place(self.part, row, self.column, self.results)

    def _measure_gain(self, ours: Score, selection: Selection) -> Gain | None:
        over = self.row.gain_over
        if over is None:
            return None
        return measure_gain(
            ours,
            self._find_place(over).find_score(selection),
            over,
            lower_is_better=is_lower_better(self.part.columns[self.column]),
        )

    def _judge(self, ours: Score, selection: Selection) -> Verdict:
        number = self.number
        if number.claim == "other_hardware":
            return Verdict("no verdict", "no verdict: other hardware")
        if number.claim == "trend":
            return self._judge_trend(ours, selection)
        lower_is_better = is_lower_better(self.part.columns[self.column])
        return judge(number, ours, self.part.decimals, lower_is_better=lower_is_better)

    def _judge_trend(self, ours: Score, selection: Selection) -> Verdict:
        assert self.number.against is not None, self.number
        base = self._find_place(self.number.against)
        score = base.find_score(selection)
        if score is None or base.number.value is None or self.number.value is None:
            return Verdict("open", f"trend: nothing to compare with in {base.row.name}")
        published = self.number.value - base.number.value
        return judge_trend(ours.mean - score.mean, published, base.row.name)

    def _explain_absence(self) -> Verdict:
        reason = self.number.reason or self.row.reason
        if self.cell in self.results.cells and self.number.claim != "not_run":
            return Verdict("open", f"not run: {NO_METRIC}")
        if reason is not None:
            return Verdict("open", f"not run [{reason}]")
        if self.cell is None:
            return Verdict("reference", "for reference")
        if self.row.table is not None:
            return Verdict("reference", f"see table {self.row.table}")
        return Verdict("open", f"not run: {NO_EXPERIMENT}")


def _compare_part(part: PartConfig, results: Results) -> list[Entry]:
    selections = SHOWN[part.selection]
    entries = []
    for row in part.rows:
        for column in part.columns:
            place = _Place(part, row, column, results)
            built = [place.build_entry(selection) for selection in selections]
            measured = [entry for entry in built if entry.ours is not None]
            entries += measured or (built[:1] if place.is_needed else [])
    return entries


def _collect_others(cells: Mapping[str, CellResult]) -> PartConfig:
    """Return a grid for the cells that no published grid shows."""
    keys = sorted({key for cell in cells.values() for key in cell.metrics})
    return PartConfig(
        title="Other cells of the table",
        note="Experiments that no published grid names.",
        columns={key: key for key in keys},
        rows=[RowConfig(name=name, cell=name) for name in cells],
    )
