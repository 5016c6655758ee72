"""Read tagged sentences: a token a line in a column file, or a sentence a line of three files."""

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import Count
from nlp_core.config.column import SYMBOLS
from nlp_core.config.reader import (
    READERS,
    ColumnName,
    ColumnPlaces,
    EntityScheme,
    ReadTask,
    SourceReader,
)
from nlp_core.data.readers.example import Sentence
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.data.tagging_scheme import OUTSIDE, PREFIXES, TagError, convert_tags, list_tags
from nlp_core.errors import plural
from nlp_core.kinds import Kind
from reglue_runtime.tree import INTENT, SLOT, nest_tags

DOCUMENT_START = "-DOCSTART-"
SEPARATORS: Mapping[str, str] = MappingProxyType({"space": " ", "tab": "\t"})
"""Column separators by name."""


def _add_type(tags: list[str], scheme: str, name: str, *, path: Path, start: int) -> list[str]:
    letters = list(PREFIXES[scheme])
    for index, tag in enumerate(tags):
        if tag not in (OUTSIDE, *letters):
            allowed = ", ".join(letters)
            raise refuse(path, start + index, f"found the tag '{tag}', expected O, {allowed}")
    return [tag if tag == OUTSIDE else f"{tag}-{name}" for tag in tags]


def _check_tags(tags: list[str], allowed: Collection[str], *, path: Path, start: int) -> None:
    for index, tag in enumerate(tags):
        if tag not in allowed:
            kinds = sorted({name.partition("-")[2] for name in allowed} - {""})
            raise refuse(
                path,
                start + index,
                f"found the entity type '{tag.partition('-')[2]}', expected {', '.join(kinds)}",
            )


@READERS.register("conll")
class ConllReader(SourceReader):
    """One token a line, a blank line after each sentence."""

    name: Literal["conll"]
    columns: Annotated[int, Field(ge=2)]
    """Columns per line; the first is the token, the last the tag."""
    separator: Literal["space", "tab"] = "space"
    """Separator of columns, a single one."""
    scheme: EntityScheme
    """Tagging scheme of the file."""
    bare_type: Annotated[str, Field(min_length=1)] | None = None
    """Type of all entities in a file whose tags are only letters (B, I, O); null: a tag names the
    type after a hyphen."""
    docstart: Literal["keep", "drop"]
    """Whether -DOCSTART- lines count as sentences."""
    features: dict[ColumnName, Count] = Field(default_factory=dict)
    """Columns between token and tag, counted from 0 (the token's): features.NAME to a model."""

    @model_validator(mode="after")
    def _check_features(self) -> "ConllReader":
        for name, number in self.features.items():
            if number >= self.columns - 1:
                raise ValueError(
                    f"features: {name}: found column {number}, expected one from 1 to "
                    f"{self.columns - 2}, between token (0) and tag."
                )
        return self

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_tags and not kind.has_label

    def check(self, task: ReadTask) -> None:
        if self.bare_type is not None and task.labels != [self.bare_type]:
            raise ValueError(
                f"reader.bare_type: found {self.bare_type} with the labels {task.labels}, expected "
                f"[{self.bare_type}]: the tags of the file name no type."
            )

    def place_columns(self) -> ColumnPlaces:
        features = {name: str(number + 1) for name, number in self.features.items()}
        return ColumnPlaces("1", str(self.columns), self.scheme, features)

    def read(self, task: ReadTask, name: str, path: Path) -> list[Sentence]:
        assert task.scheme is not None
        tags = list_tags(task.labels, task.scheme)
        sentences: list[Sentence] = []
        for start, rows in self._read_rows(path):
            if self.docstart == "drop" and rows[0][0] == DOCUMENT_START:
                continue
            found = [row[-1] for row in rows]
            if self.bare_type is not None:
                found = _add_type(found, self.scheme, self.bare_type, path=path, start=start)
            try:
                converted = convert_tags(found, self.scheme, task.scheme)
            except TagError as err:
                raise refuse(path, start + err.index, str(err)) from err
            _check_tags(converted, tags, path=path, start=start)
            extras = {
                SYMBOLS + name: [row[number] for row in rows]
                for name, number in self.features.items()
            }
            sentences.append(Sentence(start, [row[0] for row in rows], converted, extras=extras))
        return sentences

    def _read_rows(self, path: Path) -> Iterator[tuple[int, list[list[str]]]]:
        """Yield the columns of each sentence's tokens, with the line of the first one."""
        rows: list[list[str]] = []
        start = 1
        for line in read_lines(path):
            if line.text.strip():
                start = start if rows else line.number
                rows.append(self._split(line, path))
            elif rows:
                yield start, rows
                rows = []
        if rows:
            yield start, rows

    def _split(self, line: Line, path: Path) -> list[str]:
        parts = line.text.split(SEPARATORS[self.separator])
        if len(parts) != self.columns or not all(parts):
            found = len([part for part in parts if part])
            raise refuse(
                path,
                line.number,
                f"found {plural(found, 'column')}, expected {self.columns} separated by one "
                f"{self.separator}",
            )
        return parts


def _require_all(lines: tuple[Line | None, ...], paths: tuple[Path, ...]) -> list[Line]:
    found = [line for line in lines if line is not None]
    for line, path in zip(lines, paths, strict=True):
        if line is None:
            more = paths[lines.index(found[0])]
            raise refuse(
                path, found[0].number, f"found the end of the file, but {more} has more lines"
            )
    return found


@READERS.register("parallel")
class ParallelReader(SourceReader):
    """Three files, line by line: words, their tags, and the label of the sentence.

    As trees, the label is the intent `IN:LABEL` of the root, and each slot a child `SL:TYPE`.
    """

    name: Literal["parallel"]
    scheme: EntityScheme
    """Tagging scheme of the file of tags."""
    needs_side_files: ClassVar[bool] = True

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        is_turn = kind.has_history
        return kind.has_tree or (kind.has_tags and kind.has_label and not is_turn)

    def read(self, task: ReadTask, name: str, path: Path) -> list[Sentence]:
        if not task.kind.has_tree:
            return self._read(task, task.labels, task.slots or [], name, path)
        intents, slots = (
            [label.removeprefix(start) for label in task.labels if label.startswith(start)]
            for start in (INTENT, SLOT)
        )
        return [
            row._replace(tags=[], label=None, tree=nest_tags(row.label or "", row.tags, row.tokens))
            for row in self._read(task, intents, slots, name, path)
        ]

    def _read(
        self, task: ReadTask, labels: list[str], slots: list[str], name: str, path: Path
    ) -> list[Sentence]:
        split, scheme = task.splits[name], task.scheme or "BIO"
        assert split.tags_file is not None
        assert split.label_file is not None
        tags_path, label_path = path.with_name(split.tags_file), path.with_name(split.label_file)
        tags = set(list_tags(slots, scheme))
        paths = (path, tags_path, label_path)
        sentences: list[Sentence] = []
        for lines in zip_longest(*(read_lines(item) for item in paths)):
            words_line, tags_line, label_line = _require_all(lines, paths)
            words = [part for part in words_line.text.split(" ") if part]
            found = [part for part in tags_line.text.split(" ") if part]
            number, label = words_line.number, label_line.text.strip(" ")
            if not words:
                raise refuse(path, number, "found no word, expected at least one")
            if len(found) != len(words):
                message = f"found {plural(len(found), 'tag')}, expected {len(words)}"
                message += f", one for each word of {path}"
                raise refuse(tags_path, number, message)
            if label not in labels:
                expected = ", ".join(f"'{known}'" for known in labels)
                raise refuse(label_path, number, f"found the label '{label}', expected {expected}")
            try:
                converted = convert_tags(found, self.scheme, scheme)
            except TagError as err:
                raise refuse(tags_path, number, f"tag {err.index + 1}: {err}") from err
            if strange := [tag for tag in converted if tag not in tags]:
                message = f"found the tag '{strange[0]}', expected a type among the task's slots"
                raise refuse(tags_path, number, message)
            sentences.append(Sentence(number, words, converted, label))
        return sentences
