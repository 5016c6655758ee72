"""Metrics of a task that ranks the candidate answers of each question.

The order of the file never helps where scores tie: reciprocal rank and accuracy put the wrong
candidates first, average precision puts all of them at the last of their ranks.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError
from nlp_core.metrics.base import Predictions, register
from nlp_core.metrics.classification import Area, Decision

ALMOST_SURE = 1 - 1e-6


def score_questions(metric: str, predictions: Predictions) -> NDArray[np.floating]:
    """Return map, mrr or accuracy of each question that has a right candidate."""
    score = QUESTION_SCORES[metric]
    return np.array([score(relevant, scores) for relevant, scores in _questions(predictions)])


def measure_mean(metric: str, predictions: Predictions) -> float:
    return float(score_questions(metric, predictions).mean())


def _average_precision(relevant: NDArray[np.bool_], score: NDArray[np.floating]) -> float:
    """Return the mean, over the right candidates, of the precision at their rank."""
    is_before = score >= score[relevant][:, None]
    return float((is_before[:, relevant].sum(1) / is_before.sum(1)).mean())


def _reciprocal_rank(relevant: NDArray[np.bool_], score: NDArray[np.floating]) -> float:
    return 1.0 / (1 + np.count_nonzero(score[~relevant] >= score[relevant].max()))


def _is_first(relevant: NDArray[np.bool_], score: NDArray[np.floating]) -> float:
    """Return 1 if a right candidate ranks before all wrong ones."""
    return float(_reciprocal_rank(relevant, score) == 1.0)


QUESTION_SCORES = {"map": _average_precision, "mrr": _reciprocal_rank, "accuracy": _is_first}
for metric in QUESTION_SCORES:
    register(metric, "ranking")(partial(measure_mean, metric))


def decide(predictions: Predictions) -> Decision:
    """Return the decision whether a candidate is right, of all questions together."""
    if predictions.score is None:
        raise DataError("found no scores, expected those of each candidate.")
    return Decision(predictions.labels[-1], predictions.relevant, restore_order(predictions.score))


register("auc", "ranking")(Area(decide))


@register("f1", "ranking")
def measure_candidates(predictions: Predictions) -> float:
    """Return F1 of the candidates taken for right ones, of all questions together.

    Source: Khashabi et al. 2018 (MultiRC), F1a.
    """
    from sklearn.metrics import f1_score  # a second of a start-up

    right = predictions.labels[-1]
    target = [label == right for label in predictions.target]
    predicted = [label == right for label in predictions.prediction]
    return float(f1_score(target, predicted, zero_division=0.0))


@register("exact_match", "ranking")
def measure_exact_questions(predictions: Predictions) -> float:
    """Return the share of the questions with every candidate judged as it is labelled."""
    if predictions.group is None:
        raise DataError("found no question numbers, expected one for each candidate.")
    pairs = zip(predictions.prediction, predictions.target, strict=True)
    is_wrong = np.array([found != right for found, right in pairs])
    questions = np.unique(predictions.group)
    wrong = np.unique(predictions.group[is_wrong])
    return 1.0 - len(wrong) / len(questions)


def _questions(
    predictions: Predictions,
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.floating]]]:
    """Yield, for each answerable question, which candidates are right and all their scores."""
    if predictions.score is None or predictions.group is None:
        raise DataError("found no scores or no question numbers, expected both for each candidate.")
    relevant = predictions.relevant
    if not relevant.any():
        raise DataError(
            "found no question with a right candidate, expected at least one. Measure a larger "
            "split."
        )
    order = np.argsort(predictions.group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(predictions.group[order])) + 1):
        if relevant[rows].any():
            yield relevant[rows], restore_order(predictions.score[rows])


def restore_order(score: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return numbers in the order of the candidates' scores.

    Args:
        score: the probabilities of the wrong and the right label, [N, 2].

    Near 1 the probability of the right label is rounded to few values, or to 1; the small one of
    the wrong label still has all its digits.
    """
    wrong, right = score[:, 0], score[:, -1]
    with np.errstate(divide="ignore"):  # no probability at all: before all others
        found = np.where(right > ALMOST_SURE, 1 - np.log(wrong), right)
    return np.where(np.isinf(found), np.finfo(np.float64).max, found)
