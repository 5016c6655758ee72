"""What a model predicts for one input."""

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
import torch

from nlp_core.data.readers.user import UserExample
from nlp_core.heads.base import Head
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from reglue_runtime.decoding import Span, find_spans


class Prediction(NamedTuple):
    """What a model predicts for one input.

    Attributes:
        prediction: the label, the labels, the number, a tag for each token, or the text of an
            answer, empty where there is none.
        confidence: probability of the label or the answer, or of each of the labels or tags; None
            for a number.
        probability: of each label, in the order of `Predictor.labels`: [L], or [T, L] for tags;
            None for a number.
        tags: a tag for each token where a model predicts a label and tags; else None.
        entities: where a model learnt stretches of texts, those that it finds, by letters; else
            None. Without a label, each has the least confidence of its tokens.
    """

    prediction: str | float | list[str]
    confidence: float | list[float] | None
    probability: np.ndarray | None
    tags: list[str] | None = None
    entities: list[Span] | None = None


def cut_entities(prediction: Prediction, example: UserExample) -> Prediction:
    """Return a prediction with the stretches of the text that its tags are of."""
    places = example.offsets
    if places is None:  # tokens were given
        return prediction
    tags = cast(list[str], prediction.prediction if prediction.tags is None else prediction.tags)
    # the one token of a text without words stands nowhere
    spans = find_spans(tags) if places else []
    entities = [Span(places[start].start, places[end - 1].end, kind) for start, end, kind in spans]
    if prediction.tags is not None:
        return prediction._replace(entities=entities)
    chances = cast(list[float], prediction.confidence)
    least = [min(chances[start:end]) for start, end, _ in spans]
    return prediction._replace(entities=entities, confidence=least)


def choose_labels(
    answer: np.ndarray, chances: np.ndarray, size: int | None, labels: list[str]
) -> Prediction:
    """Return a prediction: a label [], the chosen of labels [L], or the tags of `size` tokens."""
    if size is not None:
        ids, chances = answer[:size], chances[:size]
        confidence = chances[np.arange(size), ids].tolist()
    elif answer.ndim:
        ids = np.flatnonzero(answer)
        confidence = chances[ids].tolist()
    else:
        return Prediction(labels[int(answer)], float(chances[int(answer)]), chances)
    return Prediction([labels[idx] for idx in ids], confidence, chances)


@torch.no_grad()
def predict_batch(
    model: GraphModel, batch: Batch, targets: Mapping[str, list[str]]
) -> list[Prediction]:
    """Return the predictions for the examples of a batch, in its order.

    Args:
        model: the model, in evaluation mode.
        targets: by column all labels that can be predicted.
    """
    found: dict[str, list[Prediction]] = {}
    for name, (scores, mask) in model(batch).items():
        head = model.heads[name]
        assert isinstance(head, Head), name
        decoded, labels = head.decode(scores, mask), targets[head.target]
        ids, chances = decoded.prediction.numpy(), decoded.probability
        sizes: list[int | None] = [None] * len(ids)
        if isinstance(head, TaggingHead | CRFTaggingHead):
            chances, sizes = head.marginals(scores, mask), mask.sum(1).tolist()
        if chances is None:
            found[head.target] = [Prediction(value, None, None) for value in ids.tolist()]
            continue
        rows = zip(ids, chances.numpy(), sizes, strict=True)
        found[head.target] = [
            choose_labels(answer, odds, size, labels) for answer, odds, size in rows
        ]
    first, *others = (found[target] for target in targets)
    if not others:
        return first
    tags = [cast(list[str], item.prediction) for item in others[0]]
    return [item._replace(tags=own) for item, own in zip(first, tags, strict=True)]
