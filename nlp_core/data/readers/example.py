"""The rows of a file in its order, as text, as readers return them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Extras = Mapping[str, Sequence[str] | Sequence[float]]
"""Further columns by their name in the result: features.pos ..."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Example(NamedTuple):
    """One row of a task on one or two texts.

    Attributes:
        line: in the file, from 1.
        text_a: the text, the first text or the question.
        text_b: the second text or the candidate.
        label: as the file spells it; None without labels, and for several.
        group: number of the question in a ranking; None elsewhere.
        labels: several labels, in the order of the file; None elsewhere.
        output: the text to write; None elsewhere, and without answers.
    """

    line: int
    text_a: str
    text_b: str | None
    label: str | None
    group: int | None = None
    labels: tuple[str, ...] | None = None
    extras: Extras = NOTHING
    output: str | None = None


class Sentence(NamedTuple):
    """One tagged sentence, or one with a tree.

    Attributes:
        line: of its first token in the file, from 1.
        label: the intent of the sentence.
        extras: a symbol per word.
        tree: the symbols of its tree, see reglue_runtime/tree.py.
        history: the earlier turns of a dialogue, see `join_turns`.
    """

    line: int
    tokens: list[str]
    tags: list[str]
    label: str | None = None
    extras: Extras = NOTHING
    tree: Sequence[str] = ()
    history: Sequence[str] = ()


class Passage(NamedTuple):
    """A paragraph with questions.

    Attributes:
        article: number of its article, from 1.
        number: its number in the file, from 1.
        starts: offset of each token's first character, [T].
        ends: offset after each token's last character, [T].
    """

    article: int
    number: int
    text: str
    starts: np.ndarray
    ends: np.ndarray


class Question(NamedTuple):
    """A question on a passage.

    Attributes:
        key: its id in the file.
        answers: right answers, as text; empty if the passage does not answer it; None in a file
            without answers.
        first: first token of the first answer that is found.
        last: its last token.
    """

    key: str
    text: str
    passage: Passage
    answers: tuple[str, ...] | None
    first: int | None = None
    last: int | None = None


Rows = Sequence[Example | Sentence | Question]
