"""Read JSON Lines: one object per line, with texts and a label under keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from nlp_core.config.base import FileName
from nlp_core.config.reader import READERS, ReadTask
from nlp_core.data.formats.rows import RowReader
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_objects, refuse
from nlp_core.kinds import Kind

Key = Annotated[str, Field(min_length=1)]
"""A key of an object; "a.b" is the key b of the object under a."""


class JsonLine(NamedTuple):
    """An object of a file; `number` is its line, from 1."""

    path: Path
    number: int
    value: dict[str, Any]  # Any: JSON holds anything

    def find(self, key: str) -> Any:  # Any: JSON
        """Return the value of a key; a missing one is a DataError."""
        found: Any = self.value
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                known = ", ".join(sorted(self.value)) or "none"
                raise refuse(self.path, self.number, f"found the keys {known}, expected {key}")
            found = found[part]
        return found

    def find_text(self, key: str) -> str:
        found = self.find(key)
        if not isinstance(found, str):
            raise refuse(self.path, self.number, f"found {found!r} in {key}, expected a text")
        return found

    def find_label(self, key: str) -> str:
        """Return a label as text: true, false and numbers as JSON writes them."""
        found = self.find(key)
        if isinstance(found, dict | list) or found is None:
            raise refuse(self.path, self.number, f"found {found!r} in {key}, expected a label")
        return str(found).lower() if isinstance(found, bool) else str(found)

    def find_number(self, key: str) -> int:
        found = self.find(key)
        if not isinstance(found, int) or isinstance(found, bool):
            raise refuse(self.path, self.number, f"found {found!r} in {key}, expected a number")
        return found

    def find_objects(self, key: str) -> list["JsonLine"]:
        """Return the objects of a list as lines of their own."""
        found = self.find(key)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            message = f"found no list of objects in {key} but {found!r:.60}, expected one"
            raise refuse(self.path, self.number, message)
        return [self._replace(value=item) for item in found]


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    for number, value in read_objects(path):
        yield JsonLine(path, number, value)


@READERS.register("jsonl")
class JsonLinesReader(RowReader):
    """One object per line."""

    name: Literal["jsonl"]
    texts: Annotated[list[Key], Field(min_length=1, max_length=2)]
    """Keys of the text, or of the two texts."""
    label: Key
    """Key of the label, or of the text to write."""
    labels_file: FileName | None = None
    """Member with the labels of the splits in `labelled_elsewhere`, by the keys id and label."""
    labelled_elsewhere: dict[str, Key] = Field(default_factory=dict)
    """Splits whose labels are in `labels_file`, each with its key of the id."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        is_other = kind.has_tags or kind.has_several_labels or kind.is_grouped
        return kind.writes_text or (kind.has_label and not is_other)

    def check(self, task: ReadTask) -> None:
        if len(self.texts) != task.kind.num_texts:
            raise ValueError(
                f"reader.texts: found {self.texts}; the kind {task.kind} needs "
                f"{task.kind.num_texts}."
            )
        if bool(self.labels_file) != bool(self.labelled_elsewhere):
            raise ValueError(
                "reader: found one of labels_file and labelled_elsewhere, expected both."
            )

    def list_members(self) -> list[str]:
        return [self.labels_file] if self.labels_file else []

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        split = task.splits[name]
        patterns = {key: re.compile(pattern) for key, pattern in split.where.items()}
        elsewhere = self._read_labels(path) if name in self.labelled_elsewhere else None
        examples = []
        for line in read_json_lines(path):
            if not all(item.fullmatch(line.find_label(key)) for key, item in patterns.items()):
                continue
            label = None
            if split.labelled:
                label = self.map_label(self._find_label(line, name, elsewhere))
                if label is None:
                    continue
            first, *second = (line.find_text(key) for key in self.texts)
            examples.append(Example(line.number, first, second[0] if second else None, label))
        return self.place_answers(task, examples)

    def _find_label(self, line: JsonLine, name: str, elsewhere: dict[str, str] | None) -> str:
        if elsewhere is None:
            return line.find_label(self.label)
        found = line.find_label(self.labelled_elsewhere[name])
        if found not in elsewhere:
            message = f"found the id {found}, which {self.labels_file} does not have"
            raise refuse(line.path, line.number, message)
        return elsewhere[found]

    def _read_labels(self, path: Path) -> dict[str, str]:
        assert self.labels_file is not None
        lines = read_json_lines(path.with_name(self.labels_file))
        return {line.find_label("id"): line.find_label("label") for line in lines}
