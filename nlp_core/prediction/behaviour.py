"""Behavioural checks: which answers change when a text changes and its meaning does not."""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlp_core.data.perturbation import CHANGES, Change, change_pieces, change_texts
from nlp_core.data.readers.user import UserExample, cut_texts, read_examples
from nlp_core.errors import UsageError
from nlp_core.prediction.prediction import Prediction
from nlp_core.prediction.predictor import Predictor

SEED = 1
SHOWN = 3


class ChangedAnswer(NamedTuple):
    """A text that got another answer: a label, or the tags of the tokens that have another one."""

    line: int
    text: str
    changed_text: str
    answer: str
    changed_answer: str


class CheckResult(NamedTuple):
    """What a check found.

    Attributes:
        texts: rows that the check changed.
        changed: those of them with another answer, in all and in percent.
        worst: those with the most other tags, or the most confident other label.
    """

    check: str
    texts: int
    changed: int
    percent: float
    worst: list[ChangedAnswer]


class _Answered(NamedTuple):
    example: UserExample
    prediction: Prediction

    @property
    def answers(self) -> list[str]:
        """The labels, then the tags of the tokens."""
        first, tags = self.prediction.prediction, self.prediction.tags or []
        return [*(first if isinstance(first, list) else [str(first)]), *tags]

    @property
    def text(self) -> str:
        return " / ".join(self.example.raw or map(" ".join, self.example.texts))


def run_checks(predictor: Predictor, path: Path) -> list[CheckResult]:
    """Change the texts of a file in each way, and compare the answers.

    What is drawn depends only on the row and the check, so that a file has the same changes again.

    Raises:
        UsageError: the model gives texts neither labels nor tags, or reads more than texts.
    """
    data = predictor.data
    kind = data.kind
    is_fit = (kind.has_label or kind.has_tags) and not (kind.is_number or kind.is_grouped)
    if not is_fit or kind.has_history or data.extras:
        more = f" that also reads {' and '.join(data.extras)}" if data.extras else ""
        raise UsageError(
            f"--checks: found a model of the kind {kind}{more}, expected one that reads only texts "
            "and gives labels to texts or pairs, or tags to tokens."
        )
    rows = _answer(predictor, list(read_examples(path, data)))
    return [
        _run_check(predictor, rows, [SEED, stream], name) for stream, name in enumerate(CHANGES)
    ]


def _answer(predictor: Predictor, examples: Sequence[UserExample]) -> list[_Answered]:
    """Predict examples; entities have no offsets, which a changed text does not keep."""
    plain = [example._replace(offsets=None) for example in examples]
    return [*map(_Answered, plain, predictor.predict_examples(plain))]


def _run_check(
    predictor: Predictor, rows: Sequence[_Answered], seed: list[int], name: str
) -> CheckResult:
    kept, examples = [], []
    for number, row in enumerate(rows):
        rng = np.random.default_rng([*seed, number])
        example = _change(row.example, predictor, CHANGES[name], rng)
        if (example.texts, [*example.raw]) != (row.example.texts, [*row.example.raw]):
            kept.append(row)
            examples.append(example)
    pairs = zip(kept, _answer(predictor, examples), strict=True)
    wrong = [(before, after) for before, after in pairs if before.answers != after.answers]
    worst = sorted(wrong, key=lambda pair: _compare_answers(*pair), reverse=True)[:SHOWN]
    percent = 100 * len(wrong) / max(len(kept), 1)
    described = [_describe(*pair) for pair in worst]
    return CheckResult(name, len(kept), len(wrong), percent, described)


def _change(
    example: UserExample, predictor: Predictor, change: Change, rng: np.random.Generator
) -> UserExample:
    if not example.raw:
        return example._replace(texts=change_pieces(example.texts, change, rng))
    raw = change_texts(example.raw, change, rng)
    return cut_texts(example.lines, raw, predictor.data, predictor.tokenize)


def _compare_answers(before: _Answered, after: _Answered) -> tuple[int, float]:
    """Return the number of answers that differ, and the confidence in a new label."""
    pairs = zip_longest(before.answers, after.answers)
    confidence = after.prediction.confidence
    number = sum(one != other for one, other in pairs)
    return number, confidence if isinstance(confidence, float) else 0.0


def _describe(before: _Answered, after: _Answered) -> ChangedAnswer:
    answers = before.answers, after.answers
    if before.example.raw:
        written = [" ".join(labels) for labels in answers]
    else:
        words = before.example.texts[0]
        names = [*[""] * (len(answers[0]) - len(words)), *(f"{word}/" for word in words)]
        rows = [row for row in zip(names, *answers, strict=True) if row[1] != row[2]]
        written = [" ".join(name + row[number] for name, *row in rows) for number in (0, 1)]
    return ChangedAnswer(before.example.line(), before.text, after.text, *written)
