"""Read tab-separated files without quoting (GLUE)."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nlp_core.config.column import NUMBERS, SYMBOLS, TOKEN_NUMBERS
from nlp_core.config.reader import READERS, ColumnName, ReadTask, SourceReader
from nlp_core.data.readers.example import NOTHING, Example
from nlp_core.data.readers.lines import Line, parse_number, read_lines, refuse
from nlp_core.errors import DataError
from nlp_core.kinds import Kind


def read_tsv(
    path: Path,
    *,
    texts: Sequence[str],
    label: str | None,
    columns: Sequence[str] | None = None,
    label_separator: str | None = None,
    symbols: Mapping[str, str] = NOTHING,
    numbers: Mapping[str, str] = NOTHING,
) -> list[Example]:
    """Read the rows of a TSV file.

    Args:
        path: the file.
        texts: names of one or two text columns.
        label: name of the label column; None without labels.
        columns: names of the columns if the file has no header.
        label_separator: separates the labels of a cell; None: one label each.
        symbols: names of columns of symbols, separated by spaces, by the name of the result.
        numbers: the same of columns of finite numbers.

    Raises:
        DataError: a column is missing, a line has another number of columns than the header, a
            number is none, or a label of several is empty or repeated.
    """
    lines = read_lines(path)
    names = list(columns) if columns else next(lines).text.split("\t")
    wanted = [*texts, *symbols.values(), *numbers.values(), *([label] if label else [])]
    if missing := [name for name in wanted if name not in names]:
        raise DataError(
            f"{path}: line 1: the header lacks {', '.join(missing)}; found {', '.join(names)}. "
            "Fetch the official file again."
        )
    place = {name: names.index(name) for name in wanted}
    examples = []
    for line in lines:
        parts = split_columns(line, path, len(names))
        found = [parts[place[name]] for name in texts]
        extras: dict[str, list[str] | list[float]] = {
            key: parts[place[name]].split() for key, name in symbols.items()
        }
        for key, name in numbers.items():
            extras[key] = parse_numbers(parts[place[name]], name, line, path)
        example = Example(
            line.number,
            found[0],
            found[1] if len(found) > 1 else None,
            parts[place[label]] if label else None,
            extras=extras,
        )
        examples.append(example)
    if label_separator is None:
        return examples
    return [split_labels(example, label_separator, path) for example in examples]


def parse_numbers(cell: str, name: str, line: Line, path: Path) -> list[float]:
    """Return the finite numbers of a cell, separated by spaces; there must be one at least."""
    texts = cell.split() or [""]
    numbers = [parse_number(text) for text in texts]
    for text, value in zip(texts, numbers, strict=True):
        if math.isnan(value):
            found = f"found '{text}' in the column '{name}', expected a finite number"
            raise refuse(path, line.number, found)
    return numbers


def split_labels(example: Example, separator: str, path: Path) -> Example:
    """Return an example with its label cell split; an empty cell has no labels.

    Raises:
        DataError: a label is empty or repeated.
    """
    if example.label is None:
        return example
    cell = example.label.strip()
    labels = tuple(part.strip() for part in cell.split(separator)) if cell else ()
    if not all(labels) or len(set(labels)) < len(labels):
        raise refuse(
            path,
            example.line,
            f"found the labels '{example.label}', expected each once, with '{separator}' between "
            "them, or an empty cell",
        )
    return example._replace(label=None, labels=labels)


def split_columns(line: Line, path: Path, num_columns: int) -> list[str]:
    parts = line.text.split("\t")
    if len(parts) != num_columns:
        raise refuse(
            path, line.number, f"found {len(parts)} tab-separated columns, expected {num_columns}"
        )
    return parts


@READERS.register("tsv")
class TsvReader(SourceReader):
    """Tab-separated columns, no quotes."""

    name: Literal["tsv"]
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Columns of the text, or of the two texts."""
    label: str
    label_separator: Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")] | None = None
    """Separator of the labels in a cell, such as "," or a space; an empty cell has no label. Kind
    multi_label only."""
    features: list[ColumnName] = Field(default_factory=list)
    """Columns of a symbol per token, separated by spaces: features.NAME to a model."""
    dense: list[ColumnName] = Field(default_factory=list)
    """Columns of numbers, equally many per row, separated by spaces: dense.NAME to a model."""
    token_dense: list[ColumnName] = Field(default_factory=list)
    """Columns of a number per token, separated by spaces: token_dense.NAME to a model."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_label and not kind.has_tags

    def check(self, task: ReadTask) -> None:
        by_token, num_texts = [*self.features, *self.token_dense], task.kind.num_texts
        if by_token and num_texts > 1:
            raise ValueError(
                f"reader: found {by_token} with kind {task.kind}; only a kind of one text has "
                "values for each token."
            )
        if len(self.texts) != num_texts:
            raise ValueError(
                f"reader.texts: found {self.texts}; the kind {task.kind} needs {num_texts}."
            )
        if task.kind.has_several_labels != (self.label_separator is not None):
            raise ValueError(
                f"reader.label_separator: found {self.label_separator!r} with kind {task.kind}; "
                "multi_label needs one, no other kind has it."
            )

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        split = task.splits[name]
        return read_tsv(
            path,
            texts=self.texts,
            label=self.label if split.labelled else None,
            columns=split.columns,
            label_separator=self.label_separator,
            symbols={SYMBOLS + name: name for name in self.features},
            numbers={
                **{NUMBERS + name: name for name in self.dense},
                **{TOKEN_NUMBERS + name: name for name in self.token_dense},
            },
        )
