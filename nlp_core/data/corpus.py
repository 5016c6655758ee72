"""Documents for pre-training, in shards, so that memory holds a few of them; a corpus as a task.

A shard is a row group of a parquet file: about a megabyte of text, or one longer document.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import HELD_OUT, TRAIN, CorpusConfig, CorpusHeldOutConfig
from nlp_core.data.readers.lines import Line, parse_json, read_lines, refuse
from nlp_core.data.split_column import RawText
from nlp_core.data.task import Split, Task, list_footnotes, read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import MANIFEST, digest_file, digest_json, name_local
from nlp_core.kinds import MASKED, MASKED_LANGUAGE_MODEL

log = logging.getLogger(__name__)

CORPUS = "corpus"
SHARD_BYTES = 1 << 20
HASH_BYTES = 8
MEASURED_SHARDS = 16  # of a large held-out part
SCHEMA = pa.schema(
    [("id", pa.string()), ("title", pa.string()), ("paragraphs", pa.list_(pa.string()))]
)


class Document(NamedTuple):
    """A text; none of its paragraphs is empty."""

    id: str
    title: str
    paragraphs: list[str]

    @property
    def num_bytes(self) -> int:
        return sum(len(text.encode()) for text in self.paragraphs)


def is_held_out(document_id: str, config: CorpusHeldOutConfig) -> bool:
    """Return whether a document is kept from training, by the hash of seed and id."""
    digest = hashlib.sha256(f"{config.seed}:{document_id}".encode()).digest()
    return int.from_bytes(digest[:HASH_BYTES], "big") < config.share * 2.0 ** (8 * HASH_BYTES)


def write_corpus(config: CorpusConfig, raw_dir: Path, folder: Path) -> dict[str, object]:
    """Write train.parquet and held_out.parquet, one shard in memory at a time.

    Returns:
        What the manifest says of the splits.

    Raises:
        DataError: a line is not a document, a part stays empty, or there are more or fewer
            documents than the official number.
    """
    missing, found = set(config.left_out), 0
    with _ShardWriter(folder, TRAIN) as train, _ShardWriter(folder, HELD_OUT) as held_out:
        for name in config.files:
            for line in read_lines(raw_dir / name):
                document = _parse_document(line, raw_dir / name)
                found += 1
                missing.discard(document.id)
                if document.id in config.left_out or not document.paragraphs:
                    continue
                part = held_out if is_held_out(document.id, config.held_out) else train
                part.add(document)
    where = f"{raw_dir}: {', '.join(config.files)}"
    if found != config.documents:
        raise DataError(
            f"{where}: found {found} documents, expected the official {config.documents}. The "
            f"files are not the official ones: run `python -m stages.preprocess {raw_dir.name}`."
        )
    if missing:
        raise DataError(
            f"{where}: found no document {', '.join(sorted(missing))}, which corpus.left_out of "
            f"sources/{raw_dir.name}.yaml names; correct the ids there."
        )
    for part in (train, held_out):
        if not part.rows:
            raise DataError(
                f"{where}: found no documents for {part.name}; choose another corpus.held_out "
                f"share or seed in sources/{raw_dir.name}.yaml."
            )
    return {"splits": {part.name: part.describe() for part in (held_out, train)}}


@dataclass(frozen=True)
class Corpus:
    """A processed corpus in data/processed/<name>."""

    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)  # Any: JSON

    @property
    def digest(self) -> str:
        """Digest of all documents."""
        return digest_json(self.manifest["splits"])

    def open(self, split: str) -> pq.ParquetFile:
        """Open a split; its row groups are the shards."""
        return pq.ParquetFile(name_local(self.folder / f"{split}.parquet"))

    def count_shards(self, split: str) -> int:
        with self.open(split) as file:
            return int(file.num_row_groups)

    def read_shard(self, split: str, shard: int) -> list[Document]:
        with self.open(split) as file:
            table = file.read_row_group(shard, use_threads=False)
        return [Document(**row) for row in table.to_pylist()]

    def read_paragraphs(self, split: str) -> Iterator[list[str]]:
        """Yield the paragraphs of each document, of the first shards of a large held-out part."""
        number = self.count_shards(split)
        for shard in range(number if split == TRAIN else min(number, MEASURED_SHARDS)):
            for document in self.read_shard(split, shard):
                yield document.paragraphs


def read_corpus(folder: Path) -> Corpus:
    """Open data/processed/<name>.

    Raises:
        DataError: it is not processed.
        ConfigError: it contains no documents.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path}: no such file, so the corpus '{folder.name}' is not made yet; run "
            f"`dvc repro preprocess@{folder.name}`."
        )
    manifest = read_mapping(path)
    if manifest["kind"] != CORPUS:
        raise ConfigError(
            f"{folder}: found data of the kind {manifest['kind']}, expected a corpus of documents, "
            "such as data/processed/enwiki; name one in the encoder's 'data'."
        )
    return Corpus(folder, manifest)


class _ShardWriter:
    """A split that is written shard by shard."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.rows, self._bytes, self._shards = name, 0, 0, 0
        self._path = folder / f"{name}.parquet"
        self._writer = pq.ParquetWriter(name_local(self._path), SCHEMA, compression="zstd")
        self._waiting: list[Document] = []
        self._waiting_bytes = 0

    def __enter__(self) -> "_ShardWriter":
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None and self._waiting:
            self._flush()
        self._writer.close()

    def add(self, document: Document) -> None:
        self._waiting.append(document)
        self._waiting_bytes += document.num_bytes
        if self._waiting_bytes >= SHARD_BYTES:
            self._flush()

    def describe(self) -> dict[str, object]:
        log.info("preprocess split split=%s rows=%d shards=%d", self.name, self.rows, self._shards)
        return {
            "rows": self.rows,
            "bytes": self._bytes,
            "shards": self._shards,
            "sha256": digest_file(self._path),
        }

    def _flush(self) -> None:
        columns = [
            pa.array(column, kind.type)
            for column, kind in zip(zip(*self._waiting, strict=True), SCHEMA, strict=True)
        ]
        self._writer.write_table(pa.table(columns, schema=SCHEMA))
        self.rows += len(self._waiting)
        self._bytes += self._waiting_bytes
        self._shards += 1
        self._waiting, self._waiting_bytes = [], 0


def _parse_document(line: Line, path: Path) -> Document:
    try:
        found = parse_json(line.text)
    except ValueError as err:
        raise refuse(path, line.number, f"not valid JSON ({err})") from err
    if not isinstance(found, dict) or not {"id", "paragraphs"} <= set(found):
        raise refuse(path, line.number, 'expected an object with "id" and "paragraphs"')
    paragraphs = found["paragraphs"]
    if not isinstance(paragraphs, list) or not all(isinstance(text, str) for text in paragraphs):
        raise refuse(path, line.number, 'expected a list of texts as "paragraphs"')
    kept = [text for text in (" ".join(text.split()) for text in paragraphs) if text]
    return Document(str(found["id"]), str(found.get("title", "")), kept)


METRICS = ["perplexity", "accuracy"]


@dataclass(frozen=True)
class DocumentSplit(Split):
    """Documents that an encoder's tokenizer has yet to cut into windows, which are the examples."""

    corpus: Corpus | None = None


@dataclass(frozen=True)
class CorpusTask(Task):
    """A processed corpus, whose training part trains and whose held-out part measures."""

    def read_split(self, name: str) -> DocumentSplit:
        corpus, no_texts = read_corpus(self.folder), RawText([], None)
        targets: dict[str, list[object]] = {MASKED: []}
        return DocumentSplit(name, np.arange(0), {}, targets, None, raw=no_texts, corpus=corpus)


def read_corpus_task(folder: Path) -> CorpusTask:
    """Read the manifest of a processed corpus; the errors are those of `read_corpus`."""
    corpus = read_corpus(folder)
    return CorpusTask(
        name=str(corpus.manifest["task"]),
        kind=MASKED_LANGUAGE_MODEL,
        targets={MASKED: []},
        metrics=METRICS,
        select_split=HELD_OUT,
        report_split=HELD_OUT,
        scheme=None,
        footnotes=list_footnotes(corpus.manifest.get("source", {})),
        digest=corpus.digest,
        folder=folder,
    )


def read_any_task(folder: Path) -> Task:
    """Read the manifest of a processed task, which may be a corpus.

    Raises:
        DataError: it is not processed, or has no examples.
    """
    path = folder / MANIFEST
    if not path.exists() or read_mapping(path)["kind"] != CORPUS:
        return read_task(folder)
    return read_corpus_task(folder)
