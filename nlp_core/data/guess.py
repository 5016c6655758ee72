"""Guess how the user's file is read: the `data` section of a model file."""

from collections.abc import Callable, Collection
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig, Format
from nlp_core.data.choice_guess import assign_choices
from nlp_core.data.column_guess import (
    ColumnProfile,
    GuessError,
    Roles,
    assign_entities,
    assign_roles,
    choose_texts,
    find_entities,
)
from nlp_core.data.conll_guess import guess_columns
from nlp_core.data.format_guess import (
    BINARY,
    SUFFIXES,
    find_folder_format,
    guess_format,
)
from nlp_core.data.number_guess import describe_numbers
from nlp_core.data.question_file import read_questions
from nlp_core.data.readers.lines import describe_uncut, read_lines
from nlp_core.data.readers.records import (
    WHOLE_LINE,
    check_file,
    name_label,
    read_records,
)
from nlp_core.data.readers.user import read_examples
from nlp_core.data.table_sample import read_sample
from nlp_core.data.token_guess import Guess, guess_scheme, guess_tokens
from nlp_core.errors import DataError, plural
from nlp_core.files import CHUNK, name_local
from nlp_core.kinds import CLASSIFICATION, LABEL, SPAN, TAGGING, Kind

SHOWN_LABELS = 6
MOST_ROWS = 100_000
NO_LABEL = "(no label)"
MOST_CONTEXT_TOKENS = 400
MOST_WRITTEN = 10_000
"""Words that a model can write; it can copy all others."""


def guess_data(
    path: Path,
    kind: Kind,
    *,
    has_choices: bool = False,
    change: Callable[[Guess], Guess] | None = None,
) -> Guess:
    """Guess format, separator, header, columns, tokens and tagging scheme of a training file.

    Args:
        has_choices: whether a row contains all candidates of its question.
        change: sets what the user gave, before tokens and scheme are guessed by the columns.

    Raises:
        DataError: the file is missing, empty or malformed, or lacks columns for the kind.
    """
    if kind.has_passages:
        guess = _guess_questions(path)
        return change(guess) if change else guess
    guess = _guess_file(path, kind, has_choices=has_choices)
    guess = change(guess) if change else guess
    guess_tokens(guess, path)
    if kind.has_tags:
        guess_scheme(guess, path)
    return guess


def _guess_file(path: Path, kind: Kind, *, has_choices: bool) -> Guess:
    check_rows(path)
    found = guess_format(path, kind)
    if found == "conll":
        values, reasons = guess_columns(path)
        return Guess(_build(TAGGING, values), reasons)
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
