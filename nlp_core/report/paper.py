"""A table for a paper: LaTeX with booktabs and a macro for each number, CSV, JSON or markdown."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from nlp_core.errors import DataError
from nlp_core.files import digest_json
from nlp_core.report.comparison import ComparedPart, Comparison, Entry
from nlp_core.report.markdown import render_part
from nlp_core.report.significance import ColumnFinding, RowFinding

DIGEST_LETTERS = 12
KINDS = ("published", "ours")
FIELDS = ["table", "part", "row", "column", "metric", "epoch", "published", "mean", "sd", "seeds"]
FIELDS += ["low", "high", "letters", "verdict", "cell", "cell_digest"]
"""The keys of a number's record, in order."""
FITTED = r"\begin{adjustbox}{max width=\textwidth}"
MAX_TITLES = 4  # with two numbers each, what fits on a page
NAMES = ["Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"]
DIGITS = dict(zip("0123456789", NAMES, strict=True))
LETTER = re.compile(r"[a-z][0-9]*")  # after z come a2, b2 ...
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
# other letters in LaTeX's default font encoding
SPECIAL |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
OPTIONS = ("[", "*")  # which the end of the row before would take for its options


class PaperTable(NamedTuple):
    """A compared table, with intervals and letters of its columns."""

    comparison: Comparison
    findings: Sequence[ColumnFinding]

    def find_row(self, part: ComparedPart, entry: Entry) -> RowFinding | None:
        """Return the finding of a number, if its predictions are committed."""
        return next((row for row in self._list_rows(part, entry) if row.row == entry.row), None)

    def is_best(self, part: ComparedPart, entry: Entry) -> bool:
        """Return whether a number is the best of its column and no other row shares a letter."""
        rows = self._list_rows(part, entry)
        if len(rows) < 2 or rows[0].row != entry.row:
            return False
        column = (entry.column, entry.selection)
        measured = {e.row for e in part.entries if e.ours and (e.column, e.selection) == column}
        if not measured <= {row.row for row in rows}:
            return False  # a row without committed predictions may be better
        best, *others = ({*LETTER.findall(row.letters)} for row in rows)
        return all(best.isdisjoint(letters) for letters in others)

    def digest_cell(self, cell: str) -> str:
        """Return the first letters of the sha256 of a cell's results."""
        result = self.comparison.results.cells[cell]
        return digest_json(result.model_dump(mode="json"))[:DIGEST_LETTERS]

    def _list_rows(self, part: ComparedPart, entry: Entry) -> list[RowFinding]:
        key = (part.config.title, entry.column, entry.selection)
        for item in self.findings:
            is_of_column = (item.part, item.column, item.selection) == key
            if is_of_column and any(row.row == entry.row for row in item.rows):
                return item.rows
        return []


def render_latex(table: PaperTable) -> str:
    """Return the macros of all our numbers, then a table for each part.

    The document needs the packages booktabs and adjustbox.
    """
    parts = [part for part in table.comparison.parts if any(entry.ours for entry in part.entries)]
    name = table.comparison.results.table
    lines = [
        f"% {name}: needs \\usepackage{{booktabs,adjustbox}}. A bold number is the best of its",
        "% metric and differs significantly from those of all other models.",
        *_list_macros(table, parts),
    ]
    tables = [
        _render_table(table, part, f"tab:{name}-{number}") for number, part in enumerate(parts, 1)
    ]
    return "\n".join([*lines, "", *tables])


def render_csv(table: PaperTable) -> str:
    """Return a row for each number, with a header."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_list_records(table))
    return out.getvalue()


def render_json(table: PaperTable) -> str:
    """Return a list with an object for each number."""
    return json.dumps(_list_records(table), indent=2) + "\n"


def render_markdown(table: PaperTable) -> str:
    """Return the parts of the report, without the sections on how it was made."""
    comparison = table.comparison
    return "\n\n".join(render_part(part, comparison) for part in comparison.parts) + "\n"


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "latex": render_latex,
    "csv": render_csv,
    "json": render_json,
    "markdown": render_markdown,
}


def _list_records(table: PaperTable) -> list[dict[str, str | float | int | None]]:
    return [
        _describe(table, part, entry)
        for part in table.comparison.parts
        for entry in part.entries
        if entry.ours is not None or entry.number.value is not None
    ]


def _describe(
    table: PaperTable, part: ComparedPart, entry: Entry
) -> dict[str, str | float | int | None]:
    ours, finding = entry.ours, table.find_row(part, entry)
    interval = finding.interval if finding else table.comparison.find_mean_interval(entry)
    return {
        "table": table.comparison.results.table,
        "part": part.config.title,
        "row": entry.row,
        "column": entry.column,
        "metric": entry.metric,
        "epoch": entry.selection,
        "published": entry.number.value,
        "mean": None if ours is None else ours.mean,
        "sd": None if ours is None else ours.sd,
        "seeds": None if ours is None else ours.n,
        "low": None if interval is None else round(interval.low, 6),
        "high": None if interval is None else round(interval.high, 6),
        "letters": None if finding is None else finding.letters,
        "verdict": entry.verdict.text,
        "cell": entry.cell,
        "cell_digest": table.digest_cell(entry.cell or "") if ours is not None else None,
    }


def _list_macros(table: PaperTable, parts: Sequence[ComparedPart]) -> list[str]:
    lines, names = [], dict[str, list[str]]()
    for part in parts:
        for entry in part.entries:
            if entry.ours is None or entry.cell is None:
                continue
            words = [table.comparison.results.table, entry.cell, entry.metric]
            name = name_macro(*words)
            if names.get(name, words) != words:
                raise DataError(
                    f"results/{words[0]}.json: {'/'.join(words[1:])} and "
                    f"{'/'.join(names[name][1:])} would have one macro, \\{name}; rename a cell."
                )
            if name not in names:
                names[name] = words
                seeds = ",".join(map(str, table.comparison.results.cells[entry.cell].seeds))
                lines.append(
                    f"\\newcommand{{\\{name}}}{{{entry.ours.mean:.2f}}}"
                    f"  % {'/'.join(words[:2])} {words[2]}, seeds {seeds}, "
                    f"sha256 {table.digest_cell(entry.cell)}"
                )
    return lines


def name_macro(*words: str) -> str:
    """Return a LaTeX command's name, letters only: `wikiqa cnn test.auc` is `WikiqaCnnTestAuc`."""
    pieces = [piece for word in words for piece in re.findall(r"[A-Za-z]+|[0-9]", word)]
    return "".join(DIGITS.get(piece, piece[:1].upper() + piece[1:]) for piece in pieces)


def _render_table(table: PaperTable, part: ComparedPart, label: str) -> str:
    """Return a table with a row for each model, or for each column if that is narrower."""
    has_ways = part.config.selection != "honest"
    notes: list[str] = []
    numbers: dict[tuple[str, str, str], str] = {}
    for entry in part.entries:
        title = f"{entry.column} ({entry.selection})" if has_ways else entry.column
        published, ours = _render_numbers(table, part, entry, notes)
        if published:
            numbers[_escape(entry.row), _escape(title), "published"] = published
        numbers[_escape(entry.row), _escape(title), "ours"] = ours
    models, titles, _ = (list(dict.fromkeys(axis)) for axis in zip(*numbers, strict=True))
    is_turned = len(titles) > max(len(models), MAX_TITLES)
    lines, groups = (titles, models) if is_turned else (models, titles)
    columns: dict[tuple[str, str], dict[str, str]] = {
        (group, kind): {} for group in groups for kind in KINDS
    }
    for (model, title, kind), number in numbers.items():
        line, group = (title, model) if is_turned else (model, title)
        columns[group, kind][line] = number
    frame = pd.DataFrame({key: cells for key, cells in columns.items() if cells}).reindex(lines)
    if "published" not in frame.columns.get_level_values(1):
        frame = frame.droplevel(1, axis="columns")
    text: str = frame.fillna("").style.to_latex(
        column_format="l" + "r" * frame.shape[1],
        hrules=True,
        multicol_align="c",
        position_float="centering",
        caption=_escape(part.config.title),
        label=label,
    )
    notes = [f"{_mark(idx)} {note}" for idx, note in enumerate(notes)]
    notes += _list_data_notes(table, part)
    # The braces keep the smaller type inside the table.
    small = "".join(f"{{\\footnotesize {note}\\par}}\n" for note in notes)
    text = text.replace("\\begin{tabular}", f"{FITTED}\n\\begin{{tabular}}")
    text = text.replace("\\end{tabular}", "\\end{tabular}\n\\end{adjustbox}\\par")
    return text.replace("\\end{table}", f"{small}\\end{{table}}")


def _list_data_notes(table: PaperTable, part: ComparedPart) -> list[str]:
    """Return what is not the official release in the data of the part's cells."""
    cells = table.comparison.results.cells
    named = {entry.cell for entry in part.entries if entry.cell in cells}
    found = {note for name in named for note in cells[name or ""].footnotes}
    return [_end(note) for note in sorted(found)]


def _render_numbers(
    table: PaperTable, part: ComparedPart, entry: Entry, notes: list[str]
) -> tuple[str, str]:
    """Return the published number and ours; a remark becomes a note, equal ones the same."""
    published = ""
    if entry.number.value is not None:
        published = f"{entry.number.value:.{part.config.decimals}f}"
    if entry.number.remark:
        note = _end(entry.number.remark)
        if note not in notes:
            notes.append(note)
        published += _mark(notes.index(note))
    if entry.ours is None:
        return published, "--"
    number = f"{entry.ours.mean:.2f}"
    if entry.ours.n > 1:
        number += f" \\pm {entry.ours.sd:.2f}"
    return published, f"$\\mathbf{{{number}}}$" if table.is_best(part, entry) else f"${number}$"


def _mark(idx: int) -> str:
    """Return the sign of a note, whose numbers begin with 1."""
    return f"$^{{{idx + 1}}}$"


def _escape(text: str) -> str:
    found = "".join(SPECIAL.get(letter, letter) for letter in text)
    return f"{{}}{found}" if found.startswith(OPTIONS) else found


def _end(text: str) -> str:
    """Return an escaped remark as a sentence."""
    return f"{_escape(text.strip().removesuffix('.'))}."
