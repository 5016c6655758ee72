"""Compare what we measured with what a paper printed, and give each number its verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from scipy.special import stdtrit

from nlp_core.config.params import Params
from nlp_core.config.published import (
    NumberConfig,
    PartConfig,
    PublishedTable,
    RowConfig,
    read_published,
)
from nlp_core.metrics import find_metric, is_lower_better
from nlp_core.report.published_check import check_cells, check_numbers
from nlp_core.report.results import CellResult, Results, Score, find_results, read_results
from nlp_core.statistics import CONFIDENCE, Interval, add_variances
from nlp_core.statistics.summands import POINTS

Outcome = Literal[
    "above", "reproduced", "below", "trend", "no trend", "no verdict", "ours", "reference", "open"
]
GainOutcome = Literal["gain", "no gain here", "loss", "one seed", "no spread", "open"]
Selection = Literal["honest", "paper"]

SMALLEST = 1e-6  # results are rounded to 6 places: a smaller difference is none
SHOWN: Mapping[str, list[Selection]] = {
    "honest": ["honest"],
    "paper": ["paper", "honest"],
    "both": ["honest", "paper"],
}
"""Which of our numbers a part shows, in order, by its way of choosing the epoch."""


class Verdict(NamedTuple):
    """How our number compares with the published one, and what the report says about it.

    `reproduced`: one more run of ours is expected to reach the published number; `above` and
    `below`: it is expected to be better or worse, also where lower is better; `no verdict`: ours is
    one run, or depends on the hardware. `ours` has nothing to compare with, `reference` nothing of
    ours, `open` is not run.
    """

    outcome: Outcome
    text: str


@dataclass(frozen=True)
class Gain:
    """One of our numbers compared with that of another row of its column.

    Attributes:
        outcome: `gain` and `loss` where the whole interval is on one side of 0, `no gain here`
            where it holds 0; without an interval `one seed` or `no spread`; `open` where the other
            row has no number.
        difference: our mean less the other row's; None if the other row was not measured.
        interval: the 95 % confidence interval of the difference over seeds, if there is one.
    """

    over: str
    outcome: GainOutcome
    difference: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Entry:
    """One number of a part: a row, a column and a way of choosing the epoch.

    Attributes:
        metric: its key in the results.
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
        found, known = expect_run(self.ours), find_metric(self.metric)
        if found is None or known is None or not known.in_points:
            return found
        return Interval(max(found.low, -POINTS), min(found.high, POINTS))

    @property
    def difference(self) -> float | None:
        """Our mean less the published number, in points."""
        if self.ours is None or self.number.value is None:
            return None
        return self.ours.mean - self.number.value


@dataclass(frozen=True)
class ComparedPart:
    """A grid of a table with our numbers; two entries where two ways of choosing are shown."""

    config: PartConfig
    entries: list[Entry]


@dataclass(frozen=True)
class Comparison:
    """A whole table with our numbers; its last part has the cells that no published grid shows."""

    published: PublishedTable
    results: Results
    parts: list[ComparedPart]

    @property
    def entries(self) -> list[Entry]:
        return [entry for part in self.parts for entry in part.entries]

    def find_mean_interval(self, entry: Entry) -> Interval | None:
        """Return where the mean over all possible runs of a time is, with 95 % confidence.

        None: the table has scores over seeds, or there is one run.
        """
        if self.published.measured_over == "seeds" or entry.ours is None or entry.ours.n == 1:
            return None
        low, high = build_interval(entry.ours, 1 / entry.ours.n)
        return Interval(max(low, 0.0), high)  # no time is below 0


def list_tables(root: Path) -> list[str]:
    """Return the tables that have published numbers, sorted."""
    return sorted(path.stem for path in (root / "reports" / "published").glob("*.yaml"))


def is_measured(table: str, root: Path) -> bool:
    return find_results(table, root).exists()


def read_comparison(
    table: str, root: Path, *, allow_missing: bool = False, params: Params | None = None
) -> Comparison:
    """Read the published and the measured numbers of a table and compare them.

    Args:
        allow_missing: whether a table without results has nothing measured, or is an error.
        params: where the cells of all numbers must be; None: that is not checked.
    """
    published = read_published(root / "reports" / "published" / f"{table}.yaml")
    results = read_results(table, root, allow_missing=allow_missing)
    if params is not None:
        check_cells(published, results, params)
    return compare(published, results)


def compare(published: PublishedTable, results: Results) -> Comparison:
    """Compare the results of a table with its published numbers; every cell of either is there."""
    check_numbers(published, results)
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
        decimals: those of the published number, which was rounded to them.
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
    """Return the verdict of a difference to the row `against`, in points, for the claim `trend`."""
    holds = ours * published > 0 or abs(ours - published) <= SMALLEST
    text = f"{ours:+.2f} to {against}, paper {published:+.2f}"
    return Verdict("trend", f"trend: {text}") if holds else Verdict("no trend", f"no trend: {text}")


def measure_gain(
    score: Score, other: Score | None, over: str, *, lower_is_better: bool = False
) -> Gain:
    """Return what a number gains over that of another row; where lower is better, it is below 0."""
    if other is None:
        return Gain(over, "open")
    difference = score.mean - other.mean
    interval = find_interval(score, other)
    if interval is None:
        return Gain(over, "one seed" if min(score.n, other.n) == 1 else "no spread", difference)
    better, worse = interval.low > 0, interval.high < 0
    if lower_is_better:
        better, worse = worse, better
    outcome: GainOutcome = "gain" if better else "loss" if worse else "no gain here"
    return Gain(over, outcome, difference, interval)


def expect_run(score: Score, num_scores: int = 1) -> Interval | None:
    """Return where the score of one more run is expected, with 95 % confidence.

    With `num_scores` above 1, all scores are expected in their intervals at once (Bonferroni).

    m - q s sqrt(1 + 1/n) to m + q s sqrt(1 + 1/n), with q the quantile of Student's t for n - 1
    degrees of freedom. It covers the variation between seeds, not between splits. One seed
    shows no spread, so it has no interval.
    """
    return None if score.n == 1 else build_interval(score, 1 + 1 / score.n, num_scores)


def build_interval(score: Score, factor: float, num_scores: int = 1) -> Interval:
    """Return the interval of Student's t with `factor` times the variance of the runs."""
    quantile = float(stdtrit(score.n - 1, 1 - (1 - CONFIDENCE) / 2 / num_scores))
    reach = quantile * score.sd * math.sqrt(factor)
    return Interval(score.mean - reach, score.mean + reach)


def find_interval(score: Score, other: Score) -> Interval | None:
    """Return the confidence interval of the difference of two means over different seeds.

    d - q e to d + q e with e^2 = s1^2 / n1 + s2^2 / n2 and q the quantile of Student's t, see
    `add_variances`. There is none where one mean is of one seed, or neither has any spread.
    """
    if min(score.n, other.n) < 2 or max(score.sd, other.sd) < SMALLEST:
        return None
    error = add_variances((item.sd**2 / item.n, item.n - 1) for item in (score, other))
    reach = float(stdtrit(error.freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(error.variance)
    difference = score.mean - other.mean
    return Interval(difference - reach, difference + reach)


@dataclass(frozen=True)
class _Place:
    """A row and a column of a grid."""

    part: PartConfig
    row: RowConfig
    column: str
    results: Results

    @property
    def number(self) -> NumberConfig:
        return self.row.numbers.get(self.column, NumberConfig())

    @property
    def cell(self) -> str | None:
        return self.row.find_cell(self.column)

    @property
    def is_needed(self) -> bool:
        """Whether it is shown though we measured nothing."""
        if self.number.value is not None or self.number.literature:
            return True
        others = self.row.numbers.values()
        return self.cell is not None and all(other.value is None for other in others)

    def name_metric(self, selection: Selection) -> str:
        suffix = ".paper" if selection == "paper" else ""
        return f"{self.number.name_metric(self.part.columns[self.column])}{suffix}"

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
        if reason is not None:
            return Verdict("open", f"not run [{reason}]")
        if self.cell is None:
            return Verdict("reference", "for reference")
        if self.row.table is not None:
            return Verdict("reference", f"see table {self.row.table}")
        return Verdict("open", "not run: that cell is not measured")


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
