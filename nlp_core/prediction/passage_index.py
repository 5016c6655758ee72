"""An index of passages on disk: their vectors for faiss, and the rows of the user's file.

Shape letters: N queries, P passages, D width of the vectors, K found passages of a query.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.data.guess import guess_texts
from nlp_core.data.readers.lines import LineError
from nlp_core.data.readers.records import FileRecord, read_records
from nlp_core.errors import DataError, UsageError, suggest
from nlp_core.files import (
    check_digest,
    digest_file,
    format_cells,
    name_local,
    replacing_folder,
    write_json,
)
from nlp_core.prediction.search import Vectors

NOTE = "index.json"
"""What each folder of an index holds, written last."""
VECTORS = "vectors.faiss"
PASSAGES = "passages.parquet"
FORMAT_VERSION = 1
TEXTS_A_CHUNK = 4096
LINKS = 32
"""Neighbours of a passage in the graph of an approximate index."""
ADVICE = "Correct the line or leave it out; the end of the file's name says its format."
BREADTH = 128
"""Passages that an approximate search keeps as candidates, when it builds and when it searches."""
SCHEMA = pa.schema([("line", pa.int64()), ("text", pa.string()), ("cells", pa.string())])


class Embedder(Protocol):
    """Vectors of queries and passages; see `Retriever` and `BundleRetriever`."""

    weights: str
    columns: Sequence[str]

    def embed_queries(self, texts: Sequence[str]) -> Vectors: ...
    def embed_passages(self, texts: Sequence[str]) -> Vectors: ...


class FoundPassage(NamedTuple):
    """A passage found for a query.

    Attributes:
        rank: from 1.
        line: of the passage in the file that was indexed; in parquet the row's number.
        cells: its row in that file.
    """

    rank: int
    score: float
    line: int
    text: str
    cells: dict[str, Any]  # Any: what a cell holds


class IndexSize(NamedTuple):
    """The size of a new index, and how many rows repeated an earlier passage."""

    passages: int
    width: int
    repeated: int


def read_texts(path: Path, column: str | None, usual: str) -> Iterator[tuple[FileRecord, str]]:
    """Yield the rows of a file with their texts.

    Args:
        column: of the texts; None: `usual` if the file has it, or a guess.

    Raises:
        DataError: the file is missing or malformed, has no such column, or a row has no words.
    """
    try:
        yield from _read_rows(path, column, usual)
    except LineError as err:  # its advice is for files that a model file describes
        raise LineError(err.found, ADVICE) from err


def _read_rows(path: Path, column: str | None, usual: str) -> Iterator[tuple[FileRecord, str]]:
    data = guess_texts(path)
    name = column
    for record in read_records(path, data):
        if name is None:
            name = usual if usual in record.cells else data.texts[0]
        elif name not in record.cells:
            hint = suggest(name, record.cells)
            raise record.refuse(f"found no column '{name}'. {hint} See --column")
        text = record.get_text(name)
        if not text.strip():
            where = f" in '{name}'" if data.header else ""
            raise record.refuse(f"found no words{where}, expected a text")
        yield record, text


def write_index(
    retriever: Embedder,
    source: Path,
    target: Path,
    *,
    column: str | None = None,
    approximate: bool = False,
) -> IndexSize:
    """Write a folder that `PassageIndex.open` reads; a passage that is repeated is kept once.

    Args:
        column: see `read_texts`.
        approximate: whether to link passages in a graph (HNSW), so that a search of millions looks
            at few of them and may miss some; else each search looks at all.

    Raises:
        DataError: the source is malformed or empty.
    """
    kept: dict[str, tuple[int, str]] = {}
    repeated = 0
    for record, text in read_texts(source, column, retriever.columns[1]):
        if text in kept:
            repeated += 1
            continue
        kept[text] = record.lines[0], format_cells(record.cells)
    if not kept:
        raise DataError(f"{source}: found no passages, expected one row at least.")
    texts = list(kept)
    index: Any = None  # Any: faiss has no types
    for start in range(0, len(texts), TEXTS_A_CHUNK):
        vectors = retriever.embed_passages(texts[start : start + TEXTS_A_CHUNK])
        index = _start_index(vectors.shape[1], approximate=approximate) if index is None else index
        index.add(vectors)
    with replacing_folder(target) as folder:
        _load_faiss().write_index(index, str(folder / VECTORS))
        lines, cells = zip(*kept.values(), strict=True)
        table = pa.table([pa.array(lines), pa.array(texts), pa.array(cells)], schema=SCHEMA)
        pq.write_table(table, name_local(folder / PASSAGES), compression="zstd")
        note = {"format": FORMAT_VERSION, "weights": retriever.weights, "passages": len(texts)}
        note["digests"] = {name: digest_file(folder / name) for name in (VECTORS, PASSAGES)}
        write_json(folder / NOTE, note)
    return IndexSize(len(texts), index.d, repeated)


def _load_faiss() -> Any:  # Any: it has no types
    # here, since it logs how it was loaded, and after the commands have set the level
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss


def _start_index(width: int, *, approximate: bool) -> Any:  # Any: faiss has no types
    faiss = _load_faiss()
    if not approximate:
        return faiss.IndexFlatIP(width)
    index = faiss.IndexHNSWFlat(width, LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = index.hnsw.efSearch = BREADTH
    return index


class PassageIndex:
    """An index with the model that made it, ready to search."""

    def __init__(self, retriever: Embedder, index: Any, passages: pa.Table) -> None:
        self._retriever = retriever
        self._index = index  # Any: faiss has no types
        self._passages = passages

    @classmethod
    def open(cls, folder: Path, retriever: Embedder) -> "PassageIndex":
        """Open a folder that `write_index` made.

        Raises:
            UsageError: the vectors come from another model.
            DataError: the folder has no index, or not a whole one.
        """
        if not (folder / NOTE).is_file():
            raise DataError(
                f"{folder}: found no index ({NOTE} is missing), expected a folder that `reglue "
                "index` wrote."
            )
        note = read_mapping(folder / NOTE)
        if note.get("format") != FORMAT_VERSION:
            raise DataError(
                f"{folder / NOTE}: found the format {note.get('format')}, expected "
                f"{FORMAT_VERSION}; build the index again with `reglue index`."
            )
        if note.get("weights") != retriever.weights:
            raise UsageError(
                f"{folder}: found vectors of another model, expected those of the model that reads "
                "the queries; name that model, or build the index again with `reglue index`."
            )
        for name, digest in note.get("digests", {}).items():
            check_digest(folder / name, digest, remedy="build it again with `reglue index`")
        try:
            index = _load_faiss().read_index(str(folder / VECTORS))
            passages = pq.read_table(name_local(folder / PASSAGES), schema=SCHEMA)
        except (OSError, RuntimeError, pa.ArrowInvalid) as err:
            raise DataError(
                f"{folder}: found a broken index ({err}); build it again with `reglue index`."
            ) from err
        return cls(retriever, index, passages)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, queries: Sequence[str], number: int) -> list[list[FoundPassage]]:
        """Return for each query the most similar passages, the best first.

        Args:
            number: K, of a query; fewer if the index has fewer.
        """
        vectors: Vectors = self._retriever.embed_queries(queries)
        scores_NK, places_NK = self._index.search(vectors, min(number, len(self)))
        found = []
        for scores, places in zip(scores_NK.tolist(), places_NK.tolist(), strict=True):
            # an approximate search may end early: its last places are -1
            pairs = [(s, p) for s, p in zip(scores, places, strict=True) if p >= 0]
            rows = self._passages.take(np.array([place for _, place in pairs], np.int64))
            found.append(
                [
                    FoundPassage(rank, score, row["line"], row["text"], json.loads(row["cells"]))
                    for rank, ((score, _), row) in enumerate(
                        zip(pairs, rows.to_pylist(), strict=True), start=1
                    )
                ]
            )
        return found
