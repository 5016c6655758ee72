"""What readers give: the rows of a file in its own order, as text, nothing encoded."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

Extras = Mapping[str, Sequence[str] | Sequence[float]]
"""What a reader takes beside text and label, by the column that it becomes: features.pos ..."""

NO_EXTRAS: Extras = MappingProxyType({})


class Example(NamedTuple):
    """One row of a task on one or two texts.

    Attributes:
        line: its line in the file, counted from 1.
        text_a: the text, the first text or the question.
        text_b: the second text or the candidate; None for one text.
        label: as the file spells it; None without labels, and where an example has several.
        group: number of the question in a ranking; None elsewhere.
        labels: several labels, in the order of the file; None elsewhere.
        extras: further columns by name.
    """

    line: int
    text_a: str
    text_b: str | None
    label: str | None
    group: int | None = None
    labels: tuple[str, ...] | None = None
    extras: Extras = NO_EXTRAS


class Sentence(NamedTuple):
    """One tagged sentence.

    Attributes:
        line: line of its first token in the file, counted from 1.
        tokens: the words.
        tags: a tag for each word.
        label: what the whole sentence asks for (its intent); None without.
        extras: further columns by name, a symbol for each word.
    """

    line: int
    tokens: list[str]
    tags: list[str]
    label: str | None = None
    extras: Extras = NO_EXTRAS


class Passage(NamedTuple):
    """A paragraph that questions are asked on.

    Attributes:
        article: number of its article, counted from 1.
        number: its own number in the file, counted from 1.
        text: as it stands in the file.
        starts: the character that each token begins at, [T].
        ends: the character behind each token, [T].
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
        text: the question.
        passage: what it is asked on.
        answers: right answers, as text; none for a question that the passage does not answer; None
            in a file without answers.
        first: the first token of the first answer that is found; None without.
        last: its last token.
    """

    key: str
    text: str
    passage: Passage
    answers: tuple[str, ...] | None
    first: int | None = None
    last: int | None = None


Rows = Sequence[Example | Sentence | Question]
"""All that a reader gives of one file."""
