"""A metric of several seeds as a function of how often each example counts.

Resampling evaluates a metric thousands of times. Most metrics depend only on sums over examples:
right answers, entities found, squares. `SumScore` keeps the summands, so that a resample is a
product of matrices; `AreaScore` and `RankScore` keep the order of the answers.

Shape letters: S seeds, N units (examples, or the questions of a ranking), K summands, R rounds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import KINDS
from nlp_core.metrics import METRICS, Area, Decision, Predictions, parse_metric
from nlp_core.metrics.ranking import QUESTION_SCORES, score_questions
from nlp_core.metrics.retrieval import score_queries
from nlp_core.statistics.summands import (
    POINTS,
    Combine,
    Numbers,
    Summing,
    add_up,
    average,
    correlate,
    find_summing,
)

Counts: TypeAlias = NDArray[np.uint8]
MOST_EXACT = 2**24  # of the whole numbers that float32 has without gaps from 0
MOST_ROUNDS = 500  # at a time, of an order
MOST_UNITS = 4000  # of an order: the pairs of an area take up to 32 MB a seed then


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
        positives, negatives: the numbers of such examples in each unit, [N].
    """

    wins: Numbers
    positives: Numbers
    negatives: Numbers

    def evaluate(self, counts_RN: Counts) -> Numbers:
        weights_RN = counts_RN.astype(np.float64)
        pairs_R = (weights_RN @ self.positives) * (weights_RN @ self.negatives)
        weights_RP = weights_RN[:, np.flatnonzero(self.positives)]
        narrow_RM = counts_RN[:, np.flatnonzero(self.negatives)].astype(self.wins.dtype)
        won = [((narrow_RM @ seed_PM.T) * weights_RP).sum(1) for seed_PM in self.wins]
        with np.errstate(invalid="ignore"):
            area: Numbers = 100 * np.stack(won, 1) / pairs_R[:, None]
        return area

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.wins), len(self.positives)

    @property
    def num_orders(self) -> int:
        return math.comb(len(self.positives), int(np.count_nonzero(self.positives)))

    @property
    def influences(self) -> Numbers:
        """Return how much each unit moves the mean area, [N].

        Source: Obuchowski 1997 (nonparametric analysis of clustered ROC curve data), which is
            DeLong et al. 1988 where each unit is one example.
        """
        num_positives, num_negatives = self.positives.sum(), self.negatives.sum()
        won_PM = 100 * self.wins.mean(0, np.float64) / (num_positives * num_negatives)
        shares = self.positives / num_positives + self.negatives / num_negatives
        found: Numbers = -shares * won_PM.sum()
        found[np.flatnonzero(self.positives)] += won_PM.sum(1)
        found[np.flatnonzero(self.negatives)] += won_PM.sum(0)
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


def build_score(kind: str, metric: str, runs: Sequence[Predictions]) -> WeightedScore | None:
    """Return a metric of several seeds, or None if it has no form that can be resampled quickly.

    Each question is a unit of a ranking, since its candidates depend on each other.
    """
    if KINDS.get(kind).is_grouped:
        score = score_queries if KINDS.get(kind).is_searched else score_questions
        if score is score_queries or metric in QUESTION_SCORES:
            values = np.stack([score(metric, run) for run in runs])
            return SumScore(np.stack([values, np.ones_like(values)], 2), average)
    call = parse_metric(kind, metric)
    known = METRICS[kind][call.pattern]
    if isinstance(known.compute, Area):
        decisions = [known.compute.decide(run, *call.parameters) for run in runs]
        return _build_area(decisions, runs[0].group)
    if metric == "spearman" and len(runs[0].target) <= MOST_UNITS:
        answers = [runs[0].target, *(run.prediction for run in runs)]
        target, *predictions = (np.asarray(items, float) for items in answers)
        return RankScore(target, np.stack(predictions))
    found = find_summing(kind, metric)
    if found is None or (found.most_labels and _count_labels(runs[0]) > found.most_labels):
        return None
    summands_SNK = np.stack([np.asarray(found.list_summands(run), float) for run in runs])
    if (group := runs[0].group) is not None:
        units = np.unique(group, return_inverse=True)[1]
        summands_SNK = np.stack([add_up(seed_NK, units) for seed_NK in summands_SNK])
    return build_sum_score(found, summands_SNK, PearsonScore if metric == "pearson" else SumScore)


def build_sum_score(
    summing: Summing, summands_SNK: Numbers, make: type[SumScore] = SumScore
) -> SumScore:
    return make(
        summands_SNK, summing.combine, summing.lowest, summing.highest, summing.is_of_labels
    )


def _count_labels(run: Predictions) -> int:
    """Return the number of labels; one that training never saw counts too."""
    items = ([item] if isinstance(item, str) else item for item in run.target)
    answers: Iterable[object] = chain.from_iterable(items)  # type: ignore[arg-type]
    return len({*run.labels, *map(str, answers)})


def _build_area(
    decisions: Sequence[Decision], group: NDArray[np.integer] | None
) -> AreaScore | None:
    is_positive = decisions[0].target
    known = np.arange(len(is_positive)) if group is None else group
    units = np.unique(known, return_inverse=True)[1]
    size = int(units.max()) + 1
    if size > MOST_UNITS or not decisions[0].has_both:
        return None
    chosen = (is_positive, ~is_positive)
    counts = [np.bincount(units[which], minlength=size).astype(float) for which in chosen]
    # the places of the units of the positive and the negative examples in `wins`
    rows, columns = (np.unique(units[which], return_inverse=True)[1] for which in chosen)
    wins = np.zeros((len(decisions), rows.max() + 1, columns.max() + 1))
    for seed, (_, _, score) in enumerate(decisions):
        negative = score[~is_positive]
        for row, value in zip(rows, score[is_positive], strict=True):
            won = (np.sign(value - negative) + 1) / 2
            wins[seed, row] += np.bincount(columns, won, wins.shape[2])
    narrow = downcast_if_exact(wins.reshape(-1, wins.shape[2])).reshape(wins.shape)
    return AreaScore(narrow, *counts)
