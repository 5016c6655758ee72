"""Entities as spans of tokens. Training reads this module too."""

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """An entity from token `start` to before `end`, of type `label`, such as "LOC"."""

    start: int
    end: int
    label: str


def find_spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of predicted tags, which may break the rules of BIO and BIOES.

    An entity begins with B- or S-, or if the type changes, and ends with E- or S- or if the type
    changes.
    """
    spans: list[Span] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        if label and (prefix in ("B", "S") or kind != label):
            spans.append(Span(start, index, label))
            label = ""
        if kind and not label:
            start, label = index, kind
        if prefix in ("E", "S"):
            spans.append(Span(start, index + 1, label))
            label = ""
    return spans
