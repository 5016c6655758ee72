"""The score of a metric from the predictions of several seeds, or from terms that were kept.

Shape letters: S seeds, N examples, U units (examples, questions or documents), K terms of a unit;
P units with positive examples, M with negative ones.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import CLASSIFICATION, KINDS
from nlp_core.metrics import METRICS, Area, Decision, Predictions, parse_metric
from nlp_core.metrics.ranking import QUESTION_SCORES, score_questions
from nlp_core.metrics.retrieval import score_queries
from nlp_core.statistics.score import (
    AreaScore,
    PearsonScore,
    RankScore,
    SumScore,
    WeightedScore,
    downcast_if_exact,
)
from nlp_core.statistics.summands import Numbers, Summing, add_up, average, find_summing

DETECTION_AREA = "detection_auc"
MOST_UNITS = 4000  # of an order: the pairs of an area take up to 32 MB a seed then


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
