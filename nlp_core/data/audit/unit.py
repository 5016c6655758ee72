"""The units that an audit compares: whole rows, or several parts of a row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from nlp_core.config.user_data import DataConfig
from nlp_core.data.question_file import read_questions
from nlp_core.data.readers.user import read_examples
from nlp_core.data.split_column import list_openers
from nlp_core.data.task import Split
from nlp_core.files import name_local
from nlp_core.kinds import ANSWERS, GROUP, LABEL, LABELS, OUTPUT, TAGS, TREE, Kind

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
    """Yield the rows of a split of a processed task."""
    with pq.ParquetFile(name_local(path)) as file:
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


def read_split_rows(split: Split) -> Iterator[Row]:
    """Yield the rows of a split that is in memory."""
    for row, place in enumerate(split.ids.tolist()):
        targets = {
            name: None if answers is None else _list_strings(answers[row])
            for name, answers in split.targets.items()
        }
        group = None if split.group is None else int(split.group[row])
        yield Row(place, split.read_texts(row), targets, group)


def _join(cell: str | list[str]) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)


def _list_strings(cell: Any) -> list[str] | None:  # Any: a cell of parquet
    if cell is None:
        return None
    return [str(item) for item in cell] if isinstance(cell, list | tuple) else [str(cell)]


def read_user_rows(path: Path, data: DataConfig) -> Iterator[Row]:
    """Yield the rows of the user's file; raise DataError if it is missing or malformed."""
    if data.kind.has_passages:
        for number, question in enumerate(read_questions(path, data), start=1):
            pair = question.text, question.passage.text
            yield Row(number, pair, {ANSWERS: list(question.answers or ())})
        return
    run, last = 0, None
    for example in read_examples(path, data):
        # Without a column of questions a question is a run of rows, as in training.
        run += example.group != last
        last = example.group
        texts = tuple(example.raw) or tuple(" ".join(tokens) for tokens in example.texts)
        group = run if data.group is None else example.group
        yield Row(example.line(), texts, example.targets, group)


class Unit(NamedTuple):
    """Texts that are compared as one.

    Attributes:
        sort: such as questions, and contexts of the same rows.
        place: of its first row.
        label: all labels as one string; None without labels.
        classes: what is counted for the distribution of labels.
        number: the value of a regression.
    """

    sort: str
    place: int
    texts: tuple[str, ...]
    label: str | None = None
    classes: Sequence[str] = ()
    number: float | None = None


def list_sorts(kind: Kind) -> list[str]:
    """Return the names of a kind's units; the first one is what a table counts as an example."""
    if kind.has_passages:
        return ["questions", "contexts"]
    if kind.is_grouped:
        return ["questions", "candidates"]
    if kind.has_sentences:
        return ["documents"]
    if kind.reads_tokens:
        return ["sentences"]
    return ["pairs" if kind.num_texts > 1 else "texts"]


def list_units(kind: Kind, rows: Iterable[Row]) -> Iterator[Unit]:
    """Yield the units of rows in their order.

    A question with candidates is a unit of its own, and each candidate with its question another.
    So is the context of questions, once for a run of questions on it.
    """
    sorts = list_sorts(kind)
    seen: set[int | str | None] = set()
    context = ""
    for row in rows:
        if kind.has_passages:
            yield _label(kind, sorts[0], row)
            if row.texts[1] != context:
                context = row.texts[1]
                yield Unit(sorts[1], row.place, (context,))
        elif kind.is_grouped:
            if row.group not in seen:
                seen.add(row.group)
                yield Unit(sorts[0], row.place, row.texts[:1])
            yield _label(kind, sorts[1], row)
        else:
            yield _label(kind, sorts[0], row)


def _label(kind: Kind, sort: str, row: Row) -> Unit:
    targets = row.targets
    given = [values for values in targets.values() if values is not None]
    if not given or len(given) < len(targets):
        return Unit(sort, row.place, row.texts)
    if kind.is_number:
        number = float(given[0][0])
        return Unit(sort, row.place, row.texts, str(number), number=number)
    if OUTPUT in targets:
        classes = []
    elif ANSWERS in targets:
        classes = ["answerable" if given[0] else "unanswerable"]
    else:
        named = (targets.get(name) for name in (LABEL, LABELS, TAGS, TREE))
        classes = next(values for values in named if values is not None)
        classes = list_openers(classes) if TREE in targets else classes
    # Neither the order of several labels nor that of several right answers means anything.
    is_set = kind.has_several_labels or kind.has_passages
    label = "\x1e".join("\x1f".join(sorted({*item}) if is_set else item) for item in given)
    return Unit(sort, row.place, row.texts, label, classes)
