"""A metric of several seeds as a function of how often each example counts.

Resampling evaluates a metric thousands of times. Most metrics depend only on sums over examples:
right answers, entities found, squares. `SumScore` keeps the summands, so that a resample is a
product of matrices; `AreaScore` and `RankScore` keep the order of the answers.

Shape letters: S seeds, N units (examples, or the questions of a ranking), K summands, R rounds.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nlp_core.statistics.summands import (
    POINTS,
    Combine,
    Numbers,
    correlate,
)

Counts: TypeAlias = NDArray[np.uint8]
MOST_EXACT = 2**24  # of the whole numbers that float32 has without gaps from 0
MOST_ROUNDS = 500  # at a time, of an order


def downcast_if_exact(values: Numbers) -> Numbers:
    """Return a matrix [N, K] of small whole numbers or halves in float32, which is faster.

    The sum of N values is exact there. Other matrices are returned as they are.
    """
    doubled = 2 * values
    is_small = np.abs(doubled).max(initial=0.0) * len(values) < MOST_EXACT
    return values.astype(np.float32) if is_small and (doubled == np.rint(doubled)).all() else values


class WeightedScore(ABC):
    """A metric of a cell's seeds on the same examples."""

    @abstractmethod
    def evaluate(self, counts_RN: Counts) -> Numbers:
        """Return the metric of each seed, [R, S], where unit n counts `counts_RN[r, n]` times.

        Each round has N units, as a resample has.
        """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Return the numbers of seeds and of units."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest possible value."""
        return 0.0, POINTS

    @property
    def values(self) -> Numbers:
        """Return the metric of each seed on the examples as they are, [S]."""
        found: Numbers = self.evaluate(np.ones((1, self.shape[1]), np.uint8))[0]
        return found


@dataclass(frozen=True)
class SumScore(WeightedScore):
    """A metric of sums over examples.

    Attributes:
        summands: those of each seed and unit, [S, N, K].
        is_of_labels: see `Summing`; such a metric is NaN, or leaves the label out, where only the
            resample lacks it.
    """

    summands: Numbers
    combine: Combine
    lowest: float = 0.0
    highest: float = POINTS
    is_of_labels: bool = False

    def evaluate(self, counts_RN: Counts) -> Numbers:
        num_seeds, num_units, num_summands = self.summands.shape
        # those of all seeds side by side: one product
        values = downcast_if_exact(self.summands.swapaxes(0, 1).reshape(num_units, -1))
        sums = (counts_RN.astype(values.dtype) @ values).astype(np.float64)
        sums_RSK = sums.reshape(-1, num_seeds, num_summands)
        if self.is_of_labels:
            return self.combine(sums_RSK, self.summands.sum(1))
        return self.combine(sums_RSK)

    @property
    def shape(self) -> tuple[int, int]:
        return self.summands.shape[0], self.summands.shape[1]

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lowest, self.highest


@dataclass(frozen=True)
class UnpairedScore(WeightedScore):
    """A metric of seeds that were each measured on examples of their own.

    Their spread is that of seeds and of examples together, so nothing is resampled.

    Attributes:
        measured: the metric of each seed, [S].
    """

    measured: Numbers
    lowest: float
    highest: float

    def evaluate(self, counts_RN: Counts) -> Numbers:
        return np.tile(self.measured, (len(counts_RN), 1))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.measured), 1

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lowest, self.highest


class InfluenceScore(WeightedScore):
    """A metric of numbers on any scale: those of two models cannot be swapped to compare them."""

    @property
    @abstractmethod
    def influences(self) -> Numbers:
        """Return how much each unit moves the mean over seeds, [N]; they add up to 0."""

    @property
    @abstractmethod
    def num_orders(self) -> int:
        """Return how many orders of the units can be distinguished."""


@dataclass(frozen=True)
class AreaScore(InfluenceScore):
    """The area under the ROC curve, in points; equal scores count half.

    Attributes:
        wins: how many pairs of a positive example of one unit and a negative one of another are
            ordered correctly, [S, P, M], of the P units with positives and the M with negatives.
        positives, negatives: the numbers of such examples in each unit, [S, N].
    """

    wins: Numbers
    positives: Numbers
    negatives: Numbers

    def evaluate(self, counts_RN: Counts) -> Numbers:
        weights_RN = counts_RN.astype(np.float64)
        pairs_RS = (weights_RN @ self.positives.T) * (weights_RN @ self.negatives.T)
        weights_RP = weights_RN[:, self._rows]
        narrow_RM = counts_RN[:, self._columns].astype(self.wins.dtype)
        won = [((narrow_RM @ seed_PM.T) * weights_RP).sum(1) for seed_PM in self.wins]
        with np.errstate(invalid="ignore"):
            area: Numbers = 100 * np.stack(won, 1) / pairs_RS
        return area

    @property
    def _rows(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.positives.any(0))

    @property
    def _columns(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.negatives.any(0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.positives.shape[0], self.positives.shape[1]

    @property
    def num_orders(self) -> int:
        return math.comb(self.shape[1], len(self._rows))

    @property
    def influences(self) -> Numbers:
        """Return how much each unit moves the mean area, [N].

        Source: Obuchowski 1997 (nonparametric analysis of clustered ROC curve data), which is
            DeLong et al. 1988 where each unit is one example.
        """
        found = np.zeros(self.shape[1])
        for won_PM, positives, negatives in zip(
            self.wins, self.positives, self.negatives, strict=True
        ):
            share = 100 / len(self.wins) / (positives.sum() * negatives.sum())
            weights = positives / positives.sum() + negatives / negatives.sum()
            found -= share * won_PM.sum(dtype=np.float64) * weights
            found[self._rows] += share * won_PM.sum(1, dtype=np.float64)
            found[self._columns] += share * won_PM.sum(0, dtype=np.float64)
        return found


@dataclass(frozen=True)
class RankScore(InfluenceScore):
    """Spearman's correlation, in points; equal numbers share the mean of their ranks.

    Attributes:
        target: [N].
        predictions: of each seed, [S, N].
    """

    target: Numbers
    predictions: Numbers

    def evaluate(self, counts_RN: Counts) -> Numbers:
        weights_RN = counts_RN.astype(np.float64)
        x_RN = self._rank(self.target, weights_RN)
        columns = []
        for prediction in self.predictions:
            y_RN = self._rank(prediction, weights_RN)
            products = (np.ones_like(x_RN), x_RN, y_RN, x_RN**2, y_RN**2, x_RN * y_RN)
            sums = [np.einsum("rn,rn->r", weights_RN, product) for product in products]
            columns.append(correlate(np.stack(sums, -1)))
        return np.stack(columns, 1)

    def _rank(self, numbers_N: Numbers, weights_RN: Numbers) -> Numbers:
        """Return the ranks of a resample's numbers, less their mean, [R, N]."""
        place_N = np.unique(numbers_N, return_inverse=True)[1]
        order = np.argsort(place_N, kind="stable")
        starts = np.flatnonzero(np.diff(place_N[order], prepend=-1))
        size_RG = np.add.reduceat(weights_RN[:, order], starts, axis=1)
        rank_RG = np.cumsum(size_RG, 1) - (size_RG - 1) / 2
        found: Numbers = rank_RG[:, place_N] - (len(order) + 1) / 2
        return found

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.predictions), len(self.target)

    @property
    def bounds(self) -> tuple[float, float]:
        return -POINTS, POINTS

    @property
    def num_orders(self) -> int:
        return math.factorial(len(self.target))

    @property
    def influences(self) -> Numbers:
        size = len(self.target)
        without = [
            self.evaluate(1 - np.eye(size, dtype=np.uint8)[start : start + MOST_ROUNDS])
            for start in range(0, size, MOST_ROUNDS)
        ]
        return _leave_out(np.concatenate(without))


@dataclass(frozen=True)
class PearsonScore(SumScore, InfluenceScore):
    """Pearson's correlation, in points."""

    @property
    def num_orders(self) -> int:
        return math.factorial(self.summands.shape[1])

    @property
    def influences(self) -> Numbers:
        sums_S1K = self.summands.sum(1, keepdims=True)
        return _leave_out(self.combine(sums_S1K - self.summands).T)


def _leave_out(without_NS: Numbers) -> Numbers:
    """Return the influence of each unit from the scores of the seeds without it, [N].

    Source: Efron and Stein 1981 (the jackknife estimate of variance).
    """
    left_N = without_NS.mean(1)
    found: Numbers = (left_N.mean() - left_N) * (len(left_N) - 1) / len(left_N)
    return found
