"""The threshold above which a question is left unanswered, chosen where the epoch is chosen."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from nlp_core.heads.span import SpanHead
from nlp_core.kinds import ANSWERS
from nlp_core.metrics.span import compare_words, score_answer
from nlp_core.models.features import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.prediction.split_prediction import SplitPredictions, predict


def predict_with_best_threshold(
    model: GraphModel, encoded: EncodedSplit, targets: Mapping[str, list[str]]
) -> SplitPredictions:
    """Predict a split as `predict` does, after giving the model the threshold that serves it best.

    Nothing but predicting happens where no head can leave a question unanswered.

    Args:
        model: the model, whose head gets its new threshold.
        encoded: a split with answers.
        targets: by column all labels that can be predicted.
    """
    heads = [head for head in model.heads.values() if isinstance(head, SpanHead) and head.has_none]
    if not heads:
        return predict(model, encoded, targets)
    (head,) = heads
    head.threshold.fill_(torch.inf)
    found = predict(model, encoded, targets)
    assert found.score is not None
    with np.errstate(divide="ignore"):
        none_odds = np.log(found.score[:, 1]) - np.log(found.score[:, 0])
    gains = _weigh_answers(encoded.split.target, found.answers[ANSWERS])
    head.threshold.fill_(find_threshold(none_odds, gains))
    silent = none_odds > float(head.threshold)
    texts = zip(found.answers[ANSWERS], silent, strict=True)
    answers = ["" if is_silent else text for text, is_silent in texts]
    return replace(found, answers={**found.answers, ANSWERS: answers})


def _weigh_answers(targets: list[list[str]], texts: list[str]) -> NDArray[np.float64]:
    """Return by how much the F1 of each answer is above that of none."""
    scores = [
        score_answer(compare_words, right, text) - score_answer(compare_words, right, "")
        for right, text in zip(targets, texts, strict=True)
    ]
    return np.array(scores)


def find_threshold(none_odds: NDArray[np.float64], gains: NDArray[np.float64]) -> float:
    """Return the threshold t at which the answers with odds of at most t gain most in all.

    It lies halfway between two neighbouring odds; of equally good ones the least counts. Where it
    is best to answer always, or never, it lies 1 above the highest odds, or below the least.

    Args:
        none_odds: log p(none) - log p(answer) of each question, [N].
        gains: what answering gains over leaving the question unanswered, [N].
    """
    order = np.argsort(none_odds, kind="stable")
    odds = none_odds[order]
    total = np.concatenate([[0.0], np.cumsum(gains[order])])
    # between equal odds there is no place for a threshold
    total[1:-1][odds[1:] == odds[:-1]] = -np.inf
    best = int(total.argmax())
    if best == 0:
        return float(odds[0]) - 1.0
    if best == len(odds):
        return float(odds[-1]) + 1.0
    return float(odds[best - 1] + odds[best]) / 2
