"""A metric of several seeds as a function of how often each example counts.

Resampling evaluates a metric thousands of times. Most metrics depend only on sums over examples:
right answers, entities found, squares. `SumScore` keeps the summands, so that a resample is a
product of matrices; `AreaScore` keeps the order of the scores.

Shape letters: S seeds, N units (examples, or the questions of a ranking), K summands, R rounds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import eq
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import KINDS, TAGS, Kind
from nlp_core.metrics import Predictions, find_metric
from nlp_core.metrics.generation import (
    combine_bleu,
    combine_chrf,
    count_bleu,
    count_chrf,
    score_rouge,
)
from nlp_core.metrics.parsing import count_brackets, is_valid_tree, pair_trees
from nlp_core.metrics.ranking import QUESTION_SCORES, restore_order, score_questions
from nlp_core.metrics.retrieval import score_queries
from nlp_core.metrics.span import compare_exactly, compare_words, score_answers
from reglue_runtime.decoding import find_spans

Numbers: TypeAlias = NDArray[np.floating]
Counts: TypeAlias = NDArray[np.uint8]
Summands = Callable[[Predictions], list[list[float]] | Numbers | NDArray[np.bool_]]
Combine = Callable[[Numbers], Numbers]
"""From the sums [..., K] to the metric [...], in points."""

POINTS = 100.0
MOST_LABELS = 200  # whose summands of 10,000 examples take 48 MB
ROUNDING = 1e-12  # share of a sum of squares
MOST_EXACT = 2**24  # of the whole numbers that float32 has without gaps from 0
MOST_UNITS = 4000  # of an area, whose pairs of units take 128 MB a seed then


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
    def highest(self) -> float:
        """Return the largest possible value."""
        return POINTS

    @property
    def values(self) -> Numbers:
        """Return the metric of each seed on the examples as they are, [S]."""
        found: Numbers = self.evaluate(np.ones((1, self.shape[1]), np.uint8))[0]
        return found


@dataclass(frozen=True)
class SumScore(WeightedScore):
    """A metric of sums over examples; `summands` are those of each seed and unit, [S, N, K]."""

    summands: Numbers
    combine: Combine
    most: float = POINTS

    def evaluate(self, counts_RN: Counts) -> Numbers:
        num_seeds, num_units, num_summands = self.summands.shape
        # those of all seeds side by side: one product
        values = downcast_if_exact(self.summands.swapaxes(0, 1).reshape(num_units, -1))
        sums = (counts_RN.astype(values.dtype) @ values).astype(np.float64)
        return self.combine(sums.reshape(-1, num_seeds, num_summands))

    @property
    def shape(self) -> tuple[int, int]:
        return self.summands.shape[0], self.summands.shape[1]

    @property
    def highest(self) -> float:
        return self.most


@dataclass(frozen=True)
class AreaScore(WeightedScore):
    """The area under the ROC curve, in points; equal scores count half.

    Attributes:
        wins: how many pairs of a positive example of one unit and a negative one of another are
            ordered correctly, [S, N, N].
        positives, negatives: the numbers of such examples in each unit, [N].
    """

    wins: Numbers
    positives: Numbers
    negatives: Numbers

    def evaluate(self, counts_RN: Counts) -> Numbers:
        weights_RN = counts_RN.astype(np.float64)
        pairs_R = (weights_RN @ self.positives) * (weights_RN @ self.negatives)
        narrow_RN = counts_RN.astype(self.wins.dtype)
        won = [((narrow_RN @ seed_NN) * weights_RN).sum(1) for seed_NN in self.wins]
        with np.errstate(invalid="ignore"):
            area: Numbers = 100 * np.stack(won, 1) / pairs_R[:, None]
        return area

    @property
    def shape(self) -> tuple[int, int]:
        return self.wins.shape[0], self.wins.shape[1]

    @property
    def influences(self) -> Numbers:
        """Return how much each unit moves the mean area over seeds, [N].

        Source: Obuchowski 1997 (nonparametric analysis of clustered ROC curve data), which is
            DeLong et al. 1988 where each unit is one example.
        """
        num_positives, num_negatives = self.positives.sum(), self.negatives.sum()
        won_NN = 100 * self.wins.mean(0, np.float64) / (num_positives * num_negatives)
        shares = self.positives / num_positives + self.negatives / num_negatives
        found: Numbers = won_NN.sum(1) + won_NN.sum(0) - shares * won_NN.sum()
        return found


class Summing(NamedTuple):
    """How a metric is a function of sums over examples.

    `most_labels`: of more labels there are no summands, or they take too much memory; None: any
    number of labels will do.
    """

    list_summands: Summands
    combine: Combine
    most_labels: int | None = None


def find_summing(kind: str, metric: str) -> Summing | None:
    """Return how a metric is made of sums over examples; None: it is not, or it is an area."""
    return _choose_summands(KINDS.get(kind)).get(metric)


def build_score(kind: str, metric: str, runs: Sequence[Predictions]) -> WeightedScore | None:
    """Return a metric of several seeds, or None if it has no form that can be resampled quickly.

    Each question is a unit of a ranking, since its candidates depend on each other.
    """
    if KINDS.get(kind).is_grouped:
        score = score_queries if KINDS.get(kind).is_searched else score_questions
        if score is score_queries or metric in QUESTION_SCORES:
            values = np.stack([score(metric, run) for run in runs])
            return SumScore(np.stack([values, np.ones_like(values)], 2), _mean)
    if metric == "auc" and runs[0].score is not None:
        return _build_area(runs)
    found = find_summing(kind, metric)
    if found is None:
        return None
    # a label that training never saw is one more
    if found.most_labels and len({*runs[0].labels, *map(str, runs[0].target)}) > found.most_labels:
        return None
    summands_SNK = np.stack([np.asarray(found.list_summands(run), float) for run in runs])
    if (group := runs[0].group) is not None:
        units = np.unique(group, return_inverse=True)[1]
        summands_SNK = np.stack([_add_up(seed_NK, units) for seed_NK in summands_SNK])
    metric_found = find_metric(metric)
    in_points = metric_found is None or metric_found.in_points
    return SumScore(summands_SNK, found.combine, POINTS if in_points else math.inf)


def _add_up(summands_NK: Numbers, units_N: NDArray[np.integer]) -> Numbers:
    """Return the sum of the summands of each unit, [U, K]."""
    found = np.zeros((int(units_N.max()) + 1, summands_NK.shape[1]))
    np.add.at(found, units_N, summands_NK)
    return found


def _build_area(runs: Sequence[Predictions]) -> AreaScore | None:
    first = runs[0]
    relevant = np.asarray(first.target, dtype=np.str_) == first.labels[-1]
    rows = np.arange(len(relevant)) if first.group is None else first.group
    units = np.unique(rows, return_inverse=True)[1]
    size = int(units.max()) + 1
    if size > MOST_UNITS:
        return None
    positive, negative = np.flatnonzero(relevant), np.flatnonzero(~relevant)
    wins = np.zeros((len(runs), size, size))
    for seed, run in enumerate(runs):
        assert run.score is not None, seed
        score = run.score[:, -1] if run.group is None else restore_order(run.score)
        for idx in positive:
            won = (np.sign(score[idx] - score[negative]) + 1) / 2
            wins[seed, units[idx]] += np.bincount(units[negative], won, size)
    counts = [np.bincount(units, chosen, size).astype(float) for chosen in (relevant, ~relevant)]
    narrow = downcast_if_exact(wins.reshape(-1, size)).reshape(wins.shape)
    return AreaScore(narrow, *counts)


def _mean(sums: Numbers) -> Numbers:
    found: Numbers = 100 * sums[..., 0] / sums[..., 1]
    return found


def _f1(sums: Numbers) -> Numbers:
    """Combine hits, predictions and answers."""
    both = sums[..., 1] + sums[..., 2]
    found: Numbers = 200 * sums[..., 0] / np.where(both > 0, both, 1)
    return found


def _correlate(sums: Numbers) -> Numbers:
    """Combine sums of 1, x, y, xx, yy and xy; 0 where x or y does not vary beyond rounding."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    varies = (spread_x > ROUNDING * n * xx) & (spread_y > ROUNDING * n * yy)
    product = np.where(varies, spread_x * spread_y, 1.0)
    return np.where(varies, 100 * (n * xy - x * y) / np.sqrt(product), 0.0)


def _list_hits(run: Predictions) -> list[list[float]]:
    pairs = zip(run.target, run.prediction, strict=True)
    return [[float(right == found), 1.0] for right, found in pairs]


def _mark_positives(run: Predictions) -> list[NDArray[np.bool_]]:
    """Return where the last label is right, and where it was predicted."""
    return [
        np.array([item == run.labels[-1] for item in answers])
        for answers in (run.target, run.prediction)
    ]


def _list_positives(run: Predictions) -> NDArray[np.bool_]:
    right, found = _mark_positives(run)
    return np.stack([right & found, found, right], 1)


def _list_each_label(run: Predictions) -> NDArray[np.bool_]:
    """Return hits, predictions and answers of each label, [N, 3 L]."""
    right, found = (
        np.asarray(answers, dtype=np.str_)[:, None] == np.asarray(run.labels, dtype=np.str_)
        for answers in (run.target, run.prediction)
    )
    return np.concatenate([right & found, found, right], 1)


def _average_f1(sums: Numbers) -> Numbers:
    """Combine what `_list_each_label` lists: the mean F1 over labels."""
    found: Numbers = _f1(np.stack(np.split(sums, 3, axis=-1), -1)).mean(-1)
    return found


def _list_products(run: Predictions) -> Numbers:
    x, y = np.asarray(run.target, float), np.asarray(run.prediction, float)
    # far from 0 the squares would lose the digits that differ; all runs have the same targets
    return _multiply(x - x.mean(), y - x.mean())


def _multiply(x: Numbers, y: Numbers) -> Numbers:
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], 1)


def _list_squares(run: Predictions) -> Numbers:
    error = np.asarray(run.target, float) - np.asarray(run.prediction, float)
    return np.stack([error * error, np.ones_like(error)], 1)


def _combine_squares(sums: Numbers) -> Numbers:
    found: Numbers = np.sqrt(sums[..., 0] / sums[..., 1])
    return found


def _list_binary_products(run: Predictions) -> Numbers:
    """Return the summands of Matthews' correlation, which is Pearson's of two labels."""
    assert len(run.labels) <= 2, run.labels
    right, found = _mark_positives(run)
    return _multiply(right.astype(float), found.astype(float))


class TypedSpan(NamedTuple):
    type: str
    first: int
    last: int


@lru_cache(maxsize=1 << 17)  # seeds and cells share the right tags, and most predictions are right
def find_entities(tags: tuple[str, ...]) -> frozenset[TypedSpan]:
    return frozenset(TypedSpan(span.label, span.start, span.end - 1) for span in find_spans(tags))


def _list_entities(run: Predictions) -> list[list[float]]:
    rows = []
    for target, prediction in zip(run.target, run.prediction, strict=True):
        right = find_entities(_read_tags(target))
        found = right if prediction == target else find_entities(_read_tags(prediction))
        rows.append([float(len(right & found)), float(len(found)), float(len(right))])
    return rows


def _read_tags(answer: object) -> tuple[str, ...]:
    return tuple(answer[TAGS] if isinstance(answer, dict) else answer)  # type: ignore[arg-type]


def _list_label_hits(run: Predictions) -> list[list[float]]:
    rows = []
    for target, prediction in zip(run.target, run.prediction, strict=True):
        right = _read_tags(target)
        hits = sum(map(eq, right, _read_tags(prediction)))
        rows.append([float(hits), float(len(right))])
    return rows


def _list_brackets(run: Predictions) -> list[list[float]]:
    return [[float(count) for count in count_brackets(*pair)] for pair in pair_trees(run)]


def _list_valid_trees(run: Predictions) -> list[list[float]]:
    return [[float(is_valid_tree(*pair)), 1.0] for pair in pair_trees(run)]


def _list_intents(run: Predictions) -> list[list[float]]:
    pairs = zip(run.target, run.prediction, strict=True)
    return [[float(right["label"] == found["label"]), 1.0] for right, found in pairs]  # type: ignore[index]


def _list_scores(
    score: Callable[[Predictions], list[float]], run: Predictions
) -> list[list[float]]:
    return [[value, 1.0] for value in score(run)]


SUMMANDS: dict[str, Summing] = {
    "accuracy": Summing(_list_hits, _mean),
    "f1": Summing(_list_positives, _f1),
    "matthews": Summing(_list_binary_products, _correlate, 2),
    "pearson": Summing(_list_products, _correlate),
    "rmse": Summing(_list_squares, _combine_squares),
}
LABEL_SUMMANDS = SUMMANDS | {"macro_f1": Summing(_list_each_label, _average_f1, MOST_LABELS)}
TAG_SUMMANDS: dict[str, Summing] = {
    "f1": Summing(_list_entities, _f1),
    "slot_f1": Summing(_list_entities, _f1),
    "intent_accuracy": Summing(_list_intents, _mean),
    "frame_accuracy": Summing(_list_hits, _mean),
}
DOCUMENT_SUMMANDS: dict[str, Summing] = {"accuracy": Summing(_list_label_hits, _mean)}
TREE_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(_list_hits, _mean),
    "bracket_f1": Summing(_list_brackets, _f1),
    "validity": Summing(_list_valid_trees, _mean),
}
TEXT_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(_list_hits, _mean),
    "rouge_l": Summing(partial(_list_scores, score_rouge), _mean),
    "bleu": Summing(count_bleu, partial(np.apply_along_axis, combine_bleu, -1)),
    "chrf": Summing(count_chrf, partial(np.apply_along_axis, combine_chrf, -1)),
}
SPAN_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(partial(_list_scores, partial(score_answers, compare_exactly)), _mean),
    "f1": Summing(partial(_list_scores, partial(score_answers, compare_words)), _mean),
}


def _choose_summands(kind: Kind) -> dict[str, Summing]:
    if kind.has_tree:
        return TREE_SUMMANDS
    if kind.writes_text:
        return TEXT_SUMMANDS
    if kind.has_passages:
        return SPAN_SUMMANDS
    if kind.has_sentences:
        return DOCUMENT_SUMMANDS
    if kind.has_confusion:
        return LABEL_SUMMANDS
    return TAG_SUMMANDS if kind.has_tags else SUMMANDS
