"""Read the tasks of SuperGLUE whose lines are more than texts and a label.

Candidate answers are rows of a ranking, one group per question; a word that a question is about is
marked in its text, since models read only texts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.formats.json_lines import read_json_lines
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import refuse
from nlp_core.kinds import Kind

MARK = "*"
"""The sign before and after a marked word."""
BLANK = "@placeholder"
CAUSES = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


class CandidateReader(SourceReader):
    """What the readers of candidates share: the labels 0 and 1."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.is_grouped and not kind.is_searched

    def check(self, task: ReadTask) -> None:
        if task.labels != ["0", "1"]:
            raise ValueError(f"found labels {task.labels}, expected 0 and 1, of a right candidate.")


@READERS.register("copa")
class CopaReader(CandidateReader):
    """A premise, a question on its cause or effect, and two choices."""

    name: Literal["copa"]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples = []
        for group, line in enumerate(read_json_lines(path)):
            asked = line.find_text("question")
            if asked not in CAUSES:
                message = f"found the question '{asked}', expected cause or effect"
                raise refuse(path, line.number, message)
            first = f"{line.find_text('premise')} {CAUSES[asked]}"
            right = line.find_number("label") if task.splits[name].labelled else None
            for number, key in enumerate(("choice1", "choice2")):
                label = None if right is None else str(int(right == number))
                text = line.find_text(key)
                examples.append(Example(line.number, first, text, label, group))
        return examples


@READERS.register("multirc")
class MultircReader(CandidateReader):
    """Passages with questions and candidate answers, any number of which are right."""

    name: Literal["multirc"]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples, group = [], -1
        for line in read_json_lines(path):
            passage = line.find_text("passage.text")
            for question in line.find_objects("passage.questions"):
                group += 1
                asked = question.find_text("question")
                for answer in question.find_objects("answers"):
                    second = f"{asked} {answer.find_text('text')}"
                    label = answer.find_label("label") if task.splits[name].labelled else None
                    examples.append(Example(line.number, passage, second, label, group))
        return examples


@READERS.register("record")
class RecordReader(CandidateReader):
    """Articles with sentences that lack an entity, which is one of the article's.

    A candidate is the sentence with a distinct entity of the article in the blank.
    """

    name: Literal["record"]

    def count(self, rows: Sequence[Any]) -> int:
        return len({row.group for row in rows})

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples, group = [], -1
        for line in read_json_lines(path):
            article = line.find_text("passage.text")
            entities = []
            for place in line.find_objects("passage.entities"):
                entities.append(article[place.find_number("start") : place.find_number("end") + 1])
            for item in line.find_objects("qas"):
                group += 1
                query, right = item.find_text("query"), None
                if task.splits[name].labelled:
                    right = {answer.find_text("text") for answer in item.find_objects("answers")}
                for entity in dict.fromkeys(entities):
                    label = None if right is None else str(int(entity in right))
                    filled = query.replace(BLANK, entity)
                    examples.append(Example(line.number, article, filled, label, group))
        return examples


class MarkedReader(SourceReader):
    """What the readers of pairs with a marked word share."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        is_pair = kind.num_texts == 2 and kind.has_label
        return is_pair and kind.has_classes and not kind.is_grouped


@READERS.register("wic")
class WicReader(MarkedReader):
    """Two sentences with one word, which is marked in both: does it mean the same?"""

    name: Literal["wic"]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples = []
        for line in read_json_lines(path):
            texts = []
            for number in ("1", "2"):
                text = line.find_text(f"sentence{number}")
                start, end = line.find_number(f"start{number}"), line.find_number(f"end{number}")
                if not 0 <= start < end <= len(text):
                    message = f"found a word from {start} to {end}, expected a part of the sentence"
                    raise refuse(path, line.number, message)
                texts.append(f"{text[:start]}{MARK} {text[start:end]} {MARK}{text[end:]}")
            label = line.find_label("label") if task.splits[name].labelled else None
            examples.append(Example(line.number, texts[0], texts[1], label))
        return examples


@READERS.register("wsc")
class WscReader(MarkedReader):
    """A text with a marked pronoun, and a noun phrase of it: does the pronoun mean the phrase?"""

    name: Literal["wsc"]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples = []
        for line in read_json_lines(path):
            words, pronoun = line.find_text("text").split(), line.find_text("target.span2_text")
            start = line.find_number("target.span2_index")
            end = start + len(pronoun.split())
            if not 0 <= start < end <= len(words):
                message = f"found the pronoun at word {start}, expected one of {len(words)} words"
                raise refuse(path, line.number, message)
            marked = [*words[:start], MARK, *words[start:end], MARK, *words[end:]]
            label = line.find_label("label") if task.splits[name].labelled else None
            phrase = line.find_text("target.span1_text")
            examples.append(Example(line.number, " ".join(marked), phrase, label))
        return examples
