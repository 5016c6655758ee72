"""The typed parquet files of a processed task: one schema a kind, the same bytes every time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.dataset import LANGUAGE_MODEL, TAGGED_KINDS
from nlp_core.config.reader import SYMBOLS
from nlp_core.data.readers.example import Example, Passage, Question, Sentence
from nlp_core.data.tokenization import Tokenizer

# Fixed, because the size of a row group shows in the bytes and bounds the memory.
ROWS_A_GROUP = 16384
ZSTD_LEVEL = 3
BOUNDARY = "<eos>"
_TOKENS = pa.list_(pa.string())
_QUESTIONS = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.string()),
        ("text_a", pa.string()),
        ("text_b", pa.string()),
        ("tokens_a", _TOKENS),
        ("tokens_b", _TOKENS),
        ("starts_b", pa.list_(pa.int32())),
        ("ends_b", pa.list_(pa.int32())),
        ("answers", _TOKENS),
        ("answerable", pa.bool_()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)


def build_schema(kind: str, extras: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of a kind, in their order, and behind them those that a reader adds."""
    schema = _build_schema(kind)
    for name in extras:
        kind_of_value = _TOKENS if name.startswith(SYMBOLS) else pa.list_(pa.float64())
        schema = schema.append(pa.field(name, kind_of_value))
    return schema


def _build_schema(kind: str) -> pa.Schema:
    if kind == LANGUAGE_MODEL:
        return pa.schema([("id", pa.int64()), ("text", pa.string()), ("tokens", _TOKENS)])
    if kind == "span":
        return _QUESTIONS
    label = ("label", pa.float64() if kind.endswith("regression") else pa.string())
    if kind in TAGGED_KINDS:
        columns = [("id", pa.int64()), ("tokens", _TOKENS), ("tags", _TOKENS)]
        return pa.schema([*columns, label] if kind == "intent_slots" else columns)
    if kind == "multi_label":
        label = ("labels", pa.list_(pa.string()))
    if kind in ("classification", "regression", "multi_label"):
        columns = [("id", pa.int64()), ("text", pa.string()), ("tokens", _TOKENS), label]
        return pa.schema(columns)
    columns = [("id", pa.int64())]
    columns += [(f"text_{side}", pa.string()) for side in "ab"]
    columns += [(f"tokens_{side}", _TOKENS) for side in "ab"]
    columns.append(label)
    if kind == "ranking":
        columns.append(("group", pa.int64()))
    return pa.schema(columns)


def write_examples(
    path: Path, kind: str, ids: Sequence[int], examples: Sequence[Example], tokenize: Tokenizer
) -> None:
    """Write rows on texts to a parquet file.

    The tokens of a language model begin and end with the boundary `<eos>`: what it reads before the
    first word, and predicts behind the last.

    Args:
        path: the file.
        kind: any kind but tagging, intent_slots and span.
        ids: row number of each example in its official file.
        examples: the rows.
        tokenize: turns a text into tokens.
    """

    def build(rows: slice) -> dict[str, list[object]]:
        part = examples[rows]
        values: dict[str, list[object]] = {"id": list(ids[rows])}
        values["text"] = values["text_a"] = [item.text_a for item in part]
        values["tokens"] = values["tokens_a"] = [tokenize(item.text_a) for item in part]
        if kind.startswith("pair_") or kind == "ranking":
            values["text_b"] = [item.text_b for item in part]
            values["tokens_b"] = [tokenize(item.text_b or "") for item in part]
        if kind == LANGUAGE_MODEL:
            values["tokens"] = [[BOUNDARY, *tokenize(item.text_a), BOUNDARY] for item in part]
        values["group"] = [item.group for item in part]
        values["label"] = [_type_label(item.label, kind) for item in part]
        values["labels"] = [item.labels for item in part]
        return values | _list_extras(part)

    _write(path, build_schema(kind, _name_extras(examples)), len(examples), build)


def write_sentences(
    path: Path, kind: str, ids: Sequence[int], sentences: Sequence[Sentence]
) -> None:
    """Write tagged sentences to a parquet file; `kind` is tagging or intent_slots."""

    def build(rows: slice) -> dict[str, list[object]]:
        part = sentences[rows]
        values: dict[str, list[object]] = {
            "id": list(ids[rows]),
            "tokens": [item.tokens for item in part],
            "tags": [item.tags for item in part],
            "label": [item.label for item in part],
        }
        return values | _list_extras(part)

    _write(path, build_schema(kind, _name_extras(sentences)), len(sentences), build)


def _name_extras(rows: Sequence[Example | Sentence]) -> list[str]:
    return sorted(rows[0].extras) if rows else []


def _list_extras(rows: Sequence[Example | Sentence]) -> dict[str, list[object]]:
    return {name: [row.extras[name] for row in rows] for name in _name_extras(rows)}


def write_questions(
    path: Path, ids: Sequence[int], questions: Sequence[Question], tokenize: Tokenizer
) -> None:
    """Write questions on passages to a parquet file.

    Beside both texts and their tokens stands where each token of the passage begins and ends, and
    which of them are the answer: its `first` and `last` token, both null where there is none.

    Args:
        path: the file.
        ids: row number of each question in its official file.
        questions: the rows.
        tokenize: turns a question into tokens.
    """

    def build(rows: slice) -> dict[str, list[object]]:
        part = questions[rows]
        # once for all questions on a passage, which would else need several times the memory
        tokens = {id(item.passage): _cut_tokens(item.passage) for item in part}
        return {
            "id": list(ids[rows]),
            "key": [item.key for item in part],
            "text_a": [item.text for item in part],
            "text_b": [item.passage.text for item in part],
            "tokens_a": [tokenize(item.text) for item in part],
            "tokens_b": [tokens[id(item.passage)] for item in part],
            "starts_b": [item.passage.starts for item in part],
            "ends_b": [item.passage.ends for item in part],
            "answers": [item.answers for item in part],
            "answerable": [None if item.answers is None else bool(item.answers) for item in part],
            "first": [item.first for item in part],
            "last": [item.last for item in part],
        }

    _write(path, _QUESTIONS, len(questions), build)


def _cut_tokens(passage: Passage) -> list[str]:
    bounds = zip(passage.starts.tolist(), passage.ends.tolist(), strict=True)
    return [passage.text[start:end] for start, end in bounds]


def _type_label(label: str | None, kind: str) -> str | float | None:
    return float(label) if label is not None and kind.endswith("regression") else label


def _write(
    path: Path,
    schema: pa.Schema,
    num_rows: int,
    build: Callable[[slice], dict[str, list[object]]],
) -> None:
    with pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        store_schema=False,
    ) as writer:
        for rows in _slice(num_rows):
            values = build(rows)
            columns = [pa.array(values[field.name], field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), ROWS_A_GROUP)


def _slice(num_rows: int) -> Iterator[slice]:
    for start in range(0, num_rows, ROWS_A_GROUP):
        yield slice(start, start + ROWS_A_GROUP)
