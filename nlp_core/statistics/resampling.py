"""Resamples of examples, the spread of seeds, and what follows: intervals, p-values, letters.

Shape letters: S seeds, N units, R rounds, see `nlp_core.statistics.score`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from nlp_core.statistics.score import AreaScore, Numbers, SumScore, WeightedScore

ROUNDS = 2000
SWAP_ROUNDS = 9999
CONFIDENCE = 0.95
LEVEL = 0.05
POWER_FACTOR = 2.8015  # the 97.5 % quantile of the normal distribution plus its 80 % quantile
TIE = 1e-9  # points: rounding must not make an equal difference a smaller one
CHUNK = 500  # rounds at a time: memory stays below 100 MB for 10,000 examples
BLOCK = 25  # rounds of a chunk whose masks are floats at one time, so that they stay in the cache


class Interval(NamedTuple):
    """The bounds of a 95 % interval."""

    low: float
    high: float


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
        highest: the largest possible value.
    """

    mean: float
    rounds: Numbers
    seed_variance: float
    num_seeds: int
    num_units: int = 0
    highest: float = math.inf

    @property
    def interval(self) -> Interval:
        """Where the mean over all seeds and all examples is, with 95 % confidence.

        A percentile interval of the examples and a t interval of the seeds; the squared distances
        of the limits from the mean are added. No limit is above `highest`. Where every answer is
        right no resample can show an error, so the interval is the exact one of a proportion.

        Source: Zou and Donner 2008 (construction of confidence limits about effect measures);
            Clopper and Pearson 1934 (confidence limits of the binomial).
        """
        tails = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
        # NaN: an area of a resample without examples of both classes
        if np.nanmin(self.rounds) >= self.highest - TIE:
            return Interval(self.highest * tails[0] ** (1 / self.num_units), self.highest)
        low, high = np.nanquantile(self.rounds, tails)
        reach = 0.0
        if self.seed_variance > 0:
            quantile = float(stdtrit(self.num_seeds - 1, tails[1]))
            reach = quantile * math.sqrt(self.seed_variance)
        below, above = math.hypot(self.mean - low, reach), math.hypot(high - self.mean, reach)
        return Interval(self.mean - below, min(self.mean + above, self.highest))


def resample(score: WeightedScore, *, rounds: int = ROUNDS, seed: int = 1) -> Resamples:
    """Draw examples with replacement and measure all seeds again: a bootstrap.

    Seeds are not drawn: three of them, resampled, show less than their spread. A seed's number has
    noise of the examples, which resampling them doubles; so the variance of the seeds is twice the
    observed one less the resampled one.
    """
    num_seeds, num_units = score.shape
    values_RS = np.concatenate(
        [score.evaluate(counts.astype(float)) for counts in _draw_counts(num_units, rounds, seed)]
    )
    values_S, variance = score.values, 0.0
    if num_seeds > 1:
        resampled = float(np.nanmean(values_RS.var(1, ddof=1)))
        variance = max(2 * float(values_S.var(ddof=1)) - resampled, 0.0) / num_seeds
    mean = float(values_S.mean())
    return Resamples(mean, values_RS.mean(1), variance, num_seeds, num_units, score.highest)


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
    """Return the smallest true difference that a test would find in 4 of 5 trials, in points."""
    return POWER_FACTOR * math.sqrt(_measure_error(first, second).variance)


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


def swap_examples(scores: Mapping[str, WeightedScore], *, seed: int = 1) -> dict[Pair, float]:
    """Return the two-sided p-value of the difference of each pair of cells, given their seeds.

    Of sums, an approximate randomisation test: in each round the answers of the two cells are
    swapped for a random half of the examples of each pair of seeds. Of areas, DeLong's test,
    clustered by question. Cells with other examples are not paired.

    Source: Noreen 1989 (computer-intensive methods for testing hypotheses), chapter 2; Yeh 2000
        (more accurate tests for the statistical significance of result differences).
    """
    found = {}
    sums: dict[Pair, tuple[SumScore, SumScore]] = {}
    for first, second in combinations(scores, 2):
        a, b = scores[first], scores[second]
        if a.shape[1] != b.shape[1]:
            continue
        if isinstance(a, AreaScore) and isinstance(b, AreaScore):
            found[Pair(first, second)] = _compare_areas(a, b)
        elif isinstance(a, SumScore) and isinstance(b, SumScore):
            sums[Pair(first, second)] = (a, b)
    for num_units in {a.shape[1] for a, _ in sums.values()}:
        chosen = {pair: item for pair, item in sums.items() if item[0].shape[1] == num_units}
        found |= _swap_summands(chosen, seed)
    return found


class _Swap:
    """Sums of two cells, [S, K], and what a swap of each example adds to the first, [S, N, K]."""

    def __init__(self, first: SumScore, second: SumScore) -> None:
        num_seeds = min(first.shape[0], second.shape[0])
        a_SNK, b_SNK = first.summands[:num_seeds], second.summands[:num_seeds]
        self.combine, self.change = first.combine, b_SNK - a_SNK
        self.first, self.second = a_SNK.sum(1), b_SNK.sum(1)
        self.observed = self.compare(np.zeros((1, *self.first.shape)))[0]

    def compare(self, moved_RSK: Numbers) -> Numbers:
        first = self.combine(self.first + moved_RSK).mean(1)
        found: Numbers = np.abs(first - self.combine(self.second - moved_RSK).mean(1))
        return found


def _swap_summands(sums: Mapping[Pair, tuple[SumScore, SumScore]], seed: int) -> dict[Pair, float]:
    """Swap the same examples in all pairs, so that a round is one product of matrices."""
    swaps = {pair: _Swap(*scores) for pair, scores in sums.items()}
    num_units = next(iter(swaps.values())).change.shape[1]
    num_seeds = max(len(swap.change) for swap in swaps.values())
    counts = dict.fromkeys(swaps, 0)
    pairs = [
        [pair for pair, swap in swaps.items() if seed < len(swap.change)]
        for seed in range(num_seeds)
    ]
    changes = [  # those of all pairs side by side: a round of them is one product
        np.concatenate([swaps[pair].change[seed] for pair in with_seed], 1)
        for seed, with_seed in enumerate(pairs)
    ]
    for masks_SRB in _draw_masks(num_seeds, num_units, seed):
        moved: dict[Pair, list[Numbers]] = {pair: [] for pair in swaps}
        for mask_RB, change, with_seed in zip(masks_SRB, changes, pairs, strict=True):
            ends = np.cumsum([swaps[pair].change.shape[2] for pair in with_seed])[:-1]
            products = np.split(_multiply(mask_RB, change, num_units), ends, 1)
            for pair, moved_RK in zip(with_seed, products, strict=True):
                moved[pair].append(moved_RK)
        for pair, swap in swaps.items():
            found = swap.compare(np.stack(moved[pair], 1))
            counts[pair] += int((found >= swap.observed - TIE).sum())
    return {pair: (1 + count) / (1 + SWAP_ROUNDS) for pair, count in counts.items()}


def _multiply(mask_RB: NDArray[np.uint8], change: Numbers, num_units: int) -> Numbers:
    blocks = [mask_RB[start : start + BLOCK] for start in range(0, len(mask_RB), BLOCK)]
    masks = (np.unpackbits(block, axis=1, count=num_units) for block in blocks)
    return np.concatenate([mask_RN.astype(np.float64) @ change for mask_RN in masks])


@lru_cache(maxsize=4)  # the columns of a table have few different numbers of units
def _draw_masks(num_seeds: int, num_units: int, seed: int) -> list[NDArray[np.uint8]]:
    """Return which units each round swaps, [S, r, B], for some rounds r at a time.

    B: bytes, each of eight units.
    """
    draw, found = np.random.default_rng([seed, num_units, 2]), []
    for start in range(0, SWAP_ROUNDS, CHUNK):
        size = min(CHUNK, SWAP_ROUNDS - start)
        masks_SRN = draw.integers(0, 2, (num_seeds, size, num_units), np.int8)
        found.append(np.packbits(masks_SRN.view(np.uint8), axis=2))
    return found


def _compare_areas(first: AreaScore, second: AreaScore) -> float:
    """Return the p-value of a difference of areas, by the normal distribution."""
    changes = first.influences - second.influences
    if len(changes) == 1:  # which shows no spread
        return 1.0
    variance = float((changes**2).sum()) * len(changes) / (len(changes) - 1)
    difference = float(first.values.mean() - second.values.mean())
    return 1.0 if variance == 0.0 else float(2 * ndtr(-abs(difference) / math.sqrt(variance)))


@lru_cache(maxsize=1)  # the rows of a column have the same units
def _draw_counts(num_units: int, rounds: int, seed: int) -> list[NDArray[np.uint8]]:
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


def correct_holm(p_values: Mapping[Pair, float]) -> dict[Pair, float]:
    """Return p-values corrected for the number of tests.

    The i-th smallest of n is multiplied by n - i + 1, and none is smaller than one before it.

    Source: Holm 1979 (a simple sequentially rejective multiple test procedure).
    """
    ordered = sorted(p_values, key=lambda pair: (p_values[pair], pair))
    corrected, largest = {}, 0.0
    for idx, pair in enumerate(ordered):
        largest = max(largest, min(1.0, p_values[pair] * (len(ordered) - idx)))
        corrected[pair] = largest
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
