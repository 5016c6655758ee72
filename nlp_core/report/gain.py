"""What the spread of seeds says: where one more run is expected, what a row gains over another."""

import math
from dataclasses import dataclass
from typing import Literal

from scipy.stats import t as student

from nlp_core.report.results import Score
from nlp_core.statistics import CONFIDENCE, Interval, add_variances

GainOutcome = Literal["gain", "no gain here", "loss", "one seed", "no spread", "open"]

SMALLEST = 1e-6  # results are rounded to 6 places: a smaller difference is none


@dataclass(frozen=True)
class Gain:
    """One of our numbers compared with that of another row of its column.

    Attributes:
        outcome: `gain` and `loss` where the whole interval is on one side of 0, `no gain here`
            where it holds 0; without an interval `one seed` or `no spread`; `open` where the other
            row has no number.
        difference: our mean less the other row's, in the metric's units; None without one of them.
        interval: the 95 % confidence interval of the difference over seeds; None: there is none.
    """

    over: str
    outcome: GainOutcome
    difference: float | None = None
    interval: Interval | None = None


def measure_gain(
    score: Score, other: Score | None, over: str, *, lower_is_better: bool = False
) -> Gain:
    """Return what a number gains over that of another row.

    Args:
        other: the other row's; None where it was not measured.
        lower_is_better: whether less of the metric is better; then a gain lies below 0.
    """
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


def expect_run(score: Score) -> Interval | None:
    """Return where the score of one more run is expected, with 95 % confidence.

    m - q s sqrt(1 + 1/n) to m + q s sqrt(1 + 1/n), with q the quantile of Student's t for n - 1
    degrees of freedom. It covers the chance of seeds; the split stays the same.

    Returns:
        None for one seed, which shows no spread.
    """
    if score.n == 1:
        return None
    quantile = float(student.ppf((1 + CONFIDENCE) / 2, score.n - 1))
    reach = quantile * score.sd * math.sqrt(1 + 1 / score.n)
    return Interval(score.mean - reach, score.mean + reach)


def find_interval(score: Score, other: Score) -> Interval | None:
    """Return the confidence interval of a difference of two means, each over seeds of its own.

    d - q e to d + q e with e^2 = s1^2 / n1 + s2^2 / n2 and q the quantile of Student's t, see
    `add_variances`.

    Args:
        score: the number that the other one is taken from.

    Returns:
        None where one of them has only one seed, or neither has any spread.
    """
    if min(score.n, other.n) < 2 or max(score.sd, other.sd) < SMALLEST:
        return None
    error = add_variances((item.sd**2 / item.n, item.n - 1) for item in (score, other))
    reach = float(student.ppf((1 + CONFIDENCE) / 2, error.freedom)) * math.sqrt(error.variance)
    difference = score.mean - other.mean
    return Interval(difference - reach, difference + reach)
