"""Convert the tags of a file to another tagging scheme and keep everything else."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from nlp_core.data.formats.tagged import DOCUMENT_START
from nlp_core.data.readers.lines import Line, read_lines, refuse, require_file
from nlp_core.data.tagging_scheme import (
    LETTERS,
    OUTSIDE,
    PREFIXES,
    TagError,
    read_spans,
    write_tags,
)
from nlp_core.errors import plural

Form = Literal["conll2003", "columns", "tsv"]

NUM_CONLL_COLUMNS = 4
COMMENT = "#"
_refuse = partial(refuse, advice="Correct the line, or the options --from and --scheme-from.")
_TAG = re.compile(rf"{OUTSIDE}|[{LETTERS}]-\S+")


def _read_mark(path: Path) -> Iterator[str]:
    """Yield the byte order mark of a file, if it has one."""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            yield codecs.BOM_UTF8.decode()


class _Row(NamedTuple):
    """A token's line, split around its tag."""

    line: Line
    columns: int
    before: str
    tag: str
    after: str


@dataclass
class Conversion:
    """Rewrite files from one tagging scheme to another.

    In `conll2003` files a line has four columns separated by one space; in `columns` files two or
    more, separated by tabs or spaces. The last one is the tag. Blank lines, -DOCSTART- lines and
    comments are kept; a comment begins with #, is before the first token of its sentence and does
    not end in a tag, so a token # is not a comment. In `tsv` files a line is a sentence: words
    separated by one space, a tab, tags separated by one space.
    """

    form: Form
    scheme_from: str
    scheme_to: str
    sentences: int = 0
    entities: int = 0
    comments: int = 0

    def __post_init__(self) -> None:
        assert {self.scheme_from, self.scheme_to} <= set(PREFIXES), self

    def rewrite(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file with converted tags.

        I-LOC after B-PER is a new entity in IOB1, where I- may begin one, and an error elsewhere:
        reading it as an entity would invent one that the file's scheme does not have.

        Raises:
            DataError: a line has another number of columns, or a tag breaks the rules of
                `scheme_from`.
        """
        require_file(path)
        lines = self._rewrite_tsv(path) if self.form == "tsv" else self._rewrite_columns(path)
        return chain(_read_mark(path), lines)

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
            if row.columns != first.columns:
                fault = f"found {plural(row.columns, 'column')}, expected {first.columns}"
                raise _refuse(path, line.number, f"{fault} as in line {first.line.number}")
            rows.append(row)
        yield from self._finish(rows, path)

    def _is_kept(self, text: str, *, is_inside: bool) -> bool:
        """Return whether a line is not a token: blank, the start of a document, or a comment."""
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
                fault = f"found {plural(len(columns), 'column')}, expected {NUM_CONLL_COLUMNS}"
                raise _refuse(path, line.number, f"{fault} separated by one space")
        elif len(columns) == 1:
            raise _refuse(path, line.number, "found 1 column, expected a token and its tag")
        if not all(column.strip() for column in columns):
            raise _refuse(path, line.number, "found an empty column")
        before = text.removesuffix(columns[-1])
        return _Row(line, len(columns), before, columns[-1], line.text[len(text) :])

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
                fault = f"found {plural(len(columns), 'column')}, expected words, a tab, tags"
                raise _refuse(path, line.number, fault)
            words, tags = (column.split(" ") for column in columns)
            if len(words) != len(tags):
                fault = f"found {plural(len(words), 'word')} and {len(tags)} tags, expected as many"
                raise _refuse(path, line.number, fault)
            converted = self._convert(tags, [line.number] * len(tags), path)
            yield f"{columns[0]}\t{' '.join(converted)}{line.end}"

    def _convert(self, tags: list[str], numbers: list[int], path: Path) -> list[str]:
        if not tags:
            return []
        try:
            spans = read_spans(tags, self.scheme_from)
        except TagError as err:
            raise _refuse(path, numbers[err.index], str(err)) from err
        self.sentences += 1
        self.entities += len(spans)
        return write_tags(spans, len(tags), self.scheme_to)
