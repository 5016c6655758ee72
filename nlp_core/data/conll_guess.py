"""Guess the columns of a file with a token on each line."""

import re
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from nlp_core.data.format_guess import SAMPLE
from nlp_core.data.formats.tagged import DOCUMENT_START
from nlp_core.data.readers.lines import read_lines
from nlp_core.data.readers.records import CONLLU
from nlp_core.data.tagging_scheme import LETTERS, OUTSIDE
from nlp_core.errors import DataError

CHUNK = re.compile(rf"{OUTSIDE}|[{LETTERS}](-.+)?")
"""A tag of an entity, in any scheme."""


def guess_columns(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys of the `data` section, and the reasons for some of them.

    Raises:
        DataError: the file has one column.
    """
    lines = [line.text for line in islice(read_lines(path), SAMPLE)]
    rows = [line for line in lines if line.strip() and not line.startswith("#")]
    rows = rows or [line for line in lines if line.strip()]
    is_conllu = all(len(row.split("\t")) == len(CONLLU) and row[:1].isdigit() for row in rows)
    separator = "\t" if all("\t" in row for row in rows) else None
    split = [row.split(separator) for row in rows]
    width = Counter(map(len, split)).most_common(1)[0][0]
    if width < 2:
        raise DataError(
            f"{path}: found one column, expected a token and its tag per line, separated by a "
            "space or a tab."
        )
    whole = [row for row in split if len(row) == width]
    tokens = [row for row in whole if row[0] != DOCUMENT_START] or whole
    columns = [*zip(*tokens, strict=True)]
    text, label = _choose_columns(columns)
    # a token may begin with this sign too, within a sentence or with a tag that others have
    marked = [line.split(separator) for line in lines if line.startswith("#")]
    are_tokens = any(len(row) == width and row[label] in columns[label] for row in marked)
    is_within = any(
        after.startswith("#") and before.strip() and not before.startswith("#")
        for before, after in pairwise(lines)
    )
    has_comments = bool(marked) and not (are_tokens or is_within)
    values = {
        "format": "conll",
        "texts": ["form" if is_conllu else str(text + 1)],
        "label": _choose_conllu_column(rows) if is_conllu else str(label + 1),
        "separator": separator,
        "comments": is_conllu or has_comments,
    }
    is_last = label == width - 1
    reasons = {
        "format": "a token per line, blank lines between sentences",
        "texts": f"the token, of {width} columns",
        "label": "the last column" if is_last else "the tags of entities",
        "comments": "lines that begin with #",
    }
    if is_conllu:
        reasons["label"] = "of CoNLL-U: upos, xpos, deprel ..."
    return values, reasons


def _choose_columns(columns: list[tuple[str, ...]]) -> tuple[int, int]:
    """Return the column of the token, the first without numbers, and that of the tag."""
    places = [*range(len(columns))]
    entities = [
        idx
        for idx in places
        if all(map(CHUNK.fullmatch, columns[idx])) and any(cell != "O" for cell in columns[idx])
    ]
    label = entities[-1] if entities else places[-1]
    others = [idx for idx in places if idx != label]
    words = [idx for idx in others if not all(cell.isdigit() for cell in columns[idx])]
    return (words or others)[0], label


def _choose_conllu_column(rows: list[str]) -> str:
    """Return the first column of CoNLL-U with tags."""
    cells = [dict(zip(CONLLU, row.split("\t"), strict=True)) for row in rows]
    usual = ("upos", "xpos", "deprel")
    return next((name for name in usual if any(cell[name] != "_" for cell in cells)), usual[0])
