"""Metrics of a task with one tag a token, where tags write entities."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import cast

from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2, IOBES
from sklearn.metrics import accuracy_score

from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.metrics.base import LABEL, Predictions

SCHEMES = {"BIO": IOB2, "BIOES": IOBES}


def measure_entities(
    score: Callable[..., float], predictions: Predictions, label: str | None = None
) -> float:
    """Return precision, recall or F1 of whole entities: a hit has the right type and both ends.

    Tags that the scheme forbids (an I without a B before it) make no entity.

    Args:
        score: of seqeval.
        predictions: of sentences.
        label: the one type of entities that counts; None: all of them.

    Raises:
        ConfigError: the scheme is not one that entities can be read from.
        DataError: a tag is not of the scheme.
    """
    name = predictions.scheme or _guess_scheme(predictions.labels)
    if name not in SCHEMES:
        raise ConfigError(f"metrics: unknown tagging scheme '{name}'. {suggest(name, SCHEMES)}")
    target, prediction = _tags(predictions.target), _tags(predictions.prediction)
    if label is not None:
        target, prediction = _keep_type(target, label), _keep_type(prediction, label)
    try:
        value = score(target, prediction, mode="strict", scheme=SCHEMES[name], zero_division=0)
    except ValueError as err:
        raise DataError(
            f"metrics: found a tag that the scheme {name} does not have ({err}) Check the "
            "task's scheme."
        ) from err
    return float(value)


def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of tokens whose tag is right."""
    target = list(chain.from_iterable(_tags(predictions.target)))
    prediction = list(chain.from_iterable(_tags(predictions.prediction)))
    return float(accuracy_score(target, prediction))


def _guess_scheme(labels: Sequence[str]) -> str:
    return "BIOES" if any(label.startswith(("E-", "S-")) for label in labels) else "BIO"


def _keep_type(sentences: list[list[str]], label: str) -> list[list[str]]:
    """Return tags with those of other types taken out."""
    return [[tag if tag.partition("-")[2] == label else "O" for tag in row] for row in sentences]


def _tags(sentences: Sequence[object]) -> list[list[str]]:
    return [list(cast(Sequence[str], sentence)) for sentence in sentences]


COMPUTE: dict[str, Callable[..., float]] = {
    "accuracy": measure_accuracy,
    **{
        name + suffix: partial(measure_entities, score)
        for name, score in (
            ("f1", f1_score),
            ("precision", precision_score),
            ("recall", recall_score),
        )
        for suffix in ("", LABEL)
    },
}
