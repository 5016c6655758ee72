"""The typed parquet files of a processed task: one schema a kind, the same bytes every time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.reader import SYMBOLS
from nlp_core.data.readers.example import Example, Passage, Question, Rows, Sentence
from nlp_core.data.tokenization import Tokenizer
from nlp_core.kinds import ANSWERS, GROUP, LABEL, LABELS, TAGS, Form, Kind

# Fixed, because the size of a row group shows in the bytes and bounds the memory.
ROWS_A_GROUP = 16384
ZSTD_LEVEL = 3
BOUNDARY = "<eos>"
TYPES: dict[Form, pa.DataType] = {
    "count": pa.int64(),
    "flag": pa.bool_(),
    "number": pa.float64(),
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "places": pa.list_(pa.int32()),
}
"""How a column of each form is stored."""
Values = dict[str, list[object]]


def build_schema(kind: Kind, extras: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of a kind, in their order, followed by those that a reader adds."""
    fields = [(column.name, TYPES[column.form]) for column in kind.columns]
    for name in extras:
        is_symbol = name.startswith(SYMBOLS)
        fields.append((name, TYPES["texts"] if is_symbol else pa.list_(pa.float64())))
    return pa.schema(fields)


def write_rows(path: Path, kind: Kind, ids: Sequence[int], rows: Rows, tokenize: Tokenizer) -> None:
    """Write what a reader gives to a parquet file.

    The tokens of a language model begin and end with the boundary `<eos>`: what it reads before the
    first word, and predicts after the last. Questions have both texts and their tokens, and
    where each token of the passage begins and ends, and which of them are the answer: its `first`
    and `last` token, both null where there is none.

    Args:
        path: the file.
        kind: of the task.
        ids: row number of each row in its official file.
        rows: all examples, all sentences or all questions.
        tokenize: turns a text into tokens.
    """
    extras = sorted(rows[0].extras) if rows and not isinstance(rows[0], Question) else []
    schema = build_schema(kind, extras)
    with pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        store_schema=False,
    ) as writer:
        for part in _slice(len(rows)):
            values = {"id": [*ids[part]], **_build_columns(rows[part], kind, tokenize)}
            columns = [pa.array(values[field.name], field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), ROWS_A_GROUP)


def _build_columns(rows: Rows, kind: Kind, tokenize: Tokenizer) -> Values:
    questions = [row for row in rows if isinstance(row, Question)]
    if questions:
        return _build_questions(questions, tokenize)
    sentences = [row for row in rows if isinstance(row, Sentence)]
    examples = [row for row in rows if isinstance(row, Example)]
    values = _build_sentences(sentences) if sentences else _build_examples(examples, kind, tokenize)
    others = sentences or examples
    return values | {name: [row.extras[name] for row in others] for name in others[0].extras}


def _build_examples(rows: Sequence[Example], kind: Kind, tokenize: Tokenizer) -> Values:
    labels: list[object] = [row.label for row in rows]
    if kind.is_number:
        labels = [None if row.label is None else float(row.label) for row in rows]
    tokens: list[object] = [tokenize(row.text_a) for row in rows]
    if kind.predicts_words:
        tokens = [[BOUNDARY, *tokenize(row.text_a), BOUNDARY] for row in rows]
    values: Values = {
        "text": [row.text_a for row in rows],
        "tokens": tokens,
        LABEL: labels,
        LABELS: [row.labels for row in rows],
        GROUP: [row.group for row in rows],
    }
    if kind.num_texts > 1:
        values |= {"text_a": values["text"], "tokens_a": tokens}
        values["text_b"] = [row.text_b for row in rows]
        values["tokens_b"] = [tokenize(row.text_b or "") for row in rows]
    return values


def _build_sentences(rows: Sequence[Sentence]) -> Values:
    return {
        "tokens": [row.tokens for row in rows],
        TAGS: [row.tags for row in rows],
        LABEL: [row.label for row in rows],
    }


def _build_questions(rows: Sequence[Question], tokenize: Tokenizer) -> Values:
    # once for all questions on a passage, which would else need several times the memory
    tokens = {id(row.passage): _cut_tokens(row.passage) for row in rows}
    return {
        "key": [row.key for row in rows],
        "text_a": [row.text for row in rows],
        "text_b": [row.passage.text for row in rows],
        "tokens_a": [tokenize(row.text) for row in rows],
        "tokens_b": [tokens[id(row.passage)] for row in rows],
        "starts_b": [row.passage.starts for row in rows],
        "ends_b": [row.passage.ends for row in rows],
        ANSWERS: [row.answers for row in rows],
        "answerable": [None if row.answers is None else bool(row.answers) for row in rows],
        "first": [row.first for row in rows],
        "last": [row.last for row in rows],
    }


def _cut_tokens(passage: Passage) -> list[str]:
    bounds = zip(passage.starts.tolist(), passage.ends.tolist(), strict=True)
    return [passage.text[start:end] for start, end in bounds]


def _slice(num_rows: int) -> Iterator[slice]:
    for start in range(0, num_rows, ROWS_A_GROUP):
        yield slice(start, start + ROWS_A_GROUP)
