"""The readers that a task of sources/ may name: a split of an official file, as rows."""

from collections.abc import Callable
from pathlib import Path

from nlp_core.config.dataset import TaskConfig
from nlp_core.config.reader import (
    NUMBERS,
    SYMBOLS,
    TOKEN_NUMBERS,
    ConllReaderConfig,
    MrpcReaderConfig,
    ParallelReaderConfig,
    TsvReaderConfig,
)
from nlp_core.data.readers.conll import read_conll
from nlp_core.data.readers.example import Rows
from nlp_core.data.readers.mrpc import read_mrpc
from nlp_core.data.readers.parallel import read_parallel
from nlp_core.data.readers.passage import read_passages
from nlp_core.data.readers.squad import read_squad
from nlp_core.data.readers.tsv import read_tsv
from nlp_core.data.readers.wikiqa import read_wikiqa
from nlp_core.data.tagging_scheme import list_tags
from nlp_core.data.tokenization import LOCATORS
from nlp_core.kinds import SPAN_LABELS
from nlp_core.registry import Registry

OfficialReader = Callable[[TaskConfig, str, Path], Rows]
"""Read the named split of a task from its file; raises DataError where a line is malformed."""
OFFICIAL_READERS: Registry[OfficialReader] = Registry("reader")


@OFFICIAL_READERS.register("tsv")
def _read_tsv(task: TaskConfig, name: str, path: Path) -> Rows:
    reader, split = task.reader, task.splits[name]
    assert isinstance(reader, TsvReaderConfig), reader
    return read_tsv(
        path,
        texts=reader.texts,
        label=reader.label if split.labelled else None,
        columns=split.columns,
        label_separator=reader.label_separator,
        symbols={SYMBOLS + name: name for name in reader.features},
        numbers={
            **{NUMBERS + name: name for name in reader.dense},
            **{TOKEN_NUMBERS + name: name for name in reader.token_dense},
        },
    )


@OFFICIAL_READERS.register("mrpc")
def _read_mrpc(task: TaskConfig, name: str, path: Path) -> Rows:
    assert isinstance(task.reader, MrpcReaderConfig), task.reader
    return read_mrpc(path, split=name, dev_ids_path=path.with_name(task.reader.dev_ids))


@OFFICIAL_READERS.register("conll")
def _read_conll(task: TaskConfig, name: str, path: Path) -> Rows:
    reader = task.reader
    assert isinstance(reader, ConllReaderConfig), reader
    assert task.scheme is not None
    return read_conll(
        path,
        num_columns=reader.columns,
        separator=reader.separator,
        source_scheme=reader.scheme,
        target_scheme=task.scheme,
        tags=list_tags(task.labels, task.scheme),
        bare_type=reader.bare_type,
        keep_docstart=reader.docstart == "keep",
        extras={SYMBOLS + name: number for name, number in reader.features.items()},
    )


@OFFICIAL_READERS.register("parallel")
def _read_parallel(task: TaskConfig, name: str, path: Path) -> Rows:
    reader, split = task.reader, task.splits[name]
    assert isinstance(reader, ParallelReaderConfig), reader
    assert task.scheme is not None
    assert split.tags_file is not None
    assert split.label_file is not None
    return read_parallel(
        path,
        tags_path=path.with_name(split.tags_file),
        label_path=path.with_name(split.label_file),
        source_scheme=reader.scheme,
        target_scheme=task.scheme,
        tags=list_tags(task.slots or [], task.scheme),
        labels=task.labels,
    )


@OFFICIAL_READERS.register("lines")
def _read_lines(task: TaskConfig, name: str, path: Path) -> Rows:
    return read_passages(path)


@OFFICIAL_READERS.register("squad")
def _read_squad(task: TaskConfig, name: str, path: Path) -> Rows:
    return read_squad(
        path,
        locate=LOCATORS.get(task.tokens),
        labelled=task.splits[name].labelled,
        unanswerable=task.labels == SPAN_LABELS,
    )


@OFFICIAL_READERS.register("wikiqa")
def _read_wikiqa(task: TaskConfig, name: str, path: Path) -> Rows:
    return read_wikiqa(path)
