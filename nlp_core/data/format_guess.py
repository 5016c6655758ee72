"""Guess the format of the user's file or folder from its name and its first lines."""

from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from nlp_core.config.user_data import Format
from nlp_core.data.readers.arrow import is_dataset
from nlp_core.data.readers.brat import list_texts
from nlp_core.data.readers.json_array import find_rows
from nlp_core.data.readers.lines import parse_json, read_lines
from nlp_core.data.readers.orange import has_types
from nlp_core.data.readers.records import check_file, read_cells
from nlp_core.errors import DataError
from nlp_core.kinds import Kind

SAMPLE = 1000
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    ".csv": "csv",
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".spacy": "spacy",
    **dict.fromkeys((".conll", ".conllu", ".bio", ".iob", ".iob2", ".bioes"), "conll"),
}
BINARY = ("parquet", "arrow", "spacy")
"""Formats without lines."""


def find_folder_format(path: Path) -> Format | None:
    """Return the format of a folder; None for a file, or a folder of nothing that is read."""
    if not path.is_dir():
        return None
    if is_dataset(path):
        return "arrow"
    return "brat" if list_texts(path) else None


def guess_format(path: Path, kind: Kind) -> Format:
    """Guess the format of a file from its name and its first lines; SQuAD is not among them.

    Raises:
        DataError: the file is missing or empty, or no file or folder for the kind.
    """
    form = find_folder_format(path)
    check_file(path, form)
    if form == "brat" and form not in kind.user_file.formats:
        raise DataError(
            f"{path}: found a folder of brat, which has only entities, expected a file for the "
            f"kind {kind}. Does it lack .ann files?"
        )
    if form is not None:
        return form
    known = SUFFIXES.get(path.suffix.lower())
    if known in BINARY:
        return known
    lines = [line.text for line in islice(read_lines(path), SAMPLE)]
    first = next(filter(str.strip, lines), "")
    if known == "jsonl":
        is_array = first.lstrip().startswith("[") or find_rows(parse_document(path)) is not None
        return "json" if is_array else known
    if known == "tsv" and has_types(path):
        return known
    if "conll" in kind.user_file.formats and (known == "conll" or _has_sentences(lines, known)):
        return "conll"
    return known if known in ("tsv", "csv") else _guess_by_sign(first, path)


def parse_document(path: Path) -> Any:  # Any: JSON
    """Return the value of a .json file; None for JSON Lines and for other text."""
    if path.suffix.lower() != ".json":
        return None
    first = list(islice((line.text for line in read_lines(path) if line.text.strip()), 2))
    with suppress(ValueError):
        if len(first) == 2 and parse_json(first[0]) is not None:
            return None  # JSON Lines, which may not fit in memory
    with suppress(ValueError):
        return parse_json(path.read_text(encoding="utf-8-sig"))
    return None


def _has_sentences(lines: list[str], known: str | None) -> bool:
    """Return whether blank lines end sentences of tokens; in a table they are mere gaps."""
    if "\n\n" not in "\n".join(map(str.strip, lines)).strip():
        return False
    if known not in ("tsv", "csv"):
        return True
    rows = [line.split("\t" if known == "tsv" else ",") for line in lines if line.strip()]
    return len({len(row) for row in rows} - {1}) == 1 and not any(" " in row[0] for row in rows)


def _guess_by_sign(line: str, path: Path) -> Format:
    signs: dict[Format, bool] = {
        "jsonl": line.lstrip().startswith("{"),
        "json": line.lstrip().startswith("["),
        "tsv": "\t" in line,
        "csv": "," in line,
    }
    if found := next((form for form, is_seen in signs.items() if is_seen), None):
        return found
    raise DataError(
        f"{path}: found neither tabs, commas nor JSON in the first line, expected a table of texts "
        "and labels. Name the file .tsv, .csv, .jsonl, .parquet or .conll by its format."
    )


def guess_separator(path: Path) -> str:
    """Return the separator that cuts the most rows into the same number of cells."""
    counts = Counter[str]()
    for mark in ",;\t|":
        # text that is quoted for another separator may be malformed for this one
        with suppress(DataError):
            rows = islice(read_cells(path, mark, quoted=True), SAMPLE)
            for width, share in Counter(len(cells) for _, cells in rows).most_common(1):
                if width > 1:
                    counts[mark] = share
    return max(counts, key=lambda mark: counts[mark], default=",")
