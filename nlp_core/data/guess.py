"""Guess how the user's file is read: the `data` section of a model file."""

import csv
from collections import Counter
from collections.abc import Collection
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig, Format
from nlp_core.data.column_guess import (
    ColumnProfile,
    GuessError,
    Roles,
    assign_choices,
    assign_entities,
    assign_roles,
    choose_texts,
    find_entities,
    is_header,
)
from nlp_core.data.format_guess import (
    BINARY,
    SAMPLE,
    SUFFIXES,
    find_folder_format,
    guess_format,
    guess_separator,
)
from nlp_core.data.number_guess import describe_numbers
from nlp_core.data.question_file import read_questions
from nlp_core.data.readers.json_array import ACCEPT, ANSWER, IGNORE
from nlp_core.data.readers.lines import describe_uncut, read_lines, write_points
from nlp_core.data.readers.orange import find_used
from nlp_core.data.readers.records import (
    CONLLU,
    WHOLE_LINE,
    FileRecord,
    check_file,
    name_label,
    read_cells,
    read_named,
    read_records,
)
from nlp_core.data.readers.user import read_examples
from nlp_core.data.token_guess import Guess, guess_scheme, guess_tokens
from nlp_core.errors import DataError, plural
from nlp_core.files import CHUNK, name_local
from nlp_core.kinds import CLASSIFICATION, LABEL, SPAN, TAGGING, Kind

SHOWN_LABELS = 6
MOST_ROWS = 100_000
REJECT = "reject"
YES_NO = f"{ACCEPT}|{REJECT}"
ANSWERS = (ACCEPT, REJECT, IGNORE)
"""What an annotator can answer."""
NO_LABEL = "(no label)"
MOST_CONTEXT_TOKENS = 400
MOST_WRITTEN = 10_000
"""Words that a model can write; it can copy all others."""


def guess_data(path: Path, kind: Kind, *, has_choices: bool = False) -> Guess:
    """Guess format, separator, header, columns and tagging scheme of a training file.

    Args:
        has_choices: whether a row contains all candidates of its question.

    Raises:
        DataError: the file is missing, empty or malformed, or lacks columns for the kind.
    """
    if kind.has_passages:
        return _guess_questions(path)
    guess = _guess_file(path, kind, has_choices=has_choices)
    if kind.has_tags:
        guess_scheme(guess, path)
    guess_tokens(guess, path)
    return guess


def _guess_file(path: Path, kind: Kind, *, has_choices: bool) -> Guess:
    check_rows(path)
    found = guess_format(path, kind)
    if found == "conll":
        return _guess_columns(path)
    return _guess_table(path, kind, found, has_choices=has_choices)


def guess_texts(path: Path) -> DataConfig:
    """Guess how a file of unlabelled texts is read; .txt has a text per line."""
    check_file(path, find_folder_format(path))
    if path.suffix.lower() == ".txt":
        check_rows(path)
        # a text never contains this separator
        whole = {"texts": ["1"], "header": False, "separator": WHOLE_LINE, "quoted": False}
        return _build(CLASSIFICATION, {"format": "tsv", "label": NO_LABEL, **whole})
    check_rows(path)
    values: dict[str, Any] = {"format": guess_format(path, CLASSIFICATION)}
    columns, _ = read_sample(path, values)
    if not columns:
        raise DataError(f"{path}: found no column of texts, expected one.")
    looks = {name: ColumnProfile(cells) for name, cells in columns.items()}
    texts = choose_texts(looks, list(columns), 1, {})
    return _build(CLASSIFICATION, {**values, "texts": texts, "label": NO_LABEL})


def check_rows(path: Path) -> None:
    check_file(path, find_folder_format(path))
    is_text = path.is_file() and SUFFIXES.get(path.suffix.lower()) not in BINARY
    if is_text and not any(line.text.strip() for line in read_lines(path)):
        raise DataError(
            f"{path}: found only blank lines, expected at least one row. Is it the right file?"
        )


def count_rows(path: Path, data: DataConfig) -> int:
    """Estimate the number of examples: lines, gaps between sentences, questions."""
    if data.format == "parquet":
        return int(pq.read_metadata(name_local(path)).num_rows)
    if data.format == "conll":
        with path.open("rb") as file:
            blank = (not line.strip() for line in file)
            return 1 + sum(now and not before for before, now in pairwise(blank))
    if data.format in ("json", "arrow", "spacy", "brat"):
        return sum(1 for _ in read_records(path, data))
    mark = b'"question"' if data.format == "squad" else b"\n"
    with path.open("rb") as file:
        return 1 + sum(chunk.count(mark) for chunk in iter(lambda: file.read(CHUNK), b""))


def count_labels(path: Path, data: DataConfig) -> int:
    """Return the number of labels in the first rows."""
    examples = islice(read_examples(path, data), MOST_ROWS)
    return len({example.targets[LABEL][0] for example in examples})


def _guess_questions(path: Path) -> Guess:
    usual = SPAN.user_file
    values = {"texts": [*usual.texts], "label": usual.label, "tokens": "plain_words"}
    data = _build(SPAN, {"format": "squad", **values, "max_tokens": MOST_CONTEXT_TOKENS})
    questions = read_questions(path, data)
    contexts = {question.passage.number: len(question.passage.ends) for question in questions}
    silent = sum(not question.answers for question in questions)
    lost = sum(bool(question.answers) and question.last is None for question in questions)
    cut = sum(size > MOST_CONTEXT_TOKENS for size in contexts.values())
    reasons = {
        "format": "JSON of SQuAD",
        "texts": f"{len(questions)} questions on {len(contexts)} contexts",
        "label": f"{len(questions) - silent} answers, {silent} questions without one",
        "tokens": "words, numbers and single signs",
        "max_tokens": f"{cut} contexts are longer, and cut in training",
    }
    doubts = {"label": f"{lost} answers are not in their context"} if lost else {}
    return Guess(data, reasons, doubts)


def _guess_columns(path: Path) -> Guess:
    lines = [line.text for line in islice(read_lines(path), SAMPLE) if line.text.strip()]
    rows = [line for line in lines if not line.startswith("#")] or lines
    is_conllu = all(len(row.split("\t")) == len(CONLLU) and row[:1].isdigit() for row in rows)
    separator = "\t" if all("\t" in row for row in rows) else None
    width = Counter(len(row.split(separator)) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise DataError(
            f"{path}: found one column, expected a token and its tag per line, separated by a "
            "space or a tab."
        )
    values = {
        "format": "conll",
        "texts": ["form" if is_conllu else "1"],
        "label": _choose_column(rows) if is_conllu else str(width),
        "separator": separator,
        "comments": is_conllu,
    }
    reasons = {
        "format": "a token per line, blank lines between sentences",
        "texts": f"the token, of {width} columns",
        "label": "of CoNLL-U: upos, xpos, deprel ..." if is_conllu else "the last column",
    }
    return Guess(_build(TAGGING, values), reasons)


def _choose_column(rows: list[str]) -> str:
    """Return the first column of CoNLL-U with tags."""
    cells = [dict(zip(CONLLU, row.split("\t"), strict=True)) for row in rows]
    usual = ("upos", "xpos", "deprel")
    return next((name for name in usual if any(cell[name] != "_" for cell in cells)), usual[0])


def _guess_table(path: Path, kind: Kind, found: Format, *, has_choices: bool) -> Guess:
    values: dict[str, Any] = {"format": found}
    columns, nested = read_sample(path, values)
    if kind.has_sentences:  # sentences may be lists of tokens
        columns, nested = columns | nested, {}
    may_have_spans = kind.has_tags and not kind.has_history
    entities = find_entities(columns | nested) if may_have_spans else None
    try:
        if entities is not None:
            columns[entities] = (columns | nested)[entities]
            values |= {"scheme": "spans", "tokens": "plain_words"}
            roles = assign_entities(columns, kind, entities)
        else:
            roles = assign_choices(columns) if has_choices else assign_roles(columns, kind)
    except GuessError as err:
        advice = f"Is it a file for the kind {kind}?"
        if nested:
            name = next(iter(nested))
            advice = f"'{name}' is nested and not read: make columns of it."
        raise DataError(f"{path}: {err}{explain_column(path, columns, found)}. {advice}") from err
    chosen = [*roles.texts, roles.tags] + [roles.label] * (not kind.is_searched)
    if "" in columns and "" in chosen:
        raise DataError(
            f"{path}: found a column without a name that seems to be of texts, labels or tags; "
            "name it in the file."
        )
    values |= {"texts": roles.texts, "label": roles.label}
    optional = ("tags", "group", "choices", "choice_labels")
    values |= {key: name for key in optional if (name := getattr(roles, key))}
    if kind.has_several_labels:
        cells = columns[roles.label]
        if odd := [cell for cell in cells if not isinstance(cell, str | list | None)]:
            raise DataError(
                f"{path}: found {odd[0]!r} in '{roles.label}', expected a list of labels."
            )
        texts = [cell for cell in cells if isinstance(cell, str)]
        marks = (mark for mark in "|;," if any(mark in text for text in texts))
        values["label_separator"] = next(marks, " ") if texts else None
    data = _build(kind, values)
    return Guess(data, *_explain(data, roles, columns))


def explain_column(path: Path, columns: Collection[str], form: Format) -> str:
    """Return why a table seems to have one column; empty if it has several."""
    if len(columns) != 1 or form not in ("tsv", "csv"):
        return ""
    first = next(line for line in read_lines(path) if line.text.strip())
    look = describe_uncut(first.text, "\t" if form == "tsv" else ",")
    return f"; it was read as {form} by its name, but line {first.number} {look}"


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
    labels = {str(record.cells.get(LABEL)) for record in records if "spans" not in record.cells}
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
    return {name: [row[idx] for row in body] for name, idx in kept.items()}


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


def _count_words(cells: list[Any]) -> str:  # Any: cells of JSON
    return plural(round(ColumnProfile(cells).words), "word")


def _explain(
    data: DataConfig, roles: Roles, columns: dict[str, list[Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    reasons, doubts = {}, dict(roles.doubts)
    if data.format in ("tsv", "csv"):
        reasons["header"] = "the first line names the columns" if data.header else "no header line"
        reasons["quoted"] = "the first rows have quoted cells"
    if data.kind.writes_text:
        text, label = (_count_words(columns[name]) for name in (*roles.texts, roles.label))
        reasons |= {"texts": f"{text} on average", "label": f"{label} on average"}
    if not data.kind.has_label:
        return reasons, doubts
    words = [_count_words(columns[name]) for name in roles.texts]
    reasons["texts"] = f"{' and '.join(words)} on average"
    if data.choices:
        reasons["choices"] = f"{len(data.choices)} candidates a row"
        reasons["label"] = f"the right one, by {', '.join(data.choice_names)}"
        return reasons, doubts
    if not roles.label:
        reasons["label"] = "no column of labels, so each passage answers its query"
        return reasons, doubts
    values = columns[roles.label]
    if data.kind.is_number:
        reasons["label"], doubt = describe_numbers(values)
        return reasons, doubts | ({"label": doubt} if doubt else {})
    if data.kind.has_several_labels:
        lists = [v.split(data.label_separator) if isinstance(v, str) else v or [] for v in values]
        values = [label for labels in lists for label in labels if label]
    names = sorted({name_label(value) for value in values} - {""})
    shown = ", ".join(names[:SHOWN_LABELS]) + (", ..." if len(names) > SHOWN_LABELS else "")
    reasons["label"] = f"{plural(len(names), 'label')}: {shown}"
    if len(names) < 2 and not data.kind.is_searched:
        doubts["label"] = f"{reasons['label']} in the first rows; a model can learn nothing from it"
    elif len(values) > 20 and len(names) > len(values) / 2:
        doubts["label"] = f"{len(names)} labels in {len(values)} rows; is it the label?"
    return reasons, doubts


def _build(kind: Kind, values: dict[str, Any]) -> DataConfig:
    if kind.has_tags:
        values = {"tokens": "spaces", "scheme": "plain", **values}
    if kind.has_tree:
        values = {"tokens": "spaces", **values}
    if kind.writes_text:
        values = {"tokens": "unicode_words", "max_words": MOST_WRITTEN, **values}
    return DataConfig.model_validate({"kind": kind, **values})
