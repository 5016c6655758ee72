"""Rewrite the tags of a file in another tagging scheme and leave all else in it as it is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from nlp_core.data.readers.conll import DOCUMENT_START
from nlp_core.data.readers.lines import Line, read_lines
from nlp_core.data.tagging_scheme import (
    LETTERS,
    OUTSIDE,
    PREFIXES,
    TagError,
    read_spans,
    write_tags,
)
from nlp_core.errors import DataError

Form = Literal["conll2003", "columns", "tsv"]

NUM_CONLL_COLUMNS = 4
COMMENT = "#"
_TAG = re.compile(rf"{OUTSIDE}|[{LETTERS}]-\S+")


class _Row(NamedTuple):
    """A token's line, cut around its tag."""

    line: Line
    columns: list[str]
    before: str
    after: str

    @property
    def tag(self) -> str:
        return self.columns[-1]


@dataclass
class Conversion:
    """Rewrite files from one tagging scheme to another.

    In `conll2003` files a line has four columns with one space between them; in `columns` files
    any number from two, with tabs or else blanks between them. The last one is the tag. Blank
    lines, -DOCSTART- lines and comments stay as they are; a comment begins with #, stands before
    the first token of its sentence and does not end in a tag, so that a token # is no comment. In
    `tsv` files a line is a sentence: words joined by one space, a tab, tags joined by one space.

    Attributes:
        form: how the files are laid out.
        scheme_from: IOB1, BIO, BIOES or BILOU, the scheme of what is read.
        scheme_to: the scheme of what is written.
        sentences: how many were rewritten.
        entities: how many stood in them.
        comments: how many lines were kept as comments.
    """

    form: Form
    scheme_from: str
    scheme_to: str
    sentences: int = 0
    entities: int = 0
    comments: int = 0

    def __post_init__(self) -> None:
        """Refuse a scheme that is none."""
        assert {self.scheme_from, self.scheme_to} <= set(PREFIXES), self

    def rewrite(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file, with their ends and with other tags.

        An entity goes on only in tags of its own type. I-LOC behind B-PER is a new entity in IOB1,
        where I- may begin one, and an error elsewhere, where it may not: to read it as an
        entity would make one that the file's own scheme does not have.

        Raises:
            DataError: a line has another number of columns, or a tag breaks the rules of
                `scheme_from`; the message has the line's number.
        """
        if not path.is_file():
            raise DataError(f"{path}: there is no such file; check its name.")
        return self._rewrite_tsv(path) if self.form == "tsv" else self._rewrite_columns(path)

    def _rewrite_columns(self, path: Path) -> Iterator[str]:
        rows: list[_Row] = []
        first: _Row | None = None
        for line in read_lines(path):
            if self._is_kept(line.text, is_inside=bool(rows)):
                yield from self._finish(rows, path)
                rows = []
                yield line.text + line.end
                continue
            row = self._cut(line, path)
            first = first or row
            if len(row.columns) != len(first.columns):
                raise _refuse(
                    path,
                    line.number,
                    f"found {len(row.columns)} columns, expected {len(first.columns)} as in line "
                    f"{first.line.number}",
                )
            rows.append(row)
        yield from self._finish(rows, path)

    def _is_kept(self, text: str, *, is_inside: bool) -> bool:
        """Say whether a line is no token: blank, the start of a document, or a comment."""
        words = text.split()
        if not words or words[0] == DOCUMENT_START:
            return True
        is_comment = text[0] == COMMENT and not is_inside and not _TAG.fullmatch(words[-1])
        self.comments += is_comment
        return is_comment

    def _cut(self, line: Line, path: Path) -> _Row:
        text = line.text.rstrip(" \t")
        columns = text.split("\t") if "\t" in text else re.split(" +", text)
        if self.form == "conll2003":
            if len(columns) != NUM_CONLL_COLUMNS or " ".join(columns) != line.text:
                fault = f"found {len(columns)} columns, expected {NUM_CONLL_COLUMNS}"
                raise _refuse(path, line.number, f"{fault} separated by one space")
        elif len(columns) == 1:
            raise _refuse(path, line.number, "found 1 column, expected a token and its tag")
        if not all(column.strip() for column in columns):
            raise _refuse(path, line.number, "found an empty column")
        end = len(text)
        return _Row(line, columns, text[: end - len(columns[-1])], line.text[end:])

    def _finish(self, rows: list[_Row], path: Path) -> Iterator[str]:
        numbers = [row.line.number for row in rows]
        tags = self._convert([row.tag for row in rows], numbers, path)
        for row, tag in zip(rows, tags, strict=True):
            yield row.before + tag + row.after + row.line.end

    def _rewrite_tsv(self, path: Path) -> Iterator[str]:
        for line in read_lines(path):
            if not line.text.strip():
                yield line.text + line.end
                continue
            columns = line.text.split("\t")
            if len(columns) != 2:
                found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
                message = f"found {found}, expected words, a tab, tags"
                raise _refuse(path, line.number, message)
            words, tags = (column.split(" ") for column in columns)
            if len(words) != len(tags):
                message = f"found {len(words)} words and {len(tags)} tags, expected as many"
                raise _refuse(path, line.number, message)
            converted = self._convert(tags, [line.number] * len(tags), path)
            yield f"{columns[0]}\t{' '.join(converted)}{line.end}"

    def _convert(self, tags: list[str], numbers: list[int], path: Path) -> list[str]:
        if not tags:
            return []
        try:
            spans = read_spans(tags, self.scheme_from)
        except TagError as err:
            fault = str(err)
            if err.index == len(tags):
                fault = f"the sentence ends inside the entity of {tags[-1]} ({self.scheme_from})"
            raise _refuse(path, numbers[min(err.index, len(tags) - 1)], fault) from err
        self.sentences += 1
        self.entities += len(spans)
        return write_tags(spans, len(tags), self.scheme_to)


def _refuse(path: Path, number: int, fault: str) -> DataError:
    return DataError(
        f"{path}: line {number}: {fault}. Correct the line, or say with --from and --scheme-from "
        "how the file is laid out and tagged."
    )
