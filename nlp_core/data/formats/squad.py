"""Read the JSON of SQuAD 1.1 and 2.0: articles, their paragraphs, and questions on each.

{"data": [{"paragraphs": [{"context": text, "qas": [{"id": text, "question": text,
"answers": [{"text": text, "answer_start": number}], "is_impossible": true or false}]}]}]};
"is_impossible" may be left out, and further keys are not read.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from nlp_core.config.base import Count
from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.readers.example import Example, Passage, Question
from nlp_core.data.readers.lines import parse_json
from nlp_core.data.tokenization import LOCATORS, Locator
from nlp_core.errors import DataError
from nlp_core.kinds import SPAN_LABELS, Kind

log = logging.getLogger(__name__)

MARKS = "\u00ab", "\u00bb"
"""The signs before and after an answer that a question is written for."""
SORTS = {str: "text", list: "a list", dict: "a record", int: "a number", bool: "true or false"}


class _Answer(NamedTuple):
    text: str
    start: int


def read_squad(
    path: Path, *, locate: Locator, labelled: bool = True, unanswerable: bool = False
) -> list[Question]:
    """Read the questions of a file in order.

    If an answer's text is not at its offset, the nearest occurrence is taken. A question with no
    answer in the paragraph keeps its answers without a place. Both are counted and logged.

    Args:
        locate: returns the offsets of a paragraph's tokens.
        labelled: whether to read the answers.
        unanswerable: whether a question may have no answer.

    Raises:
        DataError: the file is missing or malformed, two questions have one id, a paragraph or a
            question has no words, or a question lacks an answer. Names the place in the file.
    """
    questions: list[Question] = []
    seen: set[str] = set()
    moved = lost = 0
    for passage, where, items in _read_passages(path, locate):
        for idx, item in enumerate(items):
            place = f"{where}.qas[{idx}]"
            key = _take(item, "id", str, path, place)
            text = _take(item, "question", str, path, place)
            if not text.strip():
                raise _refuse(path, place, "found a question without words, expected some")
            if key in seen:
                raise _refuse(path, place, f"found the id '{key}' twice, expected it once")
            seen.add(key)
            if not labelled:
                questions.append(Question(key, text, passage, None))
                continue
            answers = _read_answers(item, path, place, unanswerable=unanswerable)
            found = [_find(answer, passage.text) for answer in answers]
            kept = next((answer for answer in found if answer is not None), None)
            lost += bool(answers) and kept is None
            moved += kept is not None and kept not in answers
            ends = (None, None) if kept is None else _align(kept, passage)
            question = Question(key, text, passage, tuple(item.text for item in answers), *ends)
            questions.append(question)
    for count, message in ((moved, "moved to their nearest occurrence"), (lost, "not found")):
        if count:
            log.warning("preprocess answers %s file=%s questions=%d", message, path.name, count)
    return questions


def cut_passage(question: Question, max_tokens: int) -> Question:
    """Return a question on the first tokens of its passage, which contain its answer, if any."""
    passage = question.passage
    if len(passage.ends) <= max_tokens:
        return question
    starts, ends = passage.starts[:max_tokens], passage.ends[:max_tokens]
    shorter = passage._replace(text=passage.text[: ends[-1]], starts=starts, ends=ends)
    return question._replace(passage=shorter)


def fit_question(question: Question, max_tokens: int | None) -> Question | None:
    """Return a question on the first tokens of its passage; None if it teaches nothing.

    `max_tokens`: None keeps all.
    """
    is_found = question.answers is not None and (not question.answers or question.last is not None)
    if not is_found:
        return None
    if max_tokens is None:
        return question
    return cut_passage(question, max_tokens) if (question.last or 0) < max_tokens else None


def mark_answer(question: Question, tokens_around: int) -> str:
    """Return the passage around an answer, and the answer between the signs of MARKS."""
    passage, first, last = question.passage, question.first, question.last
    assert first is not None
    assert last is not None
    begin = int(passage.starts[max(first - tokens_around, 0)])
    end = int(passage.ends[min(last + tokens_around, len(passage.ends) - 1)])
    start, stop = int(passage.starts[first]), int(passage.ends[last])
    opening, closing = MARKS
    text = passage.text
    marked = f"{text[begin:start]}{opening} {text[start:stop]} {closing}{text[stop:end]}"
    return " ".join(marked.split())


def _read_passages(
    path: Path, locate: Locator
) -> Iterator[tuple[Passage, str, list[dict[str, Any]]]]:
    """Yield each paragraph, its place in the file, and its questions as JSON."""
    number = 0
    for article, about in enumerate(_take_records(_load(path), "data", path, "")):
        where = f"data[{article}]"
        for idx, paragraph in enumerate(_take_records(about, "paragraphs", path, where)):
            place = f"{where}.paragraphs[{idx}]"
            text = _take(paragraph, "context", str, path, place)
            offsets = locate(text)
            if not offsets:
                raise _refuse(path, place, "found a context without words, expected some")
            number += 1
            bounds = np.array(offsets, dtype=np.int32)
            passage = Passage(article + 1, number, text, bounds[:, 0], bounds[:, 1])
            yield passage, place, _take_records(paragraph, "qas", path, place)


def _load(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as err:
        raise DataError(
            f"{path}: no such file; run `python -m stages.preprocess {path.parent.name}`."
        ) from err
    except UnicodeDecodeError as err:
        raise _refuse(path, "", f"not UTF-8 text ({err.reason} at byte {err.start})") from err
    except ValueError as err:
        raise _refuse(path, "", f"found no JSON ({err})") from err
    if not isinstance(found, dict):
        raise _refuse(path, "", f"found {_name_sort(found)}, expected a record with the key 'data'")
    return found


def _take(
    record: dict[str, Any], key: str, sort: type, path: Path, where: str
) -> Any:  # Any: the caller knows which sort it asked for
    """Return the value of a required key of a type."""
    if key not in record:
        keys = ", ".join(f"'{name}'" for name in sorted(record)) or "none"
        raise _refuse(path, where, f"found the keys {keys}, expected '{key}' among them")
    value: Any = record[key]  # JSON
    place = f"{where}.{key}".removeprefix(".")
    # bool is a subclass of int
    if not isinstance(value, sort) or (sort is int and isinstance(value, bool)):
        raise _refuse(path, place, f"found {_name_sort(value)}, expected {SORTS[sort]}")
    return value


def _take_records(record: dict[str, Any], key: str, path: Path, where: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = _take(record, key, list, path, where)
    for idx, item in enumerate(items):
        if not isinstance(item, dict):
            place = f"{where}.{key}[{idx}]".removeprefix(".")
            raise _refuse(path, place, f"found {_name_sort(item)}, expected {SORTS[dict]}")
    return items


def _read_answers(
    item: dict[str, Any], path: Path, where: str, *, unanswerable: bool
) -> list[_Answer]:
    records = _take_records(item, "answers", path, where)
    if "is_impossible" in item and _take(item, "is_impossible", bool, path, where):
        records = []
    elif not records and "is_impossible" in item:
        raise _refuse(path, where, "found is_impossible false and no answer, expected one")
    if not records and not unanswerable:
        raise _refuse(
            path,
            where,
            "found a question without an answer, expected one, since the task's labels do not "
            "name unanswerable",
        )
    answers = []
    for idx, record in enumerate(records):
        place = f"{where}.answers[{idx}]"
        text = _take(record, "text", str, path, place)
        if not text.strip():
            raise _refuse(path, place, "found an answer without words, expected some")
        answers.append(_Answer(text, _take(record, "answer_start", int, path, place)))
    return answers


def _find(answer: _Answer, text: str) -> _Answer | None:
    """Return the answer at the place nearest to the given one; None if it does not occur."""
    if answer.start >= 0 and text.startswith(answer.text, answer.start):
        return answer
    place, nearest = text.find(answer.text), None
    while place >= 0:
        if nearest is None or abs(place - answer.start) < abs(nearest - answer.start):
            nearest = place
        place = text.find(answer.text, place + 1)
    return None if nearest is None else answer._replace(start=nearest)


def _align(answer: _Answer, passage: Passage) -> tuple[int, int] | tuple[None, None]:
    """Return the first and the last token that an answer touches; none if it is white space."""
    first = int(np.searchsorted(passage.ends, answer.start, side="right"))
    end = answer.start + len(answer.text)
    last = int(np.searchsorted(passage.starts, end, side="left")) - 1
    return (first, last) if first <= last else (None, None)


def _name_sort(value: object) -> str:
    return "null" if value is None else SORTS.get(type(value), type(value).__name__)


def _refuse(path: Path, where: str, message: str) -> DataError:
    place = f"{path}: {where}" if where else str(path)
    return DataError(f"{place}: {message}. Correct the file or fetch it again.")


@READERS.register("squad")
class SquadReader(SourceReader):
    """JSON of SQuAD 1.1 or 2.0: articles of paragraphs with questions."""

    name: Literal["squad"]
    max_context_tokens: Count | None = None
    """Tokens of a paragraph that training reads; questions answered after them leave train. All
    other splits have whole paragraphs and all questions."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_passages

    def fit(self, row: Question) -> Question | None:
        return fit_question(row, self.max_context_tokens)

    def read(self, task: ReadTask, name: str, path: Path) -> list[Question]:
        return read_squad(
            path,
            locate=LOCATORS.get(task.tokens),
            labelled=task.splits[name].labelled,
            unanswerable=task.labels == SPAN_LABELS,
        )


@READERS.register("squad_questions")
class SquadQuestionReader(SourceReader):
    """JSON of SQuAD, read as marked answers and the questions to write for them.

    The text is the part of a paragraph around the first answer that is found, which is between the
    signs of MARKS. Questions without one are left out.
    """

    name: Literal["squad_questions"]
    tokens_around: Count
    """Tokens of the paragraph that are read on each side of the answer."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.writes_text

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        questions = read_squad(path, locate=LOCATORS.get(task.tokens), unanswerable=True)
        found = [question for question in questions if question.last is not None]
        return [
            Example(number, mark_answer(item, self.tokens_around), None, None, output=item.text)
            for number, item in enumerate(found, start=1)
        ]


@READERS.register("squad_paragraphs")
class SquadParagraphReader(SourceReader):
    """JSON of SQuAD, read as questions and the paragraphs that answer them.

    Each is labelled with the last label of the task. Questions without an answer are left out.
    """

    name: Literal["squad_paragraphs"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.is_searched

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        questions = read_squad(path, locate=LOCATORS.get("spaces"), unanswerable=True)
        answered = [question for question in questions if question.answers]
        return [
            Example(number, item.text, item.passage.text, task.labels[-1], number)
            for number, item in enumerate(answered, start=1)
        ]
