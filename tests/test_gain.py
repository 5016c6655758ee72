"""Tests of gains in nlp_core/report/comparison.py, and of what the report shows of them."""

import math
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from fabricated import find_entry
from scipy.stats import ttest_ind

from nlp_core.config.published import PublishedTable, read_published
from nlp_core.errors import ConfigError
from nlp_core.report.comparison import Comparison, compare, find_interval, measure_gain
from nlp_core.report.evaluation import summarise
from nlp_core.report.figure import draw_figure
from nlp_core.report.markdown import render_report, summarise_outcomes
from nlp_core.report.results import CellResult, Results, TaskSplits
from nlp_core.report.table import render_making
from tests.tiny import make_recipe

PUBLISHED = """
title: Gains
description: A table for tests.
reasons:
  data: for want of data
parts:
  - title: Plain and together
    selection: both
    decimals: 1
    columns: {RTE: dev.accuracy, STS-B error: dev.rmse, QQP: dev.accuracy}
    rows:
      - name: Plain
        numbers:
          RTE: {cell: rte_alone}
          STS-B error: {cell: stsb_alone}
          QQP: {cell: qqp_alone, claim: not_run, reason: data}
      - name: Together
        cell: together
        gain_over: Plain
        numbers:
          RTE: {task: rte}
          STS-B error: {task: stsb}
          QQP: {claim: not_run, reason: data}
"""
VALUES = {
    "rte_alone": {"dev.accuracy": [60.0, 61.0, 62.0], "dev.accuracy.paper": [62.0, 63.0, 64.0]},
    "stsb_alone": {"dev.rmse": [0.9, 1.0, 1.1], "dev.rmse.paper": [0.9, 1.0, 1.1]},
    "together": {
        "rte.dev.accuracy": [66.0, 68.0, 67.0],
        "rte.dev.accuracy.paper": [62.0, 66.0],
        "stsb.dev.rmse": [0.5, 0.6, 0.7],
        "stsb.dev.rmse.paper": [1.4],
    },
}
GOLDEN = """\
| model | number | epoch | ours, mean \u00b1 sd (seeds) | gain, 95 % interval | verdict |
| --- | --- | --- | --- | --- | --- |
| Plain | RTE | honest | 61.00 \u00b1 1.00 (3) |  | no published number |
| Plain | RTE | as the paper | 63.00 \u00b1 1.00 (3) |  | no published number |
| Plain | STS-B error | honest | 1.00 \u00b1 0.10 (3) |  | no published number |
| Plain | STS-B error | as the paper | 1.00 \u00b1 0.10 (3) |  | no published number |
| Plain | QQP |  |  |  | not run [data] |
| Together | RTE | honest | 67.00 \u00b1 1.00 (3) | +6.00 over Plain, +3.73 to +8.27: gain \
| no published number |
| Together | RTE | as the paper | 64.00 \u00b1 2.83 (2) \
| +1.00 over Plain, -17.91 to +19.91: no gain here | no published number |
| Together | STS-B error | honest | 0.60 \u00b1 0.10 (3) \
| -0.40 over Plain, -0.63 to -0.17: gain | no published number |
| Together | STS-B error | as the paper | 1.40 (1) \
| +0.40 over Plain, no interval: one seed | no published number |
| Together | QQP |  |  |  | not run [data] |

Gain: the difference to the mean of another row, with its 95 % confidence interval over seeds by \
Welch's t. It is a gain where the whole interval is above 0, a loss where it is below, and no gain \
here where it holds 0. Less is better for STS-B error, where the two words are swapped. An \
interval covers the chance of seeds, not of the examples that were measured, and each by \
itself: where nothing differs, one in twenty still misses 0.

- not run [data]: for want of data.
"""


def find_quantile(freedom: float) -> float:
    """Return where Student's t has 97.5 % below it: Simpson's rule and bisection, no library."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)

    def integrate(high: float, steps: int = 2000) -> float:
        ends = [high * idx / steps for idx in range(steps + 1)]
        density = [scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in ends]
        inner = 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2])
        return (density[0] + inner + density[-1]) * high / steps / 3

    low, high = 0.0, 20.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if integrate(middle) < 0.475 else (low, middle)
    return (low + high) / 2


def make_result(metrics: dict[str, list[float]]) -> CellResult:
    splits = TaskSplits(kind="classification", select_split="held_out", report_split="dev")
    return CellResult(
        metrics={key: summarise(values) for key, values in metrics.items()},
        seeds=[1, 2, 3],
        epochs={"honest": [1.0, 1.0, 1.0]},
        model="zoo/trial/alpha.json",
        recipe="quick",
        data={},
        init=None,
        tasks={"rte": splits, "stsb": splits},
        parameters={"total": 12},
        footnotes=[],
        fingerprint={},
        numerics=1,
    )


def make_comparison(**changes: dict[str, list[float]]) -> Comparison:
    """Return the table with changed values of some cells; without values a cell is missing."""
    cells = {name: make_result(values) for name, values in (VALUES | changes).items() if values}
    published = PublishedTable.model_validate(yaml.safe_load(PUBLISHED))
    return compare(published, Results(table="trial", cells=cells))


@pytest.mark.parametrize(
    ("values", "others", "freedom", "error"),
    [
        # equal variances of 1 and three seeds each: 4 degrees, sqrt(1/3 + 1/3)
        ([2.0, 3.0, 4.0], [1.0, 0.0, -1.0], 4.0, math.sqrt(2 / 3)),
        # no spread on one side: the degrees of the other, n - 1
        ([5.0, 5.0, 5.0], [1.0, 2.0, 3.0], 2.0, math.sqrt(1 / 3)),
        # variances 2 of two and 5/2 of five: shares 1 and 1/2
        ([3.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0], float(Fraction(9, 4) / Fraction(17, 16)), 1.5**0.5),
    ],
)
def test_an_interval_is_welchs(
    values: list[float], others: list[float], freedom: float, error: float
) -> None:
    found = find_interval(summarise(values), summarise(others))
    difference = sum(values) / len(values) - sum(others) / len(others)
    reach = find_quantile(freedom) * error
    assert found == pytest.approx((difference - reach, difference + reach), abs=1e-6)


def test_the_quantiles_of_the_tests_are_those_of_closed_forms() -> None:
    # p = 0.975: tan(pi (p - 1/2)) for one degree, (2p - 1) sqrt(2 / (4p (1 - p))) for two
    assert find_quantile(1.0) == pytest.approx(math.tan(0.475 * math.pi), abs=1e-5)
    assert find_quantile(2.0) == pytest.approx(0.95 * math.sqrt(2 / 0.0975), abs=1e-6)


def test_an_interval_is_that_of_scipys_own_test() -> None:
    values, others = [66.1, 70.4, 68.3, 71.0], [64.0, 63.2, 65.9]
    expected = ttest_ind(values, others, equal_var=False).confidence_interval(0.95)
    found = find_interval(summarise(values), summarise(others))
    assert found == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "others", "outcome", "lower"),
    [
        ([5.0, 5.1, 5.2], [1.0, 1.1, 1.2], "gain", "loss"),
        ([1.0, 1.1, 1.2], [5.0, 5.1, 5.2], "loss", "gain"),
        ([1.0, 2.0, 3.0], [1.5, 2.5, 3.5], "no gain here", "no gain here"),
        ([5.0], [1.0, 1.1, 1.2], "one seed", "one seed"),
        ([5.0, 5.1], [1.0], "one seed", "one seed"),
        ([5.0, 5.0], [1.0, 1.0], "no spread", "no spread"),
    ],
)
def test_the_word_says_on_which_side_of_0_the_interval_is(
    values: list[float], others: list[float], outcome: str, lower: str
) -> None:
    score, other = summarise(values), summarise(others)
    assert measure_gain(score, other, "A").outcome == outcome
    assert measure_gain(score, other, "A", lower_is_better=True).outcome == lower


def test_a_row_without_its_other_row_has_no_difference() -> None:
    found = measure_gain(summarise([1.0, 2.0]), None, "A")
    assert (found.outcome, found.difference, found.interval) == ("open", None, None)


def test_the_part_of_the_report_is_golden() -> None:
    report = render_report(make_comparison(), {}, [])
    part = report.split("## Plain and together\n\n")[1].split("\n## ")[0]
    assert part == GOLDEN


def test_a_number_of_a_cell_of_several_tasks_says_its_task() -> None:
    comparison = make_comparison()
    entry = find_entry(comparison, "Together", "RTE", "paper")
    assert entry.metric == "rte.dev.accuracy.paper"
    assert entry.ours is not None
    assert entry.ours.values == [62.0, 66.0]
    with pytest.raises(
        ConfigError, match=r"'rte\.dev\.accuracy', by which 'together' is not measured"
    ):
        make_comparison(together={"mrpc.dev.accuracy": [1.0, 2.0, 3.0]})


def test_the_splits_of_several_tasks_are_named_once() -> None:
    report = "\n".join(render_making(make_comparison().results.cells, {"quick": make_recipe()}))
    assert "| quick | 1, 2, 3 | 12 | held_out | dev | 1, 1, 1 |" in report


def test_the_report_says_where_no_split_chose_the_epoch() -> None:
    recipes = {"quick": make_recipe(kept_epoch="last")}
    report = "\n".join(render_making(make_comparison().results.cells, recipes))
    assert "| quick | 1, 2, 3 | 12 | nothing, the last is kept | dev | 1, 1, 1 |" in report


def test_the_summary_counts_gains() -> None:
    assert summarise_outcomes(make_comparison().entries) == (
        "4 numbers measured, epoch chosen as the paper did: 4 with no published number; "
        "compared with another row, epoch chosen as the paper did: 1 without a difference, 1 "
        "without an interval; "
        "4 numbers measured, epoch chosen honestly: 4 with no published number; "
        "compared with another row, epoch chosen honestly: 2 gains; 2 not run."
    )
    without = summarise_outcomes(make_comparison(rte_alone={}).entries)
    assert "epoch chosen honestly: 1 gain, 1 with nothing to compare with;" in without


def test_the_figure_has_a_band_for_each_interval() -> None:
    figure = draw_figure(make_comparison()).decode()
    assert ">difference to it, 95 % interval</text>" in figure
    assert figure.count("stroke-opacity: 0.22") == 3 + 1  # three intervals, and the legend
    alone = draw_figure(make_comparison(together={})).decode()
    assert "95 %" not in alone


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gain_over: Plain", "gain_over: Plan", "unknown row 'Plan'. Did you mean 'Plain'"),
        ("gain_over: Plain", "gain_over: Together", "gain_over: unknown row 'Together'"),
        ("task: rte", "task: RTE", "should match pattern"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(PUBLISHED.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        read_published(path)
