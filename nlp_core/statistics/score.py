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

from nlp_core.kinds import CLASSIFICATION, KINDS
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
DETECTION_AREA = "detection_auc"
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
    return _build_sum_score(found, summands_SNK, PearsonScore if metric == "pearson" else SumScore)


def _build_sum_score(
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


def list_terms(
    kind: str, metric: str, run: Predictions, unit_N: NDArray[np.integer]
) -> Numbers | None:
    """Return what each unit adds to a metric, [U, K], for `score_terms`; None: no such terms.

    Those of an area are a unit's numbers of positive and of negative examples, and how many of its
    pairs with a negative example of each unit are ordered correctly.

    Args:
        unit_N: the unit of each example, numbered from 0.
    """
    if (found := find_summing(kind, metric)) is not None:
        return add_up(np.asarray(found.list_summands(run), float), unit_N)
    if metric != DETECTION_AREA:
        return None
    compute = METRICS[CLASSIFICATION.name]["auc"].compute
    assert isinstance(compute, Area)
    decision = compute.decide(run)
    positives, negatives = _count_classes(decision, unit_N)
    wins_UU = np.zeros((len(positives), len(positives)))
    wins_UU[np.ix_(positives > 0, negatives > 0)] = _count_wins(decision, unit_N)
    return np.column_stack([positives, negatives, wins_UU])


def score_terms(kind: str, metric: str, terms_SUK: Numbers) -> WeightedScore | None:
    """Return a metric of several seeds by what `list_terms` lists of each; None: see there."""
    if (found := find_summing(kind, metric)) is not None:
        return _build_sum_score(found, terms_SUK)
    if metric != DETECTION_AREA:
        return None
    positives, negatives = terms_SUK[:, :, 0], terms_SUK[:, :, 1]
    wins_SPM = terms_SUK[:, positives.any(0), 2:][:, :, negatives.any(0)]
    return AreaScore(_downcast(wins_SPM), positives, negatives)


def _build_area(
    decisions: Sequence[Decision], group: NDArray[np.integer] | None
) -> AreaScore | None:
    """Return the area over decisions on the same examples."""
    known = np.arange(len(decisions[0].target)) if group is None else group
    units = np.unique(known, return_inverse=True)[1]
    if int(units.max()) >= MOST_UNITS or not decisions[0].has_both:
        return None
    classes = [_count_classes(decision, units) for decision in decisions]
    wins_SPM = np.stack([_count_wins(decision, units) for decision in decisions])
    positives, negatives = (np.stack(counts) for counts in zip(*classes, strict=True))
    return AreaScore(_downcast(wins_SPM), positives, negatives)


def _downcast(wins_SPM: Numbers) -> Numbers:
    rows = wins_SPM.reshape(-1, wins_SPM.shape[2])
    return downcast_if_exact(rows).reshape(wins_SPM.shape)


def _count_classes(decision: Decision, unit_N: NDArray[np.integer]) -> list[Numbers]:
    """Return how many positive and how many negative examples each unit has, [U] each."""
    size = int(unit_N.max()) + 1
    chosen = (decision.target, ~decision.target)
    return [np.bincount(unit_N[which], minlength=size).astype(float) for which in chosen]


def _count_wins(decision: Decision, unit_N: NDArray[np.integer]) -> Numbers:
    """Return how many pairs are ordered correctly, [P, M]; see `AreaScore`."""
    chosen = (decision.target, ~decision.target)
    positive, negative = (decision.score[which] for which in chosen)
    row, column = (np.unique(unit_N[which], return_inverse=True)[1] for which in chosen)
    order = np.lexsort((negative, column))
    starts = np.flatnonzero(np.diff(column[order], prepend=-1))
    won = []
    for values in np.split(negative[order], starts[1:]):
        below, up_to = (np.searchsorted(values, positive, side) for side in ("left", "right"))
        won.append(np.bincount(row, (below + up_to) / 2))
    return np.stack(won, 1)
