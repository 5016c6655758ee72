"""Which differences in a table are real: intervals, tests and letters for its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median, stdev

import numpy as np
from scipy.special import gammaln

from nlp_core.metrics import is_lower_better
from nlp_core.report.comparison import ComparedPart, Comparison, Entry
from nlp_core.report.examples import find_examples, read_runs
from nlp_core.report.markdown import render_rows
from nlp_core.statistics import (
    Interval,
    Pair,
    Resamples,
    WeightedScore,
    build_score,
    correct_holm,
    find_p_value,
    measure_spread,
    name_groups,
    resample,
    swap_examples,
)


@dataclass(frozen=True)
class RowFinding:
    """What is known of one number of a column.

    Attributes:
        mean: over seeds, in points.
        seeds: how many.
        interval: 95 % over seeds and examples.
        letters: rows of the column with a common letter cannot be distinguished.
        variation: CV* of the published number and our seeds, in percent; None without one.
    """

    row: str
    mean: float
    seeds: int
    interval: Interval
    letters: str
    variation: float | None


@dataclass(frozen=True)
class ColumnFinding:
    """The rows of a column that have committed predictions, from the best to the worst.

    Attributes:
        part: title of the part.
        selection: how the epoch was chosen.
        rows: at least one.
        units: how many were resampled: examples, or the questions of a ranking.
        resolution: the smallest difference that this split can show, in points; None for one row.
        pairs: how many of the pairs of rows are significant, and how many there are.
    """

    part: str
    column: str
    selection: str
    rows: list[RowFinding]
    units: int
    resolution: float | None
    pairs: tuple[int, int]


def find_differences(comparison: Comparison, root: Path) -> list[ColumnFinding]:
    """Return what the committed predictions say about each column of a table.

    A difference is significant if both tests agree after Holm's correction over all pairs of the
    table: the paired bootstrap with the spread of seeds, and the swap of examples.
    """
    scores = _read_scores(comparison, root)
    columns = [
        (part, column, selection, entries)
        for part in comparison.parts
        for (column, selection), entries in _group(part).items()
    ]
    chosen = [
        {
            entry.row: scores[entry.cell or "", entry.metric]
            for entry in entries
            if (entry.cell or "", entry.metric) in scores
        }
        for _, _, _, entries in columns
    ]
    samples = [{row: resample(score) for row, score in column.items()} for column in chosen]
    p_values = [_test(column, found) for column, found in zip(chosen, samples, strict=True)]
    corrected = correct_holm(
        {
            Pair(f"{idx}/{pair.first}", f"{idx}/{pair.second}"): value
            for idx, column in enumerate(p_values)
            for pair, value in column.items()
        }
    )
    findings = []
    for idx, (part, column, selection, entries) in enumerate(columns):
        if not chosen[idx]:
            continue
        own = {
            pair: corrected[Pair(f"{idx}/{pair.first}", f"{idx}/{pair.second}")]
            for pair in p_values[idx]
        }
        findings.append(_describe(part, column, selection, entries, chosen[idx], samples[idx], own))
    return findings


def measure_variation(values: Sequence[float]) -> float:
    """Return CV*, the coefficient of variation of a small sample, in percent.

    100 (1 + 1 / (4 n)) s / c4(n) / |mean|, with s the sample standard deviation and c4(n) its bias
    for a normal distribution.

    Source: Belz et al. 2022 (quantified reproducibility assessment of NLP results), section 3.
    """
    n, mean = len(values), sum(values) / len(values)
    log_bias = gammaln(n / 2) - gammaln((n - 1) / 2)
    bias = float(np.sqrt(2 / (n - 1)) * np.exp(log_bias))
    return 100 * (1 + 1 / (4 * n)) * stdev(values) / bias / abs(mean)


def _group(part: ComparedPart) -> dict[tuple[str, str], list[Entry]]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in part.entries:
        if entry.ours is not None and entry.cell is not None:
            found.setdefault((entry.column, entry.selection), []).append(entry)
    return found


def _read_scores(comparison: Comparison, root: Path) -> dict[tuple[str, str], WeightedScore]:
    """Return the scores of all cells with committed predictions, by cell and metric."""
    wanted = {(entry.cell, entry.metric) for entry in comparison.entries if entry.ours is not None}
    found = {}
    for cell in sorted({cell for cell, _ in wanted if cell is not None}):
        path = find_examples(comparison.results.table, cell, root)
        for runs in read_runs(path) if path.exists() else []:
            for metric in runs.task.metrics:
                name = runs.name_metric(metric)
                if (cell, name) in wanted:
                    score = build_score(runs.task.kind, metric, runs.predictions)
                    if score is not None:
                        found[cell, name] = score
    return found


def _test(
    scores: Mapping[str, WeightedScore], samples: Mapping[str, Resamples]
) -> dict[Pair, float]:
    """Return the larger of the two p-values of each pair of rows."""
    return {
        pair: max(p_value, find_p_value(samples[pair.first], samples[pair.second]))
        for pair, p_value in swap_examples(scores).items()
    }


def _describe(
    part: ComparedPart,
    column: str,
    selection: str,
    entries: Sequence[Entry],
    scores: Mapping[str, WeightedScore],
    samples: Mapping[str, Resamples],
    p_values: Mapping[Pair, float],
) -> ColumnFinding:
    sign = 1 if is_lower_better(entries[0].metric) else -1
    ranked = sorted(samples, key=lambda row: sign * samples[row].mean)
    letters = name_groups(ranked, p_values)
    spreads = [measure_spread(samples[a], samples[b]) for a, b in combinations(ranked, 2)]
    by_row = {entry.row: entry for entry in entries}
    rows = []
    for row in ranked:
        score, published = by_row[row].ours, by_row[row].number.value
        assert score is not None, row
        rows.append(
            RowFinding(
                row=row,
                mean=score.mean,
                seeds=score.n,
                interval=samples[row].interval,
                letters=letters[row],
                variation=None
                if published is None
                else measure_variation([published, *score.values]),
            )
        )
    significant = sum(p_value < 0.05 for p_value in p_values.values())
    return ColumnFinding(
        part=part.config.title,
        column=column,
        selection=selection,
        rows=rows,
        units=next(iter(scores.values())).shape[1],
        resolution=median(spreads) if spreads else None,
        pairs=(significant, len(p_values)),
    )


def render_differences(findings: Sequence[ColumnFinding]) -> str:
    """Return the report's section on intervals and tests; empty without committed predictions."""
    if not findings:
        return ""
    return "\n\n".join(
        [
            "## Which differences are real",
            "From the committed predictions of each seed. The interval covers the chance of seeds "
            "and of examples together. Rows of a column that share a letter cannot be "
            "distinguished: at the 5 % level, corrected by Holm over all pairs of the table, a "
            "paired bootstrap with the spread of seeds or a swap of examples between the two rows "
            "shows no difference. CV* is the coefficient of variation of the published number and "
            "our seeds. [docs/statistics.md](../docs/statistics.md) explains the words.",
            *(_render_column(finding) for finding in findings),
        ]
    )


def _render_column(finding: ColumnFinding) -> str:
    has_variation = any(row.variation is not None for row in finding.rows)
    header = [
        "model",
        "ours (seeds)",
        "95 % interval",
        "letters",
        *(["CV*"] if has_variation else []),
    ]
    rows = [
        [
            row.row,
            f"{row.mean:.2f} ({row.seeds})",
            f"{row.interval.low:.2f} to {row.interval.high:.2f}",
            row.letters,
            *([_format_variation(row.variation)] if has_variation else []),
        ]
        for row in finding.rows
    ]
    way = "" if finding.selection == "honest" else ", epoch chosen as in the paper"
    title = f"{finding.part}, {finding.column}{way}"
    resolved = ""
    if finding.resolution is not None:
        significant, pairs = finding.pairs
        resolved = (
            f" {significant} of {pairs} differences are significant. This split resolves "
            f"differences of about {finding.resolution:.1f} points (80 % power)."
        )
    return (
        f"**{title}.** {finding.units:,} examples (of a ranking: questions).{resolved}\n\n"
        + render_rows(header, rows)
    )


def _format_variation(variation: float | None) -> str:
    return "" if variation is None else f"{variation:.2f} %"
