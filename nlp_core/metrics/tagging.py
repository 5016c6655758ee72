"""Metrics of a tag for each token, also next to an intent, and of a label for each sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.metrics import classification
from nlp_core.metrics.base import LABEL, Predictions, register

SCHEMES = {"BIO": "IOB2", "BIOES": "IOBES"}  # our names and those of seqeval
PREFIXES = {"BIO": ("B-", "I-"), "BIOES": ("B-", "I-", "E-", "S-")}


def measure_entities(
    score: str, predictions: Predictions, label: str | None = None, *, strict: bool = False
) -> float:
    """Return precision, recall or F1 of whole entities: a hit has the right type and both ends.

    Entities are found as in conlleval and the runtime: an I after an O starts one.

    Args:
        label: the entity type to count; None: all.
        strict: whether a sequence that breaks the rules of the scheme is not an entity.

    Source: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003 shared task), its program conlleval.
    """
    import seqeval.metrics
    import seqeval.scheme

    closes = any(label.startswith(("E-", "S-")) for label in predictions.labels)
    name = predictions.scheme or ("BIOES" if closes else "BIO")
    if name not in SCHEMES:
        raise ConfigError(f"metrics: unknown tagging scheme '{name}'. {suggest(name, SCHEMES)}")
    target, prediction = _tags(predictions.target), _tags(predictions.prediction)
    _check_tags({*chain.from_iterable(target), *chain.from_iterable(prediction)}, name)
    if label is not None:
        target, prediction = _keep_type(target, label), _keep_type(prediction, label)
    scheme = getattr(seqeval.scheme, SCHEMES[name])
    mode = {"mode": "strict", "scheme": scheme} if strict else {}
    compute = getattr(seqeval.metrics, f"{score}_score")
    return float(compute(target, prediction, zero_division=0, **mode))


def measure_slots(score: str, predictions: Predictions, *, strict: bool = False) -> float:
    return measure_entities(score, _select(predictions, "tags"), strict=strict)


@register("intent_accuracy", "intent_slots", "dialogue")
def measure_intents(predictions: Predictions) -> float:
    return classification.measure_accuracy(_select(predictions, "label"))


@register("frame_accuracy", "intent_slots", "dialogue")
def measure_frames(predictions: Predictions) -> float:
    """Return the share of utterances whose intent and tags are all right."""
    pairs = zip(predictions.target, predictions.prediction, strict=True)
    return float(np.mean([target == found for target, found in pairs]))


def measure_sentences(
    compute: Callable[..., float], predictions: Predictions, *label: str
) -> float:
    """Return a metric of single labels over the tokens or sentences of all examples."""
    answers = (predictions.target, predictions.prediction)
    target, prediction = ([*chain.from_iterable(_tags(answer))] for answer in answers)
    return compute(replace(predictions, target=target, prediction=prediction), *label)


def _check_tags(tags: set[str], scheme: str) -> None:
    """Raise for a tag that the scheme does not have: seqeval would read it as another type."""
    strange = sorted(tag for tag in tags if tag != "O" and tag[:2] not in PREFIXES[scheme])
    if strange:
        raise DataError(
            f"found the tag '{strange[0]}', which the scheme {scheme} does not have. Check the "
            "task's scheme."
        )


def _keep_type(sentences: list[list[str]], label: str) -> list[list[str]]:
    return [[tag if tag.partition("-")[2] == label else "O" for tag in row] for row in sentences]


def _select(predictions: Predictions, name: str) -> Predictions:
    target, prediction = (
        [cast(Mapping[str, Any], answer)[name] for answer in answers]
        for answers in (predictions.target, predictions.prediction)
    )
    return replace(predictions, target=target, prediction=prediction)


def _tags(sentences: Sequence[object]) -> list[list[str]]:
    return [list(cast(Sequence[str], sentence)) for sentence in sentences]


register("accuracy", "tagging", "document")(
    partial(measure_sentences, classification.measure_accuracy)
)
for score in ("f1", "precision", "recall"):
    of_label = partial(classification.measure_label, score)
    register(f"{score}{LABEL}", "document")(partial(measure_sentences, of_label))
    for average in ("macro", "micro", "weighted"):
        mean = partial(classification.measure_average, score, average)
        register(f"{average}_{score}", "document")(partial(measure_sentences, mean))
    for suffix in ("", LABEL):
        register(f"{score}{suffix}", "tagging")(partial(measure_entities, score))
    register(f"slot_{score}", "intent_slots", "dialogue")(partial(measure_slots, score))
register("f1_strict", "tagging")(partial(measure_entities, "f1", strict=True))
register("slot_f1_strict", "intent_slots", "dialogue")(partial(measure_slots, "f1", strict=True))
