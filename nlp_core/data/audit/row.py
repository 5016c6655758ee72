"""The rows of a split, streamed: of a processed task or of the user's file, in the same form."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig
from nlp_core.data.question_file import read_questions
from nlp_core.data.readers.user import UserExample, read_examples
from nlp_core.kinds import ANSWERS, GROUP, Kind

ROWS_A_BATCH = 4096


class Row(NamedTuple):
    """What the audit reads of one example.

    Attributes:
        place: line in the user's file; row in the official file of a processed task; number of a
            question in a file of passages.
        texts: as the file has them; words joined by spaces where it has words.
        targets: strings by target (label, labels, tags, answers); None where the split has none.
        group: the question of a candidate; None elsewhere.
    """

    place: int
    texts: tuple[str, ...]
    targets: Mapping[str, list[str] | None]
    group: int | str | None = None


def read_processed_rows(path: Path, kind: Kind) -> Iterator[Row]:
    """Yield the rows of a split of a processed task.

    Args:
        path: its parquet file.
        kind: of the task.
    """
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        texts = [name for name in kind.column_names if name.startswith("text") and name in names]
        texts = texts or kind.tokens
        targets = [name for name in kind.target_names if name in names]
        group = [GROUP] if kind.is_grouped else []
        for batch in file.iter_batches(ROWS_A_BATCH, columns=["id", *texts, *targets, *group]):
            for row in batch.to_pylist():
                yield Row(
                    row["id"],
                    tuple(_join(row[name]) for name in texts),
                    {name: _list_strings(row[name]) for name in targets},
                    row.get(GROUP),
                )


def _join(cell: str | list[str]) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)


def _list_strings(cell: Any) -> list[str] | None:  # Any: a cell of parquet
    if cell is None:
        return None
    return [str(item) for item in cell] if isinstance(cell, list) else [str(cell)]


def read_user_rows(path: Path, data: DataConfig) -> Iterator[Row]:
    """Yield the rows of the user's file.

    Args:
        path: the file.
        data: how it is read.

    Raises:
        DataError: the file is missing or malformed; the line is named.
    """
    if data.kind.has_passages:
        for number, question in enumerate(read_questions(path, data), start=1):
            texts = (question.text, question.passage.text)
            yield Row(number, texts, {ANSWERS: list(question.answers or ())})
        return
    run, last = 0, None
    for example in read_examples(path, data):
        # Without a column of questions a question is a run of rows, as in training.
        run += example.group != last
        last = example.group
        yield _convert(example, run if data.group is None else example.group)


def _convert(example: UserExample, group: int | str | None) -> Row:
    texts = tuple(example.raw) or tuple(" ".join(tokens) for tokens in example.texts)
    return Row(example.line(), texts, example.targets, group)
