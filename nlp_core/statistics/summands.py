"""Metrics as functions of sums over examples: what each example adds, and what the sums give.

Shape letters: N examples, K summands, L labels.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from math import inf
from operator import eq
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import KINDS, TAGS, Kind
from nlp_core.metrics import Predictions, indicate_both
from nlp_core.metrics.generation import (
    combine_bleu,
    combine_chrf,
    count_bleu,
    count_chrf,
    score_rouge,
)
from nlp_core.metrics.parsing import count_brackets, is_valid_tree, pair_trees
from nlp_core.metrics.span import compare_exactly, compare_words, score_answers
from reglue_runtime.decoding import find_spans

Numbers: TypeAlias = NDArray[np.floating]
Summands = Callable[[Predictions], list[list[float]] | Numbers | NDArray[np.bool_]]
Combine = Callable[..., Numbers]
"""From the sums [..., K] to the metric [...], in points.

That of a metric of labels also takes the sums [S, K] of all examples.
"""

POINTS = 100.0
MOST_LABELS = 200  # whose summands of 10,000 examples take 48 MB
ROUNDING = 1e-12  # share of a sum of squares


class Summing(NamedTuple):
    """How a metric is a function of sums over examples.

    Attributes:
        most_labels: of more labels there are no summands, or they take too much memory; None: any
            number of labels will do.
        lowest, highest: the possible values.
        is_of_labels: whether it is undefined where no example has a label, and none is predicted.
    """

    list_summands: Summands
    combine: Combine
    most_labels: int | None = None
    lowest: float = 0.0
    highest: float = POINTS
    is_of_labels: bool = False


def find_summing(kind: str, metric: str) -> Summing | None:
    """Return how a metric is made of sums over examples; None: it is not, or it is an area."""
    return _choose_summands(KINDS.get(kind)).get(metric)


def add_up(summands_NK: Numbers | NDArray[np.bool_], units_N: NDArray[np.integer]) -> Numbers:
    """Return the sum of the summands of each unit, [U, K]; units are numbers from 0."""
    found = np.zeros((int(units_N.max()) + 1, summands_NK.shape[1]))
    np.add.at(found, units_N, summands_NK)
    return found


def average(sums: Numbers) -> Numbers:
    found: Numbers = 100 * sums[..., 0] / sums[..., 1]
    return found


def _f1(sums: Numbers, whole: Numbers | None = None) -> Numbers:
    """Combine hits, predictions and answers.

    Without predictions and answers it is 0; NaN if all examples, whose sums are `whole`, have some.
    """
    both = sums[..., 1] + sums[..., 2]
    found: Numbers = 200 * sums[..., 0] / np.where(both > 0, both, 1)
    if whole is not None:
        found = np.where((both == 0) & (whole[..., 1] + whole[..., 2] > 0), np.nan, found)
    return found


def correlate(sums: Numbers) -> Numbers:
    """Combine sums of 1, x, y, xx, yy and xy; 0 where x or y does not vary beyond rounding."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    varies = (spread_x > ROUNDING * n * xx) & (spread_y > ROUNDING * n * yy)
    product = np.where(varies, spread_x * spread_y, 1.0)
    return np.where(varies, 100 * (n * xy - x * y) / np.sqrt(product), 0.0)


def _list_hits(run: Predictions) -> list[list[float]]:
    pairs = zip(run.target, run.prediction, strict=True)
    return [[float(right == found), 1.0] for right, found in pairs]


def _list_set_hits(run: Predictions) -> list[list[float]]:
    """Return the hits of sets of labels, whose order does not count."""
    pairs = zip(run.target, run.prediction, strict=True)
    return [[float({*right} == {*found}), 1.0] for right, found in pairs]  # type: ignore[misc]


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
    right, found = indicate_both(run)
    return np.concatenate([right & found, found, right], 1)


def _list_pooled_labels(run: Predictions) -> Numbers:
    """Return the sums of `_list_each_label` over the labels, [N, 3]."""
    parts = np.split(_list_each_label(run), 3, axis=1)
    return np.stack([part.sum(1, dtype=float) for part in parts], 1)


def _list_logarithms(run: Predictions) -> Numbers:
    """Return the negative log probability of each text, and how many words it is of."""
    return np.stack([-np.asarray(run.prediction, float), np.asarray(run.target, float)], 1)


def _exponentiate(sums: Numbers) -> Numbers:
    found: Numbers = np.exp(sums[..., 0] / sums[..., 1])
    return found


def _list_right_pieces(run: Predictions) -> Numbers:
    assert run.score is not None, "the share of each text"
    count = np.asarray(run.target, float)
    return np.stack([count * run.score[:, 0], count], 1)


def _list_labels_of_sentences(run: Predictions) -> Numbers:
    """Return the sums of `_list_each_label` over the sentences of each document, [N, 3 L]."""
    target, prediction = ([*map(_read_tags, items)] for items in (run.target, run.prediction))
    pooled = [*chain.from_iterable(target)], [*chain.from_iterable(prediction)]
    units = np.repeat(np.arange(len(target)), [len(sentences) for sentences in target])
    return add_up(_list_each_label(Predictions(run.labels, *pooled)), units)


def _average_f1(sums: Numbers, whole: Numbers | None = None) -> Numbers:
    """Combine what `_list_each_label` lists: the mean F1 over labels; NaN ones are left out."""
    each = _f1(_stack_parts(sums), None if whole is None else _stack_parts(whole))
    is_known = ~np.isnan(each)
    count = is_known.sum(-1)
    total = np.where(is_known, each, 0.0).sum(-1)
    found: Numbers = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def _stack_parts(sums: Numbers) -> Numbers:
    return np.stack(np.split(sums, 3, axis=-1), -1)


def _list_products(run: Predictions) -> Numbers:
    x, y = np.asarray(run.target, float), np.asarray(run.prediction, float)
    # far from 0 the squares would lose the digits that differ
    return _multiply(x - x.mean(), y - y.mean())


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
    "accuracy": Summing(_list_hits, average),
    "f1": Summing(_list_positives, _f1, is_of_labels=True),
    "matthews": Summing(_list_binary_products, correlate, 2, lowest=-POINTS),
    "pearson": Summing(_list_products, correlate, lowest=-POINTS),
    "rmse": Summing(_list_squares, _combine_squares, highest=inf),
}
F1_OF_LABELS: dict[str, Summing] = {
    "macro_f1": Summing(_list_each_label, _average_f1, MOST_LABELS, is_of_labels=True),
    "micro_f1": Summing(_list_pooled_labels, _f1, is_of_labels=True),
}
LABEL_SUMMANDS = SUMMANDS | F1_OF_LABELS
SET_SUMMANDS = {"exact_match": Summing(_list_set_hits, average)} | F1_OF_LABELS
TAG_SUMMANDS: dict[str, Summing] = {
    "f1": Summing(_list_entities, _f1, is_of_labels=True),
    "slot_f1": Summing(_list_entities, _f1, is_of_labels=True),
    "intent_accuracy": Summing(_list_intents, average),
    "frame_accuracy": Summing(_list_hits, average),
}
DOCUMENT_SUMMANDS: dict[str, Summing] = {
    "accuracy": Summing(_list_label_hits, average),
    "macro_f1": Summing(_list_labels_of_sentences, _average_f1, MOST_LABELS, is_of_labels=True),
}
TREE_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(_list_hits, average),
    "bracket_f1": Summing(_list_brackets, _f1, is_of_labels=True),
    "validity": Summing(_list_valid_trees, average),
}
TEXT_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(_list_hits, average),
    "rouge_l": Summing(partial(_list_scores, score_rouge), average),
    "bleu": Summing(count_bleu, partial(np.apply_along_axis, combine_bleu, -1)),
    "chrf": Summing(count_chrf, partial(np.apply_along_axis, combine_chrf, -1)),
}
LANGUAGE_SUMMANDS: dict[str, Summing] = {
    "perplexity": Summing(_list_logarithms, _exponentiate, lowest=1.0, highest=inf),
    "accuracy": Summing(_list_right_pieces, average),
    # of what pre-training predicts besides masked pieces
    "detection_accuracy": Summing(_list_hits, average),
    "detection_f1": Summing(_list_positives, _f1, is_of_labels=True),
    "original": Summing(_list_hits, average),
}
SPAN_SUMMANDS: dict[str, Summing] = {
    "exact_match": Summing(partial(_list_scores, partial(score_answers, compare_exactly)), average),
    "f1": Summing(partial(_list_scores, partial(score_answers, compare_words)), average),
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
    if kind.predicts_words or kind.is_auxiliary:
        return LANGUAGE_SUMMANDS
    if kind.has_several_labels:
        return SET_SUMMANDS
    if kind.has_confusion:
        return LABEL_SUMMANDS
    return TAG_SUMMANDS if kind.has_tags else SUMMANDS
