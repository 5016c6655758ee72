"""Which differences in a table are real: intervals, tests and letters for its rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median, stdev
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from nlp_core.config.dataset import TRAIN
from nlp_core.kinds import KINDS, MASKED_LANGUAGE_MODEL
from nlp_core.metrics import find_direction, is_in_points
from nlp_core.report.comparison import Comparison, Entry
from nlp_core.report.examples import Runs, read_all_runs
from nlp_core.report.markdown import render_rows
from nlp_core.statistics import (
    LEVEL,
    POINTS,
    Interval,
    Pair,
    Resamples,
    UnpairedScore,
    WeightedScore,
    correct_holm,
    find_p_value,
    find_summing,
    measure_spread,
    name_groups,
    resample,
    swap_examples,
)

OWN_WINDOWS = "set of windows for each seed"


@dataclass(frozen=True)
class RowFinding:
    """What is known of one number of a column."""

    row: str
    mean: float
    seeds: int
    interval: Interval
    """95 % over seeds and examples."""
    letters: str
    """Rows of the column with a common letter cannot be distinguished."""
    variation: float | None
    """CV* of the published number and our seeds, in percent; None if nothing was published, or
    their mean is 0."""


@dataclass(frozen=True)
class ColumnFinding:
    """The rows of a column that have committed predictions, from the best to the worst.

    Attributes:
        part: title of the part.
        units: how many were resampled.
        unit: what they are: examples, questions or queries.
        resolution: the smallest difference that this split can show; None for one row, or if no
            resample shows a difference.
        pairs: how many of the pairs of rows are significant, and how many there are.
        measure: what follows a number: points, or nothing.
    """

    part: str
    column: str
    selection: str
    rows: list[RowFinding]
    units: int
    unit: str
    resolution: float | None
    pairs: tuple[int, int]
    measure: str = " points"


class _Scored(NamedTuple):
    """A score, what its units are, and what identifies them; see `Runs.units`."""

    unit: str
    score: WeightedScore
    ids: tuple[float, ...]


Key = tuple[str | None, str]
"""A cell and a metric."""


@dataclass(frozen=True)
class _Column:
    """The entries of a column with the scores and the resamples of those that have predictions."""

    part: str
    entries: list[Entry]
    unit: str
    scores: dict[str, WeightedScore]
    samples: dict[str, Resamples]

    def describe(self, p_values: Mapping[Pair, float]) -> ColumnFinding:
        first = self.entries[0]
        direction = find_direction(first.metric)
        ranked = sorted(self.samples, key=lambda row: -direction * self.samples[row].mean)
        letters = name_groups(ranked, p_values)
        pairs = combinations(ranked, 2)
        spreads = [measure_spread(self.samples[a], self.samples[b]) for a, b in pairs]
        spreads = [spread for spread in spreads if spread > 0]  # 0: equal in every resample
        by_row = {entry.row: entry for entry in self.entries}
        rows = []
        for row in ranked:
            score, published = by_row[row].ours, by_row[row].number.value
            assert score is not None, row
            variation = None if published is None else measure_variation([published, *score.values])
            interval = self.samples[row].interval
            rows.append(RowFinding(row, score.mean, score.n, interval, letters[row], variation))
        return ColumnFinding(
            part=self.part,
            column=first.column,
            selection=first.selection,
            rows=rows,
            units=next(iter(self.scores.values())).shape[1],
            unit=self.unit,
            resolution=median(spreads) if spreads else None,
            measure=" points" if is_in_points(first.metric) else "",
            pairs=(sum(value < LEVEL for value in p_values.values()), len(p_values)),
        )


def find_p_values(
    scores: Sequence[Mapping[str, WeightedScore]], samples: Sequence[Mapping[str, Resamples]]
) -> list[dict[Pair, float]]:
    """Return the larger of the two p-values of each pair of rows, column by column.

    They are corrected by Holm over all pairs of all columns.
    """
    # columns share the names of rows, so the key of a pair includes its column
    larger = {
        (idx, pair): max(value, find_p_value(own[pair.first], own[pair.second]))
        for idx, (own, p_values) in enumerate(zip(samples, swap_examples(scores), strict=True))
        for pair, value in p_values.items()
    }
    found: list[dict[Pair, float]] = [{} for _ in scores]
    for (idx, pair), value in correct_holm(larger).items():
        found[idx][pair] = value
    return found


def find_differences(comparison: Comparison, root: Path) -> list[ColumnFinding]:
    """Return what the committed predictions say about each column of a table."""
    return compare_rows(comparison, read_all_runs(comparison.results.table, root))


def compare_rows(comparison: Comparison, runs: Mapping[str, Sequence[Runs]]) -> list[ColumnFinding]:
    """Return what predictions say about each column of a table.

    A difference is significant if both tests agree after Holm's correction over all pairs of the
    table: the paired bootstrap with the spread of seeds, and the swap of examples.

    Args:
        runs: what the seeds of each cell predicted.
    """
    columns = list(_list_columns(comparison, _build_scores(comparison, runs)))
    tests = find_p_values([item.scores for item in columns], [item.samples for item in columns])
    return [column.describe(p_values) for column, p_values in zip(columns, tests, strict=True)]


def _list_columns(comparison: Comparison, found: Mapping[Key, _Scored]) -> Iterator[_Column]:
    """Yield each column and way of choosing the epoch that has committed predictions.

    Rows measured on other examples are a column of their own, since tests pair examples.
    """
    for part in comparison.parts:
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in part.entries:
            if entry.ours is not None and entry.cell is not None:
                groups.setdefault((entry.column, entry.selection), []).append(entry)
        for entries in groups.values():
            keys = {entry.row: (entry.cell, entry.metric) for entry in entries}
            measured = {row: found[key] for row, key in keys.items() if key in found}
            for ids in dict.fromkeys(item.ids for item in measured.values()):
                own = {row: item for row, item in measured.items() if item.ids == ids}
                scores = {row: item.score for row, item in own.items()}
                samples = {row: resample(score) for row, score in scores.items()}
                unit = next(iter(own.values())).unit
                yield _Column(part.config.title, entries, unit, scores, samples)


def measure_variation(values: Sequence[float]) -> float | None:
    """Return CV*, the coefficient of variation of a small sample, in percent.

    None: the mean is 0.

    100 (1 + 1 / (4 n)) s / c4(n) / |mean|, with s the sample standard deviation and c4(n) its bias
    for a normal distribution.

    Source: Belz et al. 2022 (quantified reproducibility assessment of NLP results), section 3.
    """
    n, mean = len(values), sum(values) / len(values)
    if mean == 0:
        return None
    log_bias = gammaln(n / 2) - gammaln((n - 1) / 2)
    bias = float(np.sqrt(2 / (n - 1)) * np.exp(log_bias))
    return 100 * (1 + 1 / (4 * n)) * stdev(values) / bias / abs(mean)


def _build_scores(comparison: Comparison, runs: Mapping[str, Sequence[Runs]]) -> dict[Key, _Scored]:
    """Return the scores of all cells with committed predictions."""
    wanted = {(entry.cell, entry.metric) for entry in comparison.entries if entry.ours is not None}
    found: dict[Key, _Scored] = {}
    for cell, name in sorted((cell, name) for cell, name in wanted if cell is not None):
        for item in runs.get(cell, ()):
            metric = item.find_metric(name)
            score = None if metric is None else item.build_score(metric)
            if score is not None:
                found[cell, name] = _Scored(KINDS.get(item.task.kind).unit, score, item.units)
    for entry in comparison.entries:
        if entry.ours is not None and entry.ours.n > 1 and _is_of_own_windows(entry, runs):
            values = np.array(entry.ours.values)
            known = find_summing(MASKED_LANGUAGE_MODEL.name, entry.metric.removeprefix(f"{TRAIN}."))
            bounds = (known.lowest, known.highest) if known else (0.0, POINTS)
            score = UnpairedScore(values, *bounds)
            found[entry.cell, entry.metric] = _Scored(OWN_WINDOWS, score, ())
    return found


def _is_of_own_windows(entry: Entry, runs: Mapping[str, Sequence[Runs]]) -> bool:
    """Return whether each seed was measured on windows that it was pretrained on."""
    return entry.metric.startswith(f"{TRAIN}.") and any(
        KINDS.get(item.task.kind).is_auxiliary for item in runs.get(entry.cell or "", ())
    )


def render_differences(findings: Sequence[ColumnFinding]) -> str:
    """Return the report's section on intervals and tests; empty without committed predictions."""
    if not findings:
        return ""
    has_one = any(row.seeds == 1 for finding in findings for row in finding.rows)
    single = "Where a row has one seed, its interval and tests cover the examples only. " * has_one
    return "\n\n".join(
        [
            "## Which differences are real",
            "From the committed predictions of each seed. The interval covers the chance of seeds "
            f"and of examples together. {single}Rows of a column that share a letter cannot be "
            "distinguished: at the 5 % level, corrected by Holm over all pairs of the table, a "
            "paired bootstrap with the spread of seeds or a swap of examples between the two rows "
            "shows no difference. CV* is the coefficient of variation of the published number and "
            "our seeds. [docs/statistics.md](../docs/statistics.md) explains the words.",
            *(_render_column(finding) for finding in findings),
        ]
    )


def _render_column(finding: ColumnFinding) -> str:
    has_variation = any(row.variation is not None for row in finding.rows)
    header = ["model", "ours (seeds)", "95 % interval", "letters"]
    rows = [
        [
            row.row,
            f"{row.mean:.2f} ({row.seeds})",
            f"{row.interval:.2f}",
            row.letters,
        ]
        for row in finding.rows
    ]
    if has_variation:
        header.append("CV*")
        for cells, row in zip(rows, finding.rows, strict=True):
            cells.append("" if row.variation is None else f"{row.variation:.2f} %")
    way = "" if finding.selection == "honest" else ", epoch chosen as in the paper"
    sentences = [
        f"**{finding.part}, {finding.column}{way}.** {finding.units:,} {finding.unit}.",
        *_describe_tests(finding),
    ]
    return " ".join(sentences) + "\n\n" + render_rows(header, rows)


def _describe_tests(finding: ColumnFinding) -> Iterator[str]:
    significant, pairs = finding.pairs
    if pairs == 1:
        yield f"The difference is {'' if significant else 'not '}significant."
    elif pairs:
        verb = "is" if significant == 1 else "are"
        yield f"{significant} of {pairs} differences {verb} significant."
    if finding.resolution is not None:
        yield (
            f"This split resolves differences of about {finding.resolution:.1f}{finding.measure} "
            "(80 % power)."
        )
