"""Metrics of a task with one intent for each utterance and slots as tags of its tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from nlp_core.metrics import classification, tagging
from nlp_core.metrics.base import Predictions, register


@register("intent_accuracy", "intent_slots")
def measure_intent_accuracy(predictions: Predictions) -> float:
    return classification.measure_accuracy(_select(predictions, "label"))


@register("frame_accuracy", "intent_slots")
def measure_frame_accuracy(predictions: Predictions) -> float:
    """Return the share of utterances whose intent and tags are all right."""
    pairs = zip(predictions.target, predictions.prediction, strict=True)
    return float(np.mean([_read(target) == _read(found) for target, found in pairs]))


def measure_slots(score: str, predictions: Predictions, *, strict: bool = False) -> float:
    """Return F1, precision or recall of whole slots, as those of entities in tagging."""
    return tagging.measure_entities(score, _select(predictions, "tags"), strict=strict)


for name in ("f1", "precision", "recall"):
    register(f"slot_{name}", "intent_slots")(partial(measure_slots, name))
register("slot_f1_strict", "intent_slots")(partial(measure_slots, "f1", strict=True))


def _select(predictions: Predictions, name: str) -> Predictions:
    target = [_read(answer)[name] for answer in predictions.target]
    found = [_read(answer)[name] for answer in predictions.prediction]
    return replace(predictions, target=target, prediction=found)


def _read(answer: object) -> Mapping[str, str | Sequence[str]]:
    return cast(Mapping[str, str | Sequence[str]], answer)
