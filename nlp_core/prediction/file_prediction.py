"""Predict a file: its columns are kept and followed by the predictions."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig
from nlp_core.data.format_guess import SUFFIXES
from nlp_core.data.guess import count_rows
from nlp_core.data.question_file import read_questions
from nlp_core.data.readers.lines import refuse
from nlp_core.data.readers.records import FileRecord, read_records
from nlp_core.data.readers.user import UserExample, parse_record
from nlp_core.errors import DataError, UsageError
from nlp_core.files import format_cells, name_local, replacing, write_text
from nlp_core.prediction.prediction import Prediction
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.split_prediction import Advance
from nlp_core.progress import Bar, has_progress, show_progress

ROWS_A_CHUNK = 1024
LINES = dict.fromkeys(("json", "arrow", "spacy", "brat", "squad"), "jsonl")
"""Formats whose predictions are written as JSON."""
PLACES = 4
"""Decimal places of a probability: fewer than those in which a batch and one by one may differ."""
DIGITS = 6
"""Digits of a predicted number, for the same reason."""
NO_ITEMS = pa.list_(pa.null())
TEXT = pa.string()
ENTITY = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())])
Item = TypeVar("Item")
Columns = dict[str, Any]
"""The new columns of a row; Any: texts, numbers, or lists of them."""
Row = tuple[FileRecord, Columns]


def predict_file(predictor: Predictor, source: Path, target: Path, confidence_of: list[str]) -> int:
    """Write a file with the predictions of another one; return its rows.

    It has the same form; that of a JSON array, of a folder, or of an arrow file is JSON Lines.

    Args:
        source: what to predict; labels are not read.
        target: written whole or not at all.
        confidence_of: labels whose probabilities become columns.

    Raises:
        UsageError: the target's name says another format.
        ConfigError: the model has no such label.
        DataError: the source is malformed, or has a column that is to be written.
    """
    if confidence_of and predictor.data.has_spans and not predictor.data.kind.has_label:
        raise UsageError(
            "--confidence-of: found a model of entities in texts, whose tags belong to tokens that "
            "the file does not have; leave it out."
        )
    form = LINES.get(predictor.data.format, predictor.data.format)
    named = SUFFIXES.get(target.suffix.lower(), form)
    if named != form and (named, predictor.data.separator_or_usual) != ("tsv", "\t"):
        raise UsageError(
            f"{target}: found a name that says {named}, but this model's data are "
            f"{predictor.data.format} and its predictions {form}; choose another name."
        )
    places = predictor.find_places(confidence_of)
    if predictor.data.format == "squad":
        return _answer_file(predictor, source, target, places)
    with show_rows(predictor, source) as bar, replacing(target) as temporary:
        rows = _predict_rows(predictor, source, places, bar.advance)
        if predictor.data.format == "parquet":
            item = ENTITY if predictor.data.has_spans else TEXT
            number = _write_parquet(rows, source, temporary, item)
        else:
            number = _write_lines(rows, predictor.data, temporary)
        if number == 0:
            raise DataError(f"{source}: found nothing to predict, expected one row at least.")
    return number


def describe_prediction(prediction: Prediction, places: dict[str, int]) -> Columns:
    """Return the new columns of one prediction; `places` is that of `Predictor.find_places`."""
    answer = prediction.prediction
    columns: Columns = {
        "prediction": float(f"{answer:.{DIGITS}g}") if isinstance(answer, float) else answer
    }
    if prediction.tags is not None:
        columns["predicted_tags"] = prediction.tags
    if prediction.entities is not None:
        name = "prediction" if prediction.tags is None else "predicted_tags"
        columns[name] = [entity._asdict() for entity in prediction.entities]
    if prediction.probability is not None:
        columns["confidence"] = _round(prediction.confidence)
        for name, place in places.items():
            columns[name] = _round(prediction.probability[..., place].tolist())
    return columns


def _answer_file(predictor: Predictor, source: Path, target: Path, places: dict[str, int]) -> int:
    """Write a document of questions with an answer to each, by its id."""
    questions = read_questions(source, predictor.data, labelled=False)
    with show_progress(source.name, len(questions)) as bar:
        predictions = predictor.answer(questions, bar.advance)
    by_question = {
        question.key: describe_prediction(prediction, places)
        for question, prediction in zip(questions, predictions, strict=True)
    }
    document = json.loads(source.read_text(encoding="utf-8-sig"))
    for article in document["data"]:
        for paragraph in article["paragraphs"]:
            for item in paragraph["qas"]:
                new = by_question[item["id"]]
                if taken := [name for name in new if name in item]:
                    raise DataError(
                        f"{source}: question '{item['id']}': found a key '{taken[0]}', which is to "
                        "be written; rename it."
                    )
                item |= new
    write_text(target, json.dumps(document, ensure_ascii=False) + "\n")
    return len(questions)


@contextmanager
def show_rows(predictor: Predictor, source: Path) -> Iterator[Bar]:
    """Yield the bar of a file's rows, counted only where it is drawn."""
    total = count_rows(source, predictor.data) if has_progress() else None
    with show_progress(source.name, total) as bar:
        yield bar


def _predict_rows(
    predictor: Predictor, source: Path, places: dict[str, int], advance: Advance
) -> Iterator[Row]:
    for records, examples in read_chunks(predictor, source):
        predictions = predictor.predict_examples(examples, advance)
        for record, prediction in zip(records, predictions, strict=True):
            columns = describe_prediction(prediction, places)
            refuse_taken(columns, record, source)
            yield record, columns


def read_chunks(
    predictor: Predictor, source: Path
) -> Iterator[tuple[list[FileRecord], list[UserExample]]]:
    """Yield the rows of a file in chunks, with what a model reads of them."""
    data = predictor.data
    # an empty text has an answer too, a row without tokens has none
    keeps_empty = not (data.kind.reads_tokens or data.kind.has_sentences)
    for records in _cut(read_records(source, data, keeps_empty=keeps_empty)):
        examples = [
            parse_record(record, data, tokenize=predictor.tokenize, labelled=False)
            for record in records
        ]
        yield records, examples


def refuse_taken(names: Iterable[str], record: FileRecord, source: Path) -> None:
    """Raise DataError if a row already has one of the columns that are to be written."""
    if taken := [name for name in names if name in record.cells]:
        found = f"found a column '{taken[0]}', which is to be written"
        raise refuse(source, record.lines[0], found, advice="Rename it.")


def _write_lines(rows: Iterable[Row], data: DataConfig, target: Path) -> int:
    number = 0
    with target.open("w", encoding="utf-8", newline="") as file:
        for number, (record, columns) in enumerate(rows, start=1):
            if data.format == "conll":
                file.write(_join_tokens(record, columns))
            elif data.separator_or_usual is None:
                file.write(format_cells(record.cells | columns) + "\n")
            else:
                if number == 1 and data.header:
                    file.write(_join_cells([*record.cells, *columns], data))
                file.write(_join_cells([*record.cells.values(), *columns.values()], data))
    return number


def _join_cells(cells: list[Any], data: DataConfig) -> str:  # Any: texts, numbers, or lists
    texts = [_name_cell(cell, data.label_separator or " ") for cell in cells]
    separator = data.separator_or_usual
    assert separator is not None
    if not data.is_quoted:
        return separator.join(texts) + "\n"
    line = io.StringIO()
    # with CR LF as its end of a line, the writer also quotes a cell that has only a CR
    csv.writer(line, delimiter=separator, lineterminator="\r\n").writerow(texts)
    return line.getvalue().removesuffix("\r\n") + "\n"


def _name_cell(cell: Any, mark: str) -> str:  # Any: a text, a number, or a list
    """Return a cell as a text; entities as start:end:label, as they are read."""
    if not isinstance(cell, list):
        return str(cell)
    if cell and isinstance(cell[0], dict):
        return ",".join(":".join(map(str, item.values())) for item in cell)
    return mark.join(map(str, cell))


def _join_tokens(record: FileRecord, columns: Columns) -> str:
    """Return the lines of a sentence, with more columns at its tokens."""
    new = dict(zip(record.lines, zip(*columns.values(), strict=True), strict=True))
    lines = []
    for line in record.block:
        mark = "\t" if "\t" in line.text else " "
        cells = [line.text, *(str(cell) for cell in new.get(line.number, ()))]
        lines.append(mark.join(cells) + (line.end or "\n"))
    return "".join(lines)


def _write_parquet(
    rows: Iterable[Row], source: Path, target: Path, item: pa.DataType = TEXT
) -> int:
    """Write rows; `item` is what their lists of labels, tags or entities hold."""
    chunks = _cut(rows)
    first = next(chunks, [])
    if not first:
        return 0
    schema, number = pq.read_schema(name_local(source)), 0
    # a time of Python has microseconds
    exact = [field.name for field in schema if "time64[ns]" in str(field.type)]
    kept = pq.read_table(name_local(source), columns=exact) if exact else None
    for name in first[0][1]:
        found = pa.array([columns[name] for _, columns in first]).type
        # no label at all in the first rows says nothing of the others
        inner = pa.float64() if name.startswith("confidence") else item
        schema = schema.append(pa.field(name, pa.list_(inner) if found == NO_ITEMS else found))
    with pq.ParquetWriter(name_local(target), schema) as writer:
        for chunk in chain([first], chunks):
            number += len(chunk)
            values = [record.cells | columns for record, columns in chunk]
            table = pa.Table.from_pylist(values, schema=schema)
            if kept is not None:
                same = kept.take(pa.array([record.lines[0] - 1 for record, _ in chunk]))
                for name in exact:
                    place = schema.get_field_index(name)
                    table = table.set_column(place, schema.field(place), same[name])
            writer.write_table(table)
    return number


def _round(value: Any) -> Any:  # Any: a number or a list of them
    return [*map(_round, value)] if isinstance(value, list) else round(value, PLACES)


def _cut(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, ROWS_A_CHUNK)):
        yield chunk
