"""Resamples of examples, the spread of seeds, and what follows: intervals, p-values, letters.

Shape letters: S seeds, N units, R rounds, see `nlp_core.statistics.score`.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from string import ascii_lowercase
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from nlp_core.statistics.score import (
    Counts,
    InfluenceScore,
    SumScore,
    UnpairedScore,
    WeightedScore,
    downcast_if_exact,
)
from nlp_core.statistics.summands import Numbers

Test = TypeVar("Test", bound=Hashable)

ROUNDS = 2000
SWAP_ROUNDS = 9999
CONFIDENCE = 0.95
LEVEL = 0.05
POWER = 0.8
TIE = 1e-9  # points: rounding must not make an equal difference a smaller one
CHUNK = 500  # rounds at a time: memory stays below 100 MB for 10,000 examples
BLOCK = 25  # rounds of a chunk whose masks are floats at one time, so that they stay in the cache


class Interval(NamedTuple):
    """The bounds of a 95 % interval."""

    low: float
    high: float

    def __format__(self, form: str) -> str:
        """Write both bounds in the form of a number: `{interval:.2f}` is `0.12 to 3.40`."""
        return f"{self.low:{form}} to {self.high:{form}}"


class Pair(NamedTuple):
    """Two rows of a column, by name."""

    first: str
    second: str


class Error(NamedTuple):
    """The error of an estimate: its variance, and the degrees of freedom of Student's t."""

    variance: float
    freedom: float


class Resamples(NamedTuple):
    """The mean of a metric over seeds, and how it varies with the examples and the seeds.

    Attributes:
        rounds: the mean over seeds on resampled examples, [R]; the same `seed` and number of units
            draw the same examples, so differences of two cells are paired by example.
        seed_variance: the variance of the mean that comes from the seeds.
        num_units: that were resampled; 0 for a difference.
        bounds: the smallest and the largest possible value.
    """

    mean: float
    rounds: Numbers
    seed_variance: float
    num_seeds: int
    num_units: int = 0
    bounds: tuple[float, float] = -math.inf, math.inf

    @property
    def interval(self) -> Interval:
        """Where the mean over all seeds and all examples is, with 95 % confidence.

        A percentile interval of the examples and a t interval of the seeds; the squared distances
        of the limits from the mean are added; of a perplexity, those of their logarithms, which
        are mean losses. No limit is out of bounds. Where every answer is right no resample can show
        an error, and where every answer is wrong none a right one, so the interval is the exact one
        of a proportion.

        Source: Zou and Donner 2008 (construction of confidence limits about effect measures);
            Clopper and Pearson 1934 (confidence limits of the binomial).
        """
        tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
        lowest, highest = self.bounds
        if self.mean >= highest - TIE:
            return Interval(highest * tails[0] ** (1 / self.num_units), highest)
        if self.mean <= TIE and lowest == 0 and math.isfinite(highest):
            return Interval(lowest, highest * (1 - tails[0] ** (1 / self.num_units)))
        # NaN: an area of a resample without examples of both classes
        low, high = np.nanquantile(self.rounds, tails)
        reach = 0.0
        if self.seed_variance > 0:
            quantile = float(stdtrit(self.num_seeds - 1, tails[1]))
            reach = quantile * math.sqrt(self.seed_variance)
        mean, is_perplexity = self.mean, lowest > 0 and math.isinf(highest)
        if is_perplexity:
            mean, low, high, reach = math.log(mean), math.log(low), math.log(high), reach / mean
        distances = max(mean - low, 0.0), max(high - mean, 0.0)
        below, above = (math.hypot(distance, reach) for distance in distances)
        low, high = mean - below, mean + above
        if is_perplexity:
            low, high = math.exp(low), math.exp(high)
        return Interval(max(low, lowest), min(high, highest))


def resample(score: WeightedScore, *, rounds: int = ROUNDS, seed: int = 1) -> Resamples:
    """Draw examples with replacement and measure all seeds again: a bootstrap.

    Seeds are not drawn: three of them, resampled, show less than their spread. A seed's number has
    noise of the examples, which resampling them doubles; so the variance of the seeds is twice the
    observed one less the resampled one.
    """
    num_seeds, num_units = score.shape
    values_RS = np.concatenate(
        [score.evaluate(counts_RN) for counts_RN in _draw_counts(num_units, rounds, seed)]
    )
    values_S, variance = score.values, 0.0
    if num_seeds > 1:
        resampled = float(np.nanmean(values_RS.var(1, ddof=1)))
        variance = max(2 * float(values_S.var(ddof=1)) - resampled, 0.0) / num_seeds
    mean = float(values_S.mean())
    return Resamples(mean, values_RS.mean(1), variance, num_seeds, num_units, score.bounds)


def find_p_value(first: Resamples, second: Resamples) -> float:
    """Return the two-sided p-value of a difference of means, with examples paired.

    t = d / sqrt(v + s1 + s2), with v the variance of the difference over resampled examples and s1
    and s2 those of the seeds; see `add_variances`, with infinitely many degrees of freedom for v.
    """
    difference = abs(first.mean - second.mean)
    error = _measure_error(first, second)
    if difference == 0.0 or error.variance == 0.0:
        return float(difference == 0.0)
    return float(2 * stdtr(error.freedom, -difference / math.sqrt(error.variance)))


def measure_spread(first: Resamples, second: Resamples) -> float:
    """Return the smallest true difference that one test would find in 4 of 5 trials."""
    variance, freedom = _measure_error(first, second)
    quantiles = stdtrit(freedom, [(1 + CONFIDENCE) / 2, POWER])
    return float(quantiles.sum()) * math.sqrt(variance)


def _measure_error(first: Resamples, second: Resamples) -> Error:
    seeds = [(item.seed_variance, item.num_seeds - 1) for item in (first, second)]
    return add_variances([(float(np.nanvar(first.rounds - second.rounds)), math.inf), *seeds])


def add_variances(parts: Iterable[tuple[float, float]]) -> Error:
    """Return the variance of a sum of independent parts.

    Args:
        parts: the variance of each, and the degrees of freedom that it was estimated with.

    Source: Welch 1947 (several population variances), with Satterthwaite's degrees of freedom.
    """
    known = [(variance, freedom) for variance, freedom in parts if variance > 0]
    total = sum(variance for variance, _ in known)
    uncertain = sum(variance**2 / freedom for variance, freedom in known)
    return Error(total, total**2 / uncertain if uncertain else math.inf)


def swap_examples(
    columns: Sequence[Mapping[str, WeightedScore]], *, seed: int = 1
) -> list[dict[Pair, float]]:
    """Return the two-sided p-value of the difference of each pair of cells, given their seeds.

    Of sums, an approximate randomisation test: in each round the answers of the two cells are
    swapped for a random half of the examples of each pair of seeds. Of areas, DeLong's test,
    clustered by question; of correlations of numbers, the same with influences of a jackknife.
    Of seeds with examples of their own, Welch's test. Cells with other examples are not paired.

    Args:
        columns: the scores of each column's cells.

    Source: Noreen 1989 (computer-intensive methods for testing hypotheses), chapter 2; Yeh 2000
        (more accurate tests for the statistical significance of result differences).
    """
    found: list[dict[Pair, float]] = []
    swaps: dict[_Masks, list[_Swap]] = {}
    for scores in columns:
        p_values: dict[Pair, float] = {}
        own: dict[int, list[_Swap]] = {}
        for pair in (Pair(*rows) for rows in combinations(scores, 2)):
            a, b = scores[pair.first], scores[pair.second]
            if a.shape[1] != b.shape[1]:
                continue
            if isinstance(a, UnpairedScore) and isinstance(b, UnpairedScore):
                p_values[pair] = find_p_value(resample(a), resample(b))
            elif isinstance(a, InfluenceScore) and isinstance(b, InfluenceScore):
                p_values[pair] = _compare_influences(a, b)
            elif isinstance(a, SumScore) and isinstance(b, SumScore):
                own.setdefault(a.shape[1], []).append(_Swap(a, b, p_values, pair))
        for num_units, items in own.items():
            masks = _Masks(max(item.num_seeds for item in items), num_units, seed)
            swaps.setdefault(masks, []).extend(items)
        found.append(p_values)
    for masks, items in swaps.items():
        _swap_summands(items, masks)
    return found


class _Masks(NamedTuple):
    """What decides which examples each round swaps."""

    num_seeds: int
    num_units: int
    seed: int


class _Swap:
    """Two cells with their sums, [S, K], and where the p-value of their difference goes."""

    def __init__(
        self, first: SumScore, second: SumScore, p_values: dict[Pair, float], pair: Pair
    ) -> None:
        self.scores = first, second
        self.p_values, self.pair = p_values, pair
        self.num_seeds = min(first.shape[0], second.shape[0])
        self.sums = [score.summands[: self.num_seeds].sum(1) for score in self.scores]
        self.observed = self.compare(np.zeros((1, *self.sums[0].shape)))[0]
        self.count = 0

    def compare(self, moved_RSK: Numbers) -> Numbers:
        """Return the difference of the cells, [R], if the second gives `moved_RSK` to the first."""
        first, second = self.sums
        combine = self.scores[0].combine
        less = combine(second - moved_RSK).mean(1)
        found: Numbers = np.abs(combine(first + moved_RSK).mean(1) - less)
        return found


def _swap_summands(swaps: Sequence[_Swap], masks: _Masks) -> None:
    """Swap the same examples in all pairs, so that the sums of a cell serve all its pairs."""
    scores = {id(score): score for swap in swaps for score in swap.scores}
    rows = [
        [key for key, score in scores.items() if score.shape[0] > idx]
        for idx in range(masks.num_seeds)
    ]
    summands = [  # those of all cells side by side: a round of them is one product
        downcast_if_exact(np.concatenate([scores[key].summands[idx] for key in own], 1))
        for idx, own in enumerate(rows)
    ]
    for masks_SRB in _draw_masks(*masks):
        chosen: dict[int, list[Numbers]] = {key: [] for key in scores}
        for mask_RB, values, own in zip(masks_SRB, summands, rows, strict=True):
            ends = np.cumsum([scores[key].summands.shape[2] for key in own])[:-1]
            products = np.split(_multiply(mask_RB, values, masks.num_units), ends, 1)
            for key, sums_RK in zip(own, products, strict=True):
                chosen[key].append(sums_RK)
        sums_RSK = {key: np.stack(sums, 1) for key, sums in chosen.items()}
        for swap in swaps:
            first, second = (sums_RSK[id(score)][:, : swap.num_seeds] for score in swap.scores)
            swap.count += int((swap.compare(second - first) >= swap.observed - TIE).sum())
    for swap in swaps:
        swap.p_values[swap.pair] = (1 + swap.count) / (1 + SWAP_ROUNDS)


def _multiply(mask_RB: Counts, summands: Numbers, num_units: int) -> Numbers:
    blocks = [mask_RB[start : start + BLOCK] for start in range(0, len(mask_RB), BLOCK)]
    masks = (np.unpackbits(block, axis=1, count=num_units) for block in blocks)
    products = [mask_RN.astype(summands.dtype) @ summands for mask_RN in masks]
    return np.concatenate(products).astype(np.float64)


@lru_cache(maxsize=4)  # the columns of a table have few different numbers of units
def _draw_masks(num_seeds: int, num_units: int, seed: int) -> list[Counts]:
    """Return which units each round swaps, [S, r, B], for some rounds r at a time.

    B: bytes, each of eight units.
    """
    draw, found = np.random.default_rng([seed, num_units, 2]), []
    for start in range(0, SWAP_ROUNDS, CHUNK):
        size = min(CHUNK, SWAP_ROUNDS - start)
        masks_SRN = draw.integers(0, 2, (num_seeds, size, num_units), np.int8)
        found.append(np.packbits(masks_SRN.view(np.uint8), axis=2))
    return found


def _compare_influences(first: InfluenceScore, second: InfluenceScore) -> float:
    """Return the p-value of a difference, by the normal distribution.

    Where the difference shows no spread, as that of perfect and of constant scores, it is twice the
    chance of a perfect order of the units, 1 at most.
    """
    changes = first.influences - second.influences
    if len(changes) == 1:  # which shows no spread
        return 1.0
    variance = float((changes**2).sum()) * len(changes) / (len(changes) - 1)
    difference = float(first.values.mean() - second.values.mean())
    if variance == 0.0:
        return 1.0 if difference == 0.0 else min(1.0, 2 / first.num_orders)
    return float(2 * ndtr(-abs(difference) / math.sqrt(variance)))


@lru_cache(maxsize=1)  # the rows of a column have the same units
def _draw_counts(num_units: int, rounds: int, seed: int) -> list[Counts]:
    """Return how often each unit is drawn, [r, N], for some rounds r at a time.

    No unit of 256 or more is drawn 256 times: the chance is below 1e-500.
    """
    draw = np.random.default_rng([seed, num_units])
    found = []
    for start in range(0, rounds, CHUNK):
        size = min(CHUNK, rounds - start)
        drawn = draw.integers(0, num_units, (size, num_units))
        drawn += num_units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_units)
        found.append(counts.reshape(size, num_units).astype(np.uint8))
    return found


def correct_holm(p_values: Mapping[Test, float]) -> dict[Test, float]:
    """Return p-values corrected for the number of tests.

    The i-th smallest of n is multiplied by n - i + 1, and none is smaller than one before it.

    Source: Holm 1979 (a simple sequentially rejective multiple test procedure).
    """
    ordered = sorted(p_values, key=p_values.__getitem__)
    corrected, largest = {}, 0.0
    for idx, test in enumerate(ordered):
        largest = max(largest, min(1.0, p_values[test] * (len(ordered) - idx)))
        corrected[test] = largest
    return corrected


def name_groups(rows: Sequence[str], p_values: Mapping[Pair, float]) -> dict[str, str]:
    """Return letters for rows: two rows share one if their difference is not significant.

    Args:
        rows: from the best to the worst; the best has the letter a. After z come a2, b2 ...
        p_values: corrected, of each pair of rows.

    Source: Piepho 2004 (an algorithm for a letter-based representation of all-pairwise
        comparisons), insert and absorb.
    """
    groups = [frozenset(rows)]
    for pair, p_value in sorted(p_values.items()):
        if p_value < LEVEL:
            split = [group - {row} for group in groups if {*pair} <= group for row in pair]
            distinct = {*split, *(group for group in groups if not {*pair} <= group)}
            groups = [group for group in distinct if not any(group < other for other in distinct)]
    rank = {row: idx for idx, row in enumerate(rows)}
    groups.sort(key=lambda group: sorted(rank[row] for row in group))
    return {
        row: "".join(_name_group(idx) for idx, group in enumerate(groups) if row in group)
        for row in rows
    }


def _name_group(idx: int) -> str:
    """Return a to z, then a2 to z2, a3 ..."""
    repeats, letter = divmod(idx, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(repeats + 1) if repeats else "")
