"""Metrics of trees of intents and slots.

Source: Gupta et al. 2018 (semantic parsing for task-oriented dialog), section 4: exact match, and
    F1 of brackets as evalb counts them.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from nlp_core.metrics.base import Predictions, register
from reglue_runtime.tree import TreeError, is_tree, list_constituents, list_leaves


def count_brackets(target: Sequence[str], prediction: Sequence[str]) -> tuple[int, int, int]:
    """Return how many constituents both trees, the predicted and the right tree have.

    A constituent counts with its label, first and last token. Symbols that do not form a tree have
    none.
    """
    right = _list_brackets(target)
    found = right if prediction == target else _list_brackets(prediction)
    return (right & found).total(), found.total(), right.total()


def _list_brackets(symbols: Sequence[str]) -> Counter[object]:
    try:
        return Counter(list_constituents(symbols))
    except TreeError:
        return Counter()


def pair_trees(predictions: Predictions) -> list[tuple[list[str], list[str]]]:
    """Return the right and the predicted symbols of each sentence."""
    answers = (cast(Sequence[Sequence[str]], predictions.target), predictions.prediction)
    target, prediction = ([list(cast(Sequence[str], row)) for row in rows] for rows in answers)
    return list(zip(target, prediction, strict=True))


@register("exact_match", "parsing")
def measure_exact_match(predictions: Predictions) -> float:
    return float(np.mean([target == found for target, found in pair_trees(predictions)]))


@register("validity", "parsing")
def measure_validity(predictions: Predictions) -> float:
    """Return the share of predictions that are trees over the tokens of their sentences."""
    return float(np.mean([is_valid_tree(*pair) for pair in pair_trees(predictions)]))


def is_valid_tree(target: Sequence[str], prediction: Sequence[str]) -> bool:
    """Return whether the prediction is a tree over the tokens of the right one."""
    return is_tree(prediction, list_leaves(target))


def measure_brackets(score: str, predictions: Predictions) -> float:
    """Return precision, recall or F1 of constituents."""
    counts = [count_brackets(*pair) for pair in pair_trees(predictions)]
    hits, found, right = (sum(column) for column in zip(*counts, strict=True))
    divisor = {"precision": found, "recall": right, "f1": (found + right) / 2}[score]
    return hits / divisor if divisor else 0.0


for score in ("f1", "precision", "recall"):
    register(f"bracket_{score}", "parsing")(partial(measure_brackets, score))
