"""Metrics of answers that are stretches of a text, as SQuAD defines them.

Comparisons ignore case, punctuation, the words a, an and the, and the width of gaps. The best match
among several right answers counts. If a question has no answer, no answer is right.

Source: Rajpurkar et al. 2016 (SQuAD), section 6.1; no answers: Rajpurkar et al. 2018 (SQuAD 2.0).
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from nlp_core.errors import DataError
from nlp_core.metrics.base import LABEL, Predictions, register

ANSWERABLE = "answerable"

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Compare = Callable[[str, str], float]


def normalise_answer(text: str) -> str:
    """Return an answer as it is compared: `The "Golden" Gate.` gives `golden gate`."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def compare_exactly(target: str, found: str) -> float:
    return float(target == found)


def compare_words(target: str, found: str) -> float:
    """Return the F1 of the words, with repetition, of two normalised answers.

    If one of them has no words, it is 1 if the other has none either, and 0 if it has.
    """
    right, words = target.split(), found.split()
    if not right or not words:
        return compare_exactly(target, found)
    num_shared = sum((Counter(right) & Counter(words)).values())
    return 2 * num_shared / (len(right) + len(words))


def score_answer(compare: Compare, targets: Sequence[str], found: str) -> float:
    """Return the score of an answer against the best match of the right ones.

    Args:
        compare: returns the score of two normalised answers.
        targets: the right answers; empty for a question without an answer.
        found: the model's answer; empty for none.
    """
    right = [text for text in map(normalise_answer, targets) if text] or [""]
    answer = normalise_answer(found)
    return max(compare(text, answer) for text in right)


def score_answers(compare: Compare, predictions: Predictions) -> list[float]:
    """Return the score of each question."""
    targets = cast(Sequence[Sequence[str]], predictions.target)
    pairs = zip(targets, predictions.prediction, strict=True)
    return [score_answer(compare, right, str(text)) for right, text in pairs]


def measure_score(compare: Compare, predictions: Predictions) -> float:
    return float(np.mean(score_answers(compare, predictions)))


def measure_label(compare: Compare, predictions: Predictions, label: str) -> float:
    """Return the mean score of the questions that have an answer, or of those that have none."""
    pairs = zip(predictions.target, predictions.prediction, strict=True)
    kept = [(right, text) for right, text in pairs if bool(right) == (label == ANSWERABLE)]
    if not kept:
        raise DataError(
            f"found no {label} question, expected at least one; measure all questions, without "
            "the label."
        )
    target, prediction = zip(*kept, strict=True)
    return measure_score(compare, Predictions(predictions.labels, target, prediction))


for name, compare in (("exact_match", compare_exactly), ("f1", compare_words)):
    register(name, "span")(partial(measure_score, compare))
    register(f"{name}{LABEL}", "span")(partial(measure_label, compare))
