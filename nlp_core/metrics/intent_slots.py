"""Metrics of a task with one intent an utterance and one tag a token, where tags write slots."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from nlp_core.metrics import classification, tagging
from nlp_core.metrics.base import Predictions


def measure_intent_accuracy(predictions: Predictions) -> float:
    """Return the share of utterances whose intent is right."""
    return classification.measure_accuracy(_take(predictions, "label"))


def measure_slots(name: str, predictions: Predictions) -> float:
    """Return F1, precision or recall of whole slots, as those of the kind tagging.

    Args:
        name: f1, f1_strict, precision or recall.
        predictions: of utterances.

    Raises:
        ConfigError: the scheme is not one that slots can be read from.
        DataError: a tag is not of the scheme.
    """
    return tagging.COMPUTE[name](_take(predictions, "tags"))


def measure_frame_accuracy(predictions: Predictions) -> float:
    """Return the share of utterances whose intent and whose every tag is right."""
    pairs = zip(predictions.target, predictions.prediction, strict=True)
    return float(np.mean([_read(target) == _read(found) for target, found in pairs]))


def _take(predictions: Predictions, name: str) -> Predictions:
    """Return the predictions of one of the two targets."""
    target = [_read(answer)[name] for answer in predictions.target]
    found = [_read(answer)[name] for answer in predictions.prediction]
    return replace(predictions, target=target, prediction=found)


def _read(answer: object) -> Mapping[str, str | Sequence[str]]:
    return cast(Mapping[str, str | Sequence[str]], answer)


COMPUTE = {
    "frame_accuracy": measure_frame_accuracy,
    "intent_accuracy": measure_intent_accuracy,
    "slot_f1": partial(measure_slots, "f1"),
    "slot_f1_strict": partial(measure_slots, "f1_strict"),
    "slot_precision": partial(measure_slots, "precision"),
    "slot_recall": partial(measure_slots, "recall"),
}
