"""Read the user's files record by record: TSV, CSV, JSON Lines, parquet, and column files."""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig
from nlp_core.data.formats.tagged import DOCUMENT_START
from nlp_core.data.readers.arrow import check_names, read_arrow
from nlp_core.data.readers.brat import read_brat
from nlp_core.data.readers.json_array import ANSWER, read_array
from nlp_core.data.readers.lines import (
    Line,
    check_ends,
    describe_uncut,
    read_lines,
    read_objects,
    refuse,
    require_file,
)
from nlp_core.data.readers.list_cell import parse_list
from nlp_core.data.readers.orange import drop_types
from nlp_core.data.readers.spacy_docs import read_docs
from nlp_core.errors import DataError, plural, suggest
from nlp_core.files import name_local

ROWS_A_BATCH = 8192
LONGEST_CELL = 1 << 30
SHOWN_FILES = 5
WHOLE_LINE = "\0"
"""The separator of a file of texts, which no line has."""
FOLDERS = ("brat", "arrow")
OBJECT = '{"'
"""How an object of JSON begins."""
SPANS = "spans"
"""Column of the entities of Prodigy."""
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""Names of the columns of CoNLL-U."""
refuse_row = partial(refuse, advice="Correct the line, or the model file (--set data...).")
RANGE = re.compile(r"\d+[-.]\d+")
QUOTED = re.compile(r' +"[^"]*"')
"""A cell with a space before its quotes, which CSV takes as text."""


@dataclass
class FileRecord:
    """One row of a file, or one sentence of a column file.

    Attributes:
        cells: by column; in a column file a list with the cell of each token.
        lines: line, from 1, of the row or of each token; in parquet the row's number.
        block: all lines of a sentence, with blank lines and comments.
        look: what the file looks like if it seems to be of another format; empty: nothing else.
    """

    cells: dict[str, Any]
    lines: list[int]
    path: Path = Path()
    block: list[Line] = field(default_factory=list)
    look: str = ""

    def refuse(self, found: str, token: int = 0) -> DataError:
        """Return the error for a malformed cell, with the line of the row or of a token."""
        return refuse_row(self.path, self.lines[min(token, len(self.lines) - 1)], found)

    def get(self, column: str) -> Any:  # Any: a cell of JSON or parquet
        """Return a cell, None if it is NaN, as tables write a missing value.

        Raises:
            DataError: the column does not exist.
        """
        if column == SPANS and ANSWER in self.cells and column not in self.cells:
            return []  # Prodigy leaves the key out if there are none
        if column not in self.cells:
            found = f"found no column '{column}'. {suggest(column, self.cells)}"
            raise self.refuse(f"{found} {self.look}See data.texts and data.label")
        cell = self.cells[column]
        return None if isinstance(cell, float) and math.isnan(cell) else cell

    def get_items(self, column: str) -> Any:  # Any: a cell of JSON or parquet
        """Return a cell, as a list if it has one as text."""
        return parse_list(self.get(column))

    def matches(self, where: Mapping[str, str]) -> bool:
        """Return whether the cells of columns match regular expressions."""
        return all(
            re.fullmatch(pattern, name_label(self.get(column))) for column, pattern in where.items()
        )

    def get_text(self, column: str) -> str:
        cell = self.get(column)
        if cell is None or isinstance(cell, str):
            return cell or ""
        if isinstance(cell, list) and all(isinstance(item, str) for item in cell):
            return " ".join(cell)
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            return str(cell)
        raise self.refuse(f"found a {type(cell).__name__} in '{column}', expected a text")

    def get_list(self, column: str) -> list[str]:
        """Return the items of a list, or the words of a text; at least one."""
        cell = self.get_items(column)
        parts = cell.split() if isinstance(cell, str) else cell
        if not isinstance(parts, list) or not parts or None in parts:
            raise self.refuse(f"found {cell!r} in '{column}', expected a list, or words by spaces")
        return [str(part) for part in parts]


def name_label(cell: Any) -> str:  # Any: a cell of JSON
    """Return a label as text; true and false as in JSON, a list of one as its item, null as ""."""
    if isinstance(cell, list) and len(cell) == 1:
        return name_label(cell[0])
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def check_file(path: Path, form: str | None = None) -> None:
    """Raise DataError if a file is missing or empty, or a folder with a format of files."""
    if path.is_dir() and form not in FOLDERS:
        files = [item.name for item in sorted(path.iterdir()) if item.is_file()]
        shown = ", ".join(files[:SHOWN_FILES]) + (", ..." if len(files) > SHOWN_FILES else "")
        raise DataError(
            f"{path}: found a folder, expected a file, a folder of brat (.txt and .ann), or one "
            "that `save_to_disk` of Hugging Face datasets wrote."
            + (f" It has {shown}; give one of them." if files else "")
        )
    if path.is_dir():
        return
    if form == "brat":
        raise DataError(f"{path}: found a file or nothing, expected a folder of .txt and .ann.")
    require_file(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; expected at least one row.")


def read_records(
    path: Path, data: DataConfig, *, keeps_empty: bool = False
) -> Iterator[FileRecord]:
    """Yield the rows of a file or folder, all but JSON arrays in bounded memory.

    Args:
        keeps_empty: whether rows of empty cells are yielded, other than blank lines.

    Raises:
        DataError: the file is missing or empty, or a line is malformed.
    """
    check_file(path, data.format)
    if data.format == "conll":
        return _read_columns(path, data)
    if data.separator_or_usual is None:
        return read_named(path, data.format, keeps_empty=keeps_empty)
    return _read_delimited(path, data, keeps_empty=keeps_empty)


def read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:  # Any: cells
    try:
        with pq.ParquetFile(name_local(path)) as file:
            check_names(file.schema_arrow.names, path)
            batches = file.iter_batches(ROWS_A_BATCH)
            yield from enumerate(chain.from_iterable(item.to_pylist() for item in batches), start=1)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as err:
        reason = " ".join(str(err).split())
        raise DataError(
            f"{path}: not a readable parquet file ({reason}). Write or copy the file again."
        ) from err


NAMED: dict[str, Callable[[Path], Iterator[tuple[int, dict[str, Any]]]]] = {  # Any: cells
    "jsonl": partial(read_objects, unique=True),
    "json": read_array,
    "arrow": read_arrow,
    "parquet": read_parquet,
    "spacy": read_docs,
}
"""Readers of the number and the cells of each row."""


def read_named(path: Path, form: str, *, keeps_empty: bool = False) -> Iterator[FileRecord]:
    """Yield the rows of a format that names its columns and needs no further options."""
    if form == "brat":
        records = (FileRecord(line.cells, [line.number], line.path) for line in read_brat(path))
    else:
        records = (FileRecord(cells, [number], path) for number, cells in NAMED[form](path))
    for record in records:
        if not record.cells:
            raise record.refuse("found a row without columns, expected texts and labels by name")
        if keeps_empty or any(cell not in ("", None) for cell in record.cells.values()):
            yield record


def read_cells(
    path: Path, separator: str, *, quoted: bool, keeps_empty: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row of a delimited file; blank lines are skipped."""
    rows = _split_rows(path, separator, quoted=quoted)
    rows = drop_types(rows) if separator == "\t" else rows
    return rows if keeps_empty else ((number, cells) for number, cells in rows if any(cells))


def _split_rows(path: Path, separator: str, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    if not quoted:
        for line in _read_table(path, separator):
            is_blank = separator == WHOLE_LINE and not line.text.strip()
            if line.text and not is_blank:
                yield line.number, line.text.split(separator)
        return
    csv.field_size_limit(LONGEST_CELL)
    # with their ends: offsets of entities count both characters of a CR LF in a cell
    lines = (line.text + line.end for line in _read_table(path, separator))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                if odd := next((cell for cell in cells if QUOTED.fullmatch(cell)), None):
                    found = f"found {odd!r:.80}, a space before the quotes of a cell, which are"
                    raise refuse_row(path, start, f"{found} part of it then; remove the space")
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as err:
        text = next(line.text for line in _read_table(path, separator) if line.number == start)
        found = f"unbalanced quotes in this row ({err})"
        if text.lstrip().startswith(OBJECT):
            found = f"it {describe_uncut(text, separator)}, expected cells"
        raise refuse_row(path, start, found) from err


def _read_table(path: Path, separator: str) -> Iterator[Line]:
    """Yield the lines of a file; a first one that only names the separator, for Excel, is empty."""
    for line in read_lines(path):
        if "\r" in line.text:
            check_ends(line, path)
        names_separator = line.number == 1 and line.text == f"sep={separator}"
        yield line._replace(text="") if names_separator else line


def _read_delimited(path: Path, data: DataConfig, *, keeps_empty: bool) -> Iterator[FileRecord]:
    separator = data.separator_or_usual
    assert separator is not None
    rows = read_cells(path, separator, quoted=data.is_quoted, keeps_empty=keeps_empty)
    first_line, first = next(rows, (1, []))
    names = first if data.header else [str(number) for number in range(1, len(first) + 1)]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise refuse_row(path, first_line, f"the header names '{twice}' twice")
    look = ""
    if first and first[0].lstrip().startswith(OBJECT):
        found = f"it {describe_uncut(first[0], separator)}, expected cells"
        raise refuse_row(path, first_line, found)
    if len(first) == 1:
        look = f"Line {first_line} {describe_uncut(first[0], separator)}; see data.format. "
    if not data.header:
        yield FileRecord(dict(zip(names, first, strict=True)), [first_line], path, look=look)
    width, line = len(names), first_line
    for line, cells in rows:
        if len(cells) != width:
            found = (
                f"found {plural(len(cells), 'column')} separated by {separator!r}, expected {width}"
            )
            raise refuse_row(path, line, f"{found} as in line {first_line}")
        if data.format == "tsv" and any("\n" in cell for cell in cells):
            # in a TSV a stray quote is more likely than a text of several lines
            found = "found a quote that is not closed in its line, with quoted: true"
            raise refuse_row(path, line, found)
        yield FileRecord(dict(zip(names, cells, strict=True)), [line], path, look=look)
    lacking = [name for name in data.texts if name not in names]
    if data.header and line == first_line and first and lacking:
        found = f"found no column '{lacking[0]}' in the only row, which names the columns"
        raise refuse_row(path, first_line, f"{found} (data.header)")


def _read_columns(path: Path, data: DataConfig) -> Iterator[FileRecord]:
    """Yield the sentences of a column file; a document mark belongs to the next sentence."""
    width = 0
    record = FileRecord({}, [], path)
    for line in read_lines(path):
        if "\r" in line.text:
            check_ends(line, path)
        record.block.append(line)
        cells = _split(line, data)
        if cells:
            width = width or len(cells)
            if len(cells) != width:
                found = f"found {plural(len(cells), 'column')}, expected {width} as above"
                raise refuse_row(path, line.number, found)
            for number, cell in enumerate(cells, start=1):
                record.cells.setdefault(str(number), []).append(cell)
            if data.comments and width == len(CONLLU):
                for name, cell in zip(CONLLU, cells, strict=True):
                    record.cells.setdefault(name, []).append(cell)
            record.lines.append(line.number)
        elif record.lines and not line.text.strip():
            yield record
            record = FileRecord({}, [], path)
    if record.lines:
        yield record


def _split(line: Line, data: DataConfig) -> list[str]:
    """Return the columns of a token; none of a blank line, a comment or a document mark."""
    cells = line.text.split()
    if not cells or cells[0] == DOCUMENT_START:
        return []
    if data.comments and (line.text.startswith("#") or RANGE.fullmatch(cells[0])):
        return []
    return line.text.split(data.separator) if data.separator else cells
