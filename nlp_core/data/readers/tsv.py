"""Read tab-separated files in which nothing is quoted (GLUE)."""

from collections.abc import Sequence
from pathlib import Path

from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.errors import DataError


def read_tsv(
    path: Path,
    *,
    texts: Sequence[str],
    label: str | None,
    columns: Sequence[str] | None = None,
) -> list[Example]:
    """Read the rows of a TSV file.

    Args:
        path: the file.
        texts: names of one or two text columns.
        label: name of the label column; None: the file has no labels.
        columns: names of the columns if the file has no header line.

    Raises:
        DataError: the header lacks a column, or a line has another number of columns than it.
    """
    lines = read_lines(path)
    names = list(columns) if columns else next(lines).text.split("\t")
    wanted = [*texts, label] if label else list(texts)
    if missing := [name for name in wanted if name not in names]:
        raise DataError(
            f"{path}: line 1: the header lacks {', '.join(missing)}; found {', '.join(names)}. "
            "Fetch the official file again."
        )
    indices = [names.index(name) for name in wanted]
    return [_read_row(line, path, len(names), indices, has_label=bool(label)) for line in lines]


def split_columns(line: Line, path: Path, num_columns: int) -> list[str]:
    """Return the columns of a line.

    Raises:
        DataError: there are more or fewer than `num_columns`.
    """
    parts = line.text.split("\t")
    if len(parts) != num_columns:
        raise refuse(
            path, line.number, f"found {len(parts)} tab-separated columns, expected {num_columns}"
        )
    return parts


def _read_row(
    line: Line, path: Path, num_columns: int, indices: list[int], *, has_label: bool
) -> Example:
    parts = split_columns(line, path, num_columns)
    values = [parts[index] for index in indices]
    label = values.pop() if has_label else None
    return Example(line.number, values[0], values[1] if len(values) > 1 else None, label)
