"""Predictions of the trained model and of the exported one, in one form.

Shape letters: B batch, T tokens, L labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.passage import NO_ANSWER
from nlp_core.data.task import Split
from nlp_core.export.traced import finish
from nlp_core.heads.base import Head
from nlp_core.heads.span import SpanHead
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.kinds import ANSWERS, LABEL, LABELS, TAGS
from nlp_core.models.batch import EncodedSplit
from nlp_core.prediction.split_prediction import EVALUATION_BATCH, SplitPredictions
from nlp_core.prediction.trained_model import TrainedModel


class ModelAnswer(NamedTuple):
    """The prediction of one target of an example.

    Attributes:
        value: the label, the labels, the tags, the text; None for a number.
        scores: probability of each label, of each token's tag, or of the answer; the number.
    """

    value: Any
    scores: np.ndarray


Answers = dict[str, ModelAnswer]
"""By target."""


@torch.no_grad()
def ask_trained(trained: TrainedModel, encoded: EncodedSplit, rows: np.ndarray) -> list[Answers]:
    trained.model.eval()
    found: list[Answers] = [{} for _ in rows]
    for part in order_evaluation_batches(encoded.lengths[rows], batch_size=EVALUATION_BATCH):
        batch = encoded.batch(rows[part])
        named = name_scores(trained, trained.model(batch), encoded.split, rows[part])
        for place, answers in zip(part, named, strict=True):
            found[place] = answers
    return found


def name_scores(
    trained: TrainedModel,
    scores: Mapping[str, tuple[torch.Tensor, torch.Tensor | None]],
    split: Split,
    rows: np.ndarray,
) -> list[Answers]:
    found: list[Answers] = [{} for _ in rows]
    for name, (score, mask) in scores.items():
        head = trained.model.heads[name]
        assert isinstance(head, Head), name
        labels = trained.featurizer.targets[head.target]
        values = head.decode(score, mask).prediction.tolist()
        chances = _list_chances(head, score, mask)
        for place, (row, value, chance) in enumerate(zip(rows, values, chances, strict=True)):
            found[place][head.target] = _name(split, int(row), head, labels, value, chance)
    return found


def _list_chances(head: Head, scores: torch.Tensor, mask: torch.Tensor | None) -> list[np.ndarray]:
    if isinstance(head, TaggingHead | CRFTaggingHead):
        assert mask is not None
        sizes = mask.sum(1).tolist()
        odds = head.marginals(scores, mask).numpy()
        return [row[:size] for row, size in zip(odds, sizes, strict=True)]
    if isinstance(head, SpanHead):
        assert mask is not None
        decoded = head.decode(scores, mask)
        assert decoded.probability is not None
        best_B, none_B = decoded.probability[:, 0], decoded.probability[:, -1]
        is_none_B = decoded.prediction[:, 0] == NO_ANSWER
        return list(torch.where(is_none_B, none_B, best_B).numpy())
    return list(finish(head, scores).numpy())


def _name(
    split: Split, row: int, head: Head, labels: list[str], value: Any, chance: np.ndarray
) -> ModelAnswer:
    if isinstance(head, TaggingHead | CRFTaggingHead):
        ids = value[: len(chance)]
        return ModelAnswer([labels[idx] for idx in ids], chance[np.arange(len(ids)), ids])
    if isinstance(head, SpanHead):
        assert split.passages is not None, split.name
        return ModelAnswer(split.passages.cut(row, *value), np.atleast_1d(chance))
    if head.target == LABELS:
        return ModelAnswer(
            [label for label, is_in in zip(labels, value, strict=True) if is_in], chance
        )
    named = labels[value] if labels else None
    return ModelAnswer(named, np.atleast_1d(chance))


def read_predictions(
    predictions: Sequence[Mapping[str, Any]], targets: Mapping[str, list[str]]
) -> list[Answers]:
    first, *others = targets
    found = []
    for item in predictions:
        answers = {first: _read(item, first)}
        answers |= {name: _read(item["slots"], name) for name in others}
        found.append(answers)
    return found


def _read(item: Mapping[str, Any], target: str) -> ModelAnswer:
    if target in (TAGS, ANSWERS):
        key = "tags" if target == TAGS else "answer"
        return ModelAnswer(item[key], np.atleast_1d(item["confidence"]))
    scores = [item["score"]] if "score" in item else list(item["scores"].values())
    return ModelAnswer(item.get("labels" if target == LABELS else "label"), np.array(scores))


def join_predictions(
    split: Split, answers: Sequence[Answers], targets: Mapping[str, list[str]]
) -> SplitPredictions:
    """Return answers to all examples of a split in the form that metrics read."""
    values = {
        name: [
            float(item[name].scores[0]) if item[name].value is None else item[name].value
            for item in answers
        ]
        for name in targets
    }
    score = None
    first = next(iter(targets))
    if first in (LABEL, LABELS) and targets[first]:
        score = np.stack([item[first].scores for item in answers]).astype(np.float64)
        if score.shape[1] == 1:
            right = 1 / (1 + np.exp(-score))
            score = np.concatenate([1 - right, right], 1)
    return SplitPredictions(split, values, score)
