"""Documents for pre-training, written and read in shards, so that memory holds a few of them.

A shard is a row group of a parquet file: about a megabyte of text, or one longer document.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import CorpusConfig, CorpusHeldOutConfig
from nlp_core.data.readers.json_text import parse_json
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import MANIFEST, digest_file, digest_json

log = logging.getLogger(__name__)

CORPUS = "corpus"
TRAIN, HELD_OUT = "train", "held_out"
SHARD_BYTES = 1 << 20
HASH_BYTES = 8
MEASURED_SHARDS = 16  # of a large held-out part
SCHEMA = pa.schema(
    [("id", pa.string()), ("title", pa.string()), ("paragraphs", pa.list_(pa.string()))]
)


class Document(NamedTuple):
    """A text with its parts.

    Attributes:
        id: its name in the source.
        title: what it is called.
        paragraphs: its text, none of them empty.
    """

    id: str
    title: str
    paragraphs: list[str]

    @property
    def num_bytes(self) -> int:
        """Bytes of the text."""
        return sum(len(text.encode()) for text in self.paragraphs)


def is_held_out(document_id: str, config: CorpusHeldOutConfig) -> bool:
    """Return whether a document is kept from training, by the hash of seed and id."""
    digest = hashlib.sha256(f"{config.seed}:{document_id}".encode()).digest()
    return int.from_bytes(digest[:HASH_BYTES], "big") < config.share * 2.0 ** (8 * HASH_BYTES)


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a JSON Lines file, one at a time.

    Raises:
        DataError: the file is missing or empty, or a line is no document; it is named.
    """
    for line in read_lines(path):
        yield _parse_document(line, path)


def write_corpus(config: CorpusConfig, raw_dir: Path, folder: Path) -> dict[str, object]:
    """Write train.parquet and held_out.parquet, one shard in memory at a time.

    Args:
        config: which files, and what is held out.
        raw_dir: the folder of the members.
        folder: an empty folder to write to.

    Returns:
        What the manifest says of the splits.

    Raises:
        DataError: a line is no document, a part stays empty, or there are more or fewer documents
            than the official number.
    """
    missing, found = set(config.left_out), 0
    with _ShardWriter(folder, TRAIN) as train, _ShardWriter(folder, HELD_OUT) as held_out:
        for name in config.files:
            for document in read_documents(raw_dir / name):
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
    """A processed corpus.

    Attributes:
        folder: data/processed/<name>.
        manifest: its manifest.
    """

    folder: Path
    manifest: Mapping[str, object] = field(repr=False)

    @property
    def digest(self) -> str:
        """Digest of all documents."""
        return digest_json(self.manifest["splits"])

    def open(self, split: str) -> pq.ParquetFile:
        """Open a split; its row groups are the shards."""
        return pq.ParquetFile(self.folder / f"{split}.parquet")

    def count_shards(self, split: str) -> int:
        """Return the number of shards of a split."""
        with self.open(split) as file:
            return int(file.num_row_groups)

    def read_shard(self, split: str, shard: int) -> list[Document]:
        """Return the documents of one shard."""
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
        ConfigError: it holds something else than documents.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so the corpus '{folder.name}' is not made yet; run "
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
        self._writer = pq.ParquetWriter(self._path, SCHEMA, compression="zstd")
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
