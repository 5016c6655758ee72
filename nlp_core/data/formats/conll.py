"""Read column files: a token per line, its tag in the last column, blank lines after sentences."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

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
from nlp_core.data.readers.example import NOTHING, Sentence
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.data.tagging_scheme import OUTSIDE, PREFIXES, TagError, convert_tags, list_tags
from nlp_core.kinds import Kind

DOCUMENT_START = "-DOCSTART-"
SEPARATORS: Mapping[str, str] = MappingProxyType({"space": " ", "tab": "\t"})
"""Column separators by name."""


def read_conll(
    path: Path,
    *,
    num_columns: int,
    separator: str = "space",
    source_scheme: str,
    target_scheme: str,
    tags: Collection[str],
    bare_type: str | None = None,
    keep_docstart: bool,
    extras: Mapping[str, int] = NOTHING,
) -> list[Sentence]:
    """Read the sentences of a column file.

    Args:
        path: the file.
        num_columns: columns of a line.
        separator: one "space" or one "tab".
        source_scheme: tagging scheme of the file.
        target_scheme: tagging scheme of the result.
        tags: the allowed tags in `target_scheme`.
        bare_type: type of all entities if tags are only letters; None if tags name their type.
        keep_docstart: whether a -DOCSTART- line is a sentence of one token.
        extras: further columns by name, each with its index from 0.

    Raises:
        DataError: a line has another number of columns, or a tag that is not allowed.
    """
    sentences: list[Sentence] = []
    rows: list[list[str]] = []
    start = 1

    def finish() -> None:
        if rows and (keep_docstart or rows[0][0] != DOCUMENT_START):
            found = [row[-1] for row in rows]
            if bare_type is not None:
                found = _add_type(found, source_scheme, bare_type, path=path, start=start)
            converted = _convert(found, source_scheme, target_scheme, path=path, start=start)
            _check_tags(converted, tags, path=path, start=start)
            more = {name: [row[number] for row in rows] for name, number in extras.items()}
            sentences.append(Sentence(start, [row[0] for row in rows], converted, extras=more))
        rows.clear()

    for line in read_lines(path):
        if not line.text.strip():
            finish()
            continue
        if not rows:
            start = line.number
        rows.append(_split(line, path, num_columns, separator))
    finish()
    return sentences


def _split(line: Line, path: Path, num_columns: int, separator: str) -> list[str]:
    parts = line.text.split(SEPARATORS[separator])
    if len(parts) != num_columns or not all(parts):
        found = len([part for part in parts if part])
        raise refuse(
            path,
            line.number,
            f"found {found} columns, expected {num_columns} separated by one {separator}",
        )
    return parts


def _add_type(tags: list[str], scheme: str, name: str, *, path: Path, start: int) -> list[str]:
    letters = list(PREFIXES[scheme])
    for index, tag in enumerate(tags):
        if tag not in (OUTSIDE, *letters):
            allowed = ", ".join(letters)
            raise refuse(path, start + index, f"found the tag '{tag}', expected O, {allowed}")
    return [tag if tag == OUTSIDE else f"{tag}-{name}" for tag in tags]


def _convert(tags: list[str], source: str, target: str, *, path: Path, start: int) -> list[str]:
    try:
        return convert_tags(tags, source, target)
    except TagError as err:
        raise refuse(path, start + err.index, str(err)) from err


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
        return read_conll(
            path,
            num_columns=self.columns,
            separator=self.separator,
            source_scheme=self.scheme,
            target_scheme=task.scheme,
            tags=list_tags(task.labels, task.scheme),
            bare_type=self.bare_type,
            keep_docstart=self.docstart == "keep",
            extras={SYMBOLS + name: number for name, number in self.features.items()},
        )
