"""The typed parquet files of a split: one schema a kind, the same bytes every time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.column import SYMBOLS, TOKEN_VECTORS
from nlp_core.data.readers.example import Example, Question, Rows, Sentence
from nlp_core.data.tokenization import Tokenizer
from nlp_core.data.written_text import choose_words, count_words
from nlp_core.files import name_local
from nlp_core.kinds import ANSWERS, GROUP, HISTORY, LABEL, LABELS, OUTPUT, TAGS, TREE, Form, Kind

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
Values = Mapping[str, object]
"""The cells of a row by column; those without a column are left out."""


def build_schema(kind: Kind, extras: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of a kind, in their order, followed by those that a reader adds.

    The vectors of tokens are stored one after the other; all have the same width.
    """
    fields = [(column.name, TYPES[column.form]) for column in kind.columns]
    for name in extras:
        if name in kind.column_names:
            continue
        number = pa.float32() if name.startswith(TOKEN_VECTORS) else pa.float64()
        fields.append((name, TYPES["texts"] if name.startswith(SYMBOLS) else pa.list_(number)))
    return pa.schema(fields)


def write_columns(path: Path, schema: pa.Schema, rows: Iterable[Values], rows_a_group: int) -> int:
    """Write rows to a parquet file, a row group at a time, and return how many there are."""
    values, num_rows = iter(rows), 0
    with pq.ParquetWriter(
        name_local(path),
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        store_schema=False,
    ) as writer:
        while group := list(islice(values, rows_a_group)):
            columns = [pa.array([row[item.name] for row in group], item.type) for item in schema]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), rows_a_group)
            num_rows += len(group)
    return num_rows


def write_rows(path: Path, kind: Kind, ids: Sequence[int], rows: Rows, tokenize: Tokenizer) -> None:
    """Write what a reader of a source returns to a parquet file.

    The tokens of a language model begin and end with the boundary `<eos>`: what it reads before the
    first word, and predicts after the last. For a question, `first` and `last` are the tokens of
    the passage at the ends of the answer, both null if there is none.

    Args:
        ids: row number of each row in its official file.
        rows: all examples, all sentences or all questions.
    """
    extras = sorted(rows[0].extras) if rows and not isinstance(rows[0], Question) else []
    values = _build_rows(ids, rows, kind, tokenize)
    write_columns(path, build_schema(kind, extras), values, ROWS_A_GROUP)


def list_written_words(rows: Rows, tokenize: Tokenizer, most: int) -> list[str]:
    """Return the most frequent words of the texts to write, sorted."""
    texts = (row.output for row in rows if isinstance(row, Example))
    return choose_words(count_words(tokenize(text) for text in texts if text is not None), most)


def _build_rows(
    ids: Sequence[int], rows: Rows, kind: Kind, tokenize: Tokenizer
) -> Iterator[Values]:
    passage, tokens = None, list[str]()
    for number, row in zip(ids, rows, strict=True):
        if isinstance(row, Question):
            if row.passage is not passage:  # all questions on it share one list of its tokens
                passage = row.passage
                bounds = zip(passage.starts.tolist(), passage.ends.tolist(), strict=True)
                tokens = [passage.text[start:end] for start, end in bounds]
            yield {"id": number, **_build_question(row, tokens, tokenize)}
        elif isinstance(row, Sentence):
            found = {"tokens": row.tokens, TAGS: row.tags, LABEL: row.label, TREE: row.tree}
            found[HISTORY] = row.history
            yield {"id": number, **found, **row.extras}
        else:
            yield {"id": number, **_build_example(row, kind, tokenize), **row.extras}


def _build_example(row: Example, kind: Kind, tokenize: Tokenizer) -> Values:
    is_value = kind.is_number and row.label is not None
    tokens = tokenize(row.text_a)
    if kind.predicts_words:
        tokens = [BOUNDARY, *tokens, BOUNDARY]
    found: dict[str, object] = {
        LABEL: float(row.label or "") if is_value else row.label,
        LABELS: row.labels,
        GROUP: row.group,
    }
    if kind.writes_text:
        found[OUTPUT] = None if row.output is None else tokenize(row.output)
    if kind.num_texts == 1:
        return {"text": row.text_a, "tokens": tokens, **found}
    second = {"text_b": row.text_b, "tokens_b": tokenize(row.text_b or "")}
    return {"text_a": row.text_a, "tokens_a": tokens, **second, **found}


def _build_question(row: Question, tokens: list[str], tokenize: Tokenizer) -> Values:
    return {
        "key": row.key,
        "text_a": row.text,
        "text_b": row.passage.text,
        "tokens_a": tokenize(row.text),
        "tokens_b": tokens,
        "starts_b": row.passage.starts,
        "ends_b": row.passage.ends,
        ANSWERS: row.answers,
        "answerable": None if row.answers is None else bool(row.answers),
        "first": row.first,
        "last": row.last,
    }
