"""Read the first rows of a table by column, and find out how they are read."""

import csv
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from nlp_core.data.column_guess import is_header
from nlp_core.data.format_guess import SAMPLE, guess_separator
from nlp_core.data.readers.json_array import ACCEPT, ANSWER, IGNORE
from nlp_core.data.readers.lines import read_lines, write_points
from nlp_core.data.readers.list_cell import parse_list
from nlp_core.data.readers.orange import find_used
from nlp_core.data.readers.records import SPANS, FileRecord, read_cells, read_named
from nlp_core.errors import DataError
from nlp_core.kinds import LABEL

REJECT = "reject"
YES_NO = f"{ACCEPT}|{REJECT}"
ANSWERS = (ACCEPT, REJECT, IGNORE)
"""What an annotator can answer."""


def read_sample(
    path: Path, values: dict[str, Any]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return values of each flat and each nested column; add to `values` how they were read."""
    if values["format"] in ("tsv", "csv"):
        columns = _read_delimited(path, values)
    else:
        records = list(islice(read_named(path, values["format"]), SAMPLE))
        if where := _guess_where(records):
            values["where"] = where
        columns = {}
        for record in records:
            cells = record.cells if record.matches(where) else {}
            if where.get(ANSWER) == YES_NO:
                # whether one label fits
                cells = {name: cells[name] for name in ("text", ANSWER) if name in cells}
            for name, value in cells.items():
                columns.setdefault(name, []).append(value)
        if where.get(ANSWER) == ACCEPT:
            del columns[ANSWER]  # the same in all rows that count
    nested = {name: cells for name, cells in columns.items() if any(map(_is_nested, cells))}
    return {name: cells for name, cells in columns.items() if name not in nested}, nested


def _guess_where(records: list[FileRecord]) -> dict[str, str]:
    """Return which rows count in a file of an annotation tool: those that were accepted."""
    answers = {str(record.cells.get(ANSWER)) for record in records}
    if ACCEPT not in answers or not answers <= {*ANSWERS}:
        return {}
    labels = {str(record.cells.get(LABEL)) for record in records if SPANS not in record.cells}
    return {ANSWER: YES_NO if len(labels) == 1 and REJECT in answers else ACCEPT}


def _is_nested(value: Any) -> bool:  # Any: a cell of JSON
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_is_nested, value)))


def _read_delimited(path: Path, values: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of the first rows, and add to `values` how they were read."""
    is_csv = values["format"] == "csv"
    separator = guess_separator(path) if is_csv else "\t"
    quoted = is_csv or _is_quoted(path)
    rows = [cells for _, cells in islice(read_cells(path, separator, quoted=quoted), SAMPLE)]
    if not rows:
        raise DataError(f"{path}: found only empty cells, expected at least one row of texts.")
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    fitting = [row for row in rows if len(row) == width]
    if separator != ",":
        fitting = write_points(fitting)
    used = [] if is_csv else find_used(path)
    is_named = used or is_header(fitting[0], fitting[1:])
    header = values["header"] = bool(len(rows[0]) == width and is_named)
    names = rows[0] if header else [str(number) for number in range(1, width + 1)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(
            f"{path}: line 1: found the column '{twice[0]}' twice, expected names that differ."
        )
    body = fitting[1:] if header else fitting
    if not body:
        raise DataError(f"{path}: found only a header, expected rows after it.")
    if is_csv and separator != ",":
        values["separator"] = separator
    if quoted and not is_csv:
        values["quoted"] = True
    kept = {name: idx for idx, name in enumerate(names) if name in (used or names)}
    return {name: _read_lists([row[idx] for row in body]) for name, idx in kept.items()}


def _read_lists(cells: list[str]) -> list[Any]:  # Any: texts, or lists of JSON
    """Return the lists that all cells hold as text, or the cells."""
    lists = [parse_list(cell) for cell in cells]
    return cells if any(isinstance(cell, str) and cell for cell in lists) else lists


def _is_quoted(path: Path) -> bool:
    """Return whether the cells of a TSV are quoted: some are, and all quotes are balanced."""
    lines = [line.text for line in islice(read_lines(path), SAMPLE)]
    cells = [cell for line in lines for cell in line.split("\t") if cell.startswith('"')]
    if not cells or not all(len(cell) > 1 and cell.endswith('"') for cell in cells):
        return False
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter="\t", strict=True)}
    except csv.Error:
        return False
    return len(widths) == 1
