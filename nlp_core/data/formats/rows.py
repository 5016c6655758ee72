"""Read files of one example a line: tab-separated columns without quoting, and running text."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from nlp_core.config.base import FileName
from nlp_core.config.column import NUMBERS, SYMBOLS, TOKEN_NUMBERS
from nlp_core.config.reader import READERS, ColumnName, ReadTask, SourceReader
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import Line, parse_number, read_lines, refuse
from nlp_core.errors import DataError
from nlp_core.kinds import Kind


def parse_numbers(cell: str, name: str, line: Line, path: Path) -> list[float]:
    """Return the finite numbers of a cell, separated by spaces; there must be one at least."""
    texts = cell.split() or [""]
    numbers = [parse_number(text) for text in texts]
    for text, value in zip(texts, numbers, strict=True):
        if math.isnan(value):
            found = f"found '{text}' in the column '{name}', expected a finite number"
            raise refuse(path, line.number, found)
    return numbers


def _split_labels(cell: str, separator: str, line: Line, path: Path) -> tuple[str, ...]:
    """Return the labels of a cell; an empty cell has none."""
    parts = cell.strip().split(separator) if cell.strip() else []
    labels = tuple(part.strip() for part in parts)
    if not all(labels) or len(set(labels)) < len(labels):
        raise refuse(
            path,
            line.number,
            f"found the labels '{cell}', expected each once, with '{separator}' between them, or "
            "an empty cell",
        )
    return labels


def read_header(
    lines: Iterator[Line], columns: list[str] | None, wanted: Sequence[str], path: Path
) -> list[str]:
    """Return `columns` or the names in the first line; a DataError if a wanted one is missing."""
    names = columns or next(lines).text.split("\t")
    if missing := [key for key in wanted if key not in names]:
        raise DataError(
            f"{path}: line 1: the header lacks {', '.join(missing)}; found "
            f"{', '.join(names)}. Fetch the official file again."
        )
    return names


def split_columns(line: Line, path: Path, num_columns: int) -> list[str]:
    parts = line.text.split("\t")
    if len(parts) != num_columns:
        raise refuse(
            path, line.number, f"found {len(parts)} tab-separated columns, expected {num_columns}"
        )
    return parts


class RowReader(SourceReader):
    """What formats with named values for each row share: which rows count, and their labels."""

    filters: ClassVar[bool] = True
    label_names: dict[str, str] = Field(default_factory=dict)
    """Names of labels that the file writes differently: {"e": "entailment"}."""
    left_out: list[str] = Field(default_factory=list)
    """Labels of the file whose rows are left out, such as "-" for pairs without agreement."""

    def map_label(self, cell: str) -> str | None:
        """Return the name of a label of the file; None if its row is left out."""
        return None if cell in self.left_out else self.label_names.get(cell, cell)

    def place_answers(self, task: ReadTask, examples: list[Example]) -> list[Example]:
        """Return examples whose labels are texts to write, if the kind writes any."""
        if not task.kind.writes_text:
            return examples
        return [item._replace(label=None, output=item.label) for item in examples]


@READERS.register("tsv")
class TsvReader(RowReader):
    """Tab-separated columns, no quotes."""

    name: Literal["tsv"]
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Columns of the text, or of the two texts."""
    label: str
    """Column of the label, or of the text to write."""
    label_separator: Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")] | None = None
    """Separator of the labels in a cell, such as "," or a space; an empty cell has no label. Kind
    multi_label only."""
    features: list[ColumnName] = Field(default_factory=list)
    """Columns of a symbol per token, separated by spaces: features.NAME to a model."""
    dense: list[ColumnName] = Field(default_factory=list)
    """Columns of numbers, as many in each row, separated by spaces: dense.NAME to a model."""
    token_dense: list[ColumnName] = Field(default_factory=list)
    """Columns of a number per token, separated by spaces: token_dense.NAME to a model."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.writes_text or (kind.has_label and not kind.has_tags)

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
        """Read the rows of a split; `columns` of the split are the names if there is no header."""
        split, lines = task.splits[name], read_lines(path)
        label = self.label if split.labelled else None
        dense = {NUMBERS + key: key for key in self.dense}
        dense |= {TOKEN_NUMBERS + key: key for key in self.token_dense}
        wanted = [*self.texts, *self.features, *dense.values(), *([label] if label else [])]
        wanted += split.where
        names = read_header(lines, split.columns, wanted, path)
        place = {key: names.index(key) for key in wanted}
        patterns = {place[key]: re.compile(item) for key, item in split.where.items()}
        examples = []
        for line in lines:
            parts = split_columns(line, path, len(names))
            if not all(item.fullmatch(parts[at]) for at, item in patterns.items()):
                continue
            texts = [parts[place[key]] for key in self.texts]
            extras: dict[str, list[str] | list[float]] = {
                SYMBOLS + key: parts[place[key]].split() for key in self.features
            }
            for extra, key in dense.items():
                extras[extra] = parse_numbers(parts[place[key]], key, line, path)
            cell = self.map_label(parts[place[label]]) if label else None
            if label and cell is None:
                continue
            labels = None
            if cell is not None and self.label_separator is not None:
                labels = _split_labels(cell, self.label_separator, line, path)
                cell = None
            second = texts[1] if len(texts) > 1 else None
            examples.append(
                Example(line.number, texts[0], second, cell, labels=labels, extras=extras)
            )
        return self.place_answers(task, examples)


@READERS.register("lines")
class LinesReader(SourceReader):
    """Running text: a sentence, a paragraph or a document a line; empty lines are left out."""

    name: Literal["lines"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.predicts_words

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        lines = read_lines(path)
        return [Example(item.number, item.text, None, None) for item in lines if item.text.strip()]


@READERS.register("wikiqa")
class WikiqaReader(SourceReader):
    """Question, sentence and label, tab-separated; equal questions in a row are one group."""

    name: Literal["wikiqa"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.is_grouped

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples: list[Example] = []
        group = -1
        for line in read_lines(path):
            question, candidate, label = split_columns(line, path, 3)
            if not examples or question != examples[-1].text_a:
                group += 1
            examples.append(Example(line.number, question, candidate, label, group))
        return examples


@READERS.register("trec")
class TrecReader(SourceReader):
    """A class and its question, separated by a space: `DESC:manner How did ...`; Latin-1."""

    name: Literal["trec"]
    fine: bool = False
    """Whether labels are the fine classes (`DESC:manner`) or the coarse ones (`DESC`)."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return (
            kind.num_texts == 1
            and kind.has_label
            and kind.has_classes
            and not (kind.has_tags or kind.has_several_labels)
        )

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        examples = []
        for line in read_lines(path, encoding="latin-1"):
            label, _, text = line.text.partition(" ")
            coarse, colon, _ = label.partition(":")
            if not (colon and text):
                raise refuse(path, line.number, "found no class such as DESC:manner and a question")
            examples.append(Example(line.number, text, None, label if self.fine else coarse))
        return examples


@READERS.register("mrpc")
class MrpcReader(SourceReader):
    """The raw Microsoft Research Paraphrase Corpus; dev is a list of ids."""

    name: Literal["mrpc"]
    dev_ids: FileName
    """File with the pairs of ids of dev."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.num_texts == 2 and kind.has_label and kind.has_classes and not kind.is_grouped

    def list_members(self) -> list[str]:
        return [self.dev_ids]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        """Read the rows in `dev_ids` for dev, the others for train, and all of another split."""
        lines = read_lines(path)
        next(lines)
        # label, id of the first text, id of the second, first text, second text
        rows = [split_columns(line, path, 5) for line in lines]
        examples = [Example(n, row[3], row[4], row[0]) for n, row in enumerate(rows, start=2)]
        if name not in ("train", "dev"):
            return examples
        ids_path = path.with_name(self.dev_ids)
        ids = [split_columns(line, ids_path, 2) for line in read_lines(ids_path)]
        dev_ids = {(first, second) for first, second in ids}
        pairs = [(row[1], row[2]) for row in rows]
        if lost := sorted(dev_ids - set(pairs)):
            raise DataError(
                f"{ids_path}: the pair {lost[0][0]}, {lost[0][1]} is not in {path}; "
                "expected every pair there. Fetch both files again."
            )
        kept = zip(pairs, examples, strict=True)
        return [example for pair, example in kept if (pair in dev_ids) == (name == "dev")]
