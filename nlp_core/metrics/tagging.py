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
PREFIXES = {"BIO": ("B-", "I-"), "BIOES": ("B-", "I-", "E-", "S-")}


def measure_entities(
    score: Callable[..., float],
    predictions: Predictions,
    label: str | None = None,
    *,
    strict: bool = False,
) -> float:
    """Return precision, recall or F1 of whole entities: a hit has the right type and both ends.

    Entities are read as conlleval and the runtime read them: an I after an O starts one.

    Args:
        score: of seqeval.
        predictions: of sentences.
        label: the one entity type to count; None counts all of them.
        strict: whether a sequence that breaks the scheme's rules makes no entity.

    Raises:
        ConfigError: the scheme is not one that entities can be read from.
        DataError: a tag is not of the scheme.

    Source: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003 shared task), its program conlleval.
    """
    name = predictions.scheme or _guess_scheme(predictions.labels)
    if name not in SCHEMES:
        raise ConfigError(f"metrics: unknown tagging scheme '{name}'. {suggest(name, SCHEMES)}")
    target, prediction = _tags(predictions.target), _tags(predictions.prediction)
    _check_tags({*chain.from_iterable(target), *chain.from_iterable(prediction)}, name)
    if label is not None:
        target, prediction = _keep_type(target, label), _keep_type(prediction, label)
    mode = {"mode": "strict", "scheme": SCHEMES[name]} if strict else {}
    return float(score(target, prediction, zero_division=0, **mode))


def measure_accuracy(predictions: Predictions) -> float:
    """Return the share of tokens whose tag is right."""
    target = list(chain.from_iterable(_tags(predictions.target)))
    prediction = list(chain.from_iterable(_tags(predictions.prediction)))
    return float(accuracy_score(target, prediction))


def _check_tags(tags: set[str], scheme: str) -> None:
    """Refuse a tag that the scheme does not have: seqeval would read it as a type of its own."""
    strange = sorted(tag for tag in tags if tag != "O" and tag[:2] not in PREFIXES[scheme])
    if strange:
        raise DataError(
            f"metrics: found the tag '{strange[0]}', which the scheme {scheme} does not have. "
            "Check the task's scheme."
        )


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
    "f1_strict": partial(measure_entities, f1_score, strict=True),
}
