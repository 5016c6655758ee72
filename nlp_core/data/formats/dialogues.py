"""Read dialogues: JSON Lines of {"turns": [{"text": ..., "tags": ..., "intent": ...}]}."""

from pathlib import Path
from typing import Literal

from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.formats.json_lines import JsonLine, read_json_lines
from nlp_core.data.readers.example import Sentence
from nlp_core.data.readers.lines import refuse
from nlp_core.data.tagging_scheme import list_tags
from nlp_core.kinds import Kind
from reglue_runtime.text import join_turns

KEYS = ("text", "tags", "intent")


@READERS.register("dialogues")
class DialogueReader(SourceReader):
    """A dialogue per line; each turn is an example, with all earlier turns as its history.

    A turn has a text, its tags and its intent; words and tags are separated by spaces.
    """

    name: Literal["dialogues"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_history

    def read(self, task: ReadTask, name: str, path: Path) -> list[Sentence]:
        known = {*list_tags(task.slots or [], task.scheme or "BIO")}
        sentences = []
        for line in read_json_lines(path):
            before: list[list[str]] = []
            for sentence in _read_turns(line, {*task.labels}, known):
                sentences.append(sentence._replace(history=join_turns(before)))
                before.append(sentence.tokens)
        return sentences


def _read_turns(line: JsonLine, labels: set[str], tags: set[str]) -> list[Sentence]:
    turns = line.find("turns")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise refuse(line.path, line.number, f"found {turns!r:.60} in turns, expected objects")
    found = []
    for number, turn in enumerate(turns, start=1):
        part = JsonLine(line.path, line.number, turn)
        text, given, intent = (part.find_text(key) for key in KEYS)
        words, own = text.split(), given.split()
        place = f"turn {number}: found"
        if not words or len(words) != len(own):
            message = f"{place} {len(words)} words and {len(own)} tags, expected a tag for each"
            raise refuse(line.path, line.number, message)
        if intent not in labels:
            message = f"{place} the intent '{intent}', expected one of the task's labels"
            raise refuse(line.path, line.number, message)
        if strange := [tag for tag in own if tag not in tags]:
            message = f"{place} the tag '{strange[0]}', expected a type among the task's slots"
            raise refuse(line.path, line.number, message)
        found.append(Sentence(line.number, words, own, intent))
    return found
