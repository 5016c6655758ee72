"""Further training texts behind the labelled ones of a task, as rows of one table."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.recipe import AlterationConfig
from nlp_core.data.alteration import alter_split
from nlp_core.data.soft_labels import TRAIN
from nlp_core.data.task import Split, Task
from nlp_core.kinds import GROUP


class Texts(NamedTuple):
    """What a teacher is asked about: the training texts, with further ones behind.

    Attributes:
        table: the rows.
        begins: where the training texts begin, and each sort of further ones.
    """

    table: pa.Table
    begins: list[int]


def read_texts(task: Task, *, further: str | None, alteration: AlterationConfig | None) -> Texts:
    """Read what a teacher of a task is asked about.

    Args:
        task: the task.
        further: name of a split whose texts follow the training split; None: none.
        alteration: how copies of the training texts are altered; None: there are none.
    """
    table, begins = pq.ParquetFile(task.folder / f"{TRAIN}.parquet").read(), [0]
    if further:
        begins.append(len(table))
        more = pq.ParquetFile(task.folder / f"{further}.parquet").read()
        table = append_split(table, more, [*task.targets])
    if alteration:
        begins.append(len(table))
        altered = alter_split(task.read_split(TRAIN), alteration)
        table = append_altered(table, altered, task.kind.texts)
    return Texts(table, begins)


def append_split(table: pa.Table, more: pa.Table, targets: Sequence[str]) -> pa.Table:
    """Return a table with the rows of another split behind its own, without their labels.

    Args:
        table: the training split.
        more: the other split, of the same columns.
        targets: columns of labels.
    """

    def build(field: pa.Field) -> pa.Array:
        if field.name in targets:
            return pa.nulls(len(more), field.type)
        column = more.column(field.name).combine_chunks()
        if field.name != GROUP:
            return column
        return pa.array([row + _count_groups(table) for row in column.to_pylist()], field.type)

    return _append(table, build)


def append_altered(table: pa.Table, altered: Split, texts: Sequence[str]) -> pa.Table:
    """Return a table with altered texts behind its rows, each in a group of its own.

    Args:
        table: the training split.
        altered: altered copies of its texts.
        texts: columns of whole texts, if there are any.
    """
    raw = altered.raw
    given = {} if raw is None else dict(zip(texts, [raw.first, raw.second], strict=False))

    def build(field: pa.Field) -> pa.Array:
        name = field.name
        if name in altered.texts:
            rows = [altered.texts[name].row(row) for row in range(len(altered))]
            return pa.array(rows, field.type)
        if name in given:
            return pa.array(given[name], field.type)
        if name in ("id", GROUP):
            first = _count_groups(table) if name == GROUP else 0
            return pa.array([first + row for row in range(len(altered))], field.type)
        return pa.nulls(len(altered), field.type)

    return _append(table, build)


def _append(table: pa.Table, build: Callable[[pa.Field], pa.Array]) -> pa.Table:
    rows = pa.Table.from_arrays([build(field) for field in table.schema], schema=table.schema)
    return pa.concat_tables([table, rows]).combine_chunks()


def _count_groups(table: pa.Table) -> int:
    return max(table.column(GROUP).to_pylist(), default=-1) + 1
