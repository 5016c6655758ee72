"""Read word vectors of others: GloVe text, word2vec text and binary, fastText text.

They are converted once to a processed folder of vectors in the cache.
"""

import gzip
import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from nlp_core.data.cache import keep
from nlp_core.data.vocabulary import write_vectors
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json, write_json

log = logging.getLogger(__name__)

TABLE = "vectors"
"""Name of the one table in that folder."""
FASTTEXT_BINARY = (793712314).to_bytes(4, "little")
LONGEST_WORD = 1 << 12
TESTED_BYTES = 1 << 12


class Header(NamedTuple):
    """The format of a file.

    Attributes:
        is_binary: whether the numbers are 4-byte floats.
        has_line: whether the first line holds the two counts.
        rows: number of words, if the first line has it.
        dim: numbers per word.
    """

    is_binary: bool
    has_line: bool
    rows: int | None
    dim: int


def convert_vectors(path: Path, max_rows: int | None = None) -> Path:
    """Return a folder of the cache that holds a file's vectors as the table `vectors`.

    A file whose name ends in .gz is unpacked; only the first `max_rows` words are read.

    Raises:
        DataError: the file is missing, in an unknown format, or malformed.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check its name.")
    key = digest_json({"file": digest_file(path), "max_rows": max_rows, "is": 1})
    return keep("vectors", key, lambda folder: _convert(path, folder, max_rows))


def read_header(path: Path) -> Header:
    with _open(path) as file:
        first = file.readline(LONGEST_WORD * 16)
        following = file.read(TESTED_BYTES)
    if first.startswith(FASTTEXT_BINARY):
        raise DataError(
            f"{path}: found a binary fastText model, expected vectors; use the .vec file of the "
            "same name."
        )
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        rows, dim = (int(part) for part in parts)
        return Header(not _is_text(following, dim), has_line=True, rows=rows, dim=dim)
    dim = len(first.rstrip().split(b" ")) - 1
    if dim < 1 or not _is_text(first, dim):
        raise DataError(
            f"{path}: line 1: found neither a word and its numbers nor a header of two counts; "
            "expected GloVe text, word2vec text or binary, or fastText text (.vec)."
        )
    return Header(is_binary=False, has_line=False, rows=None, dim=dim)


def _convert(path: Path, folder: Path, max_rows: int | None) -> None:
    header = read_header(path)
    rows = _read_binary(path, header) if header.is_binary else _read_text(path, header)
    words: dict[str, int] = {}
    vectors: list[np.ndarray] = []
    twice = unreadable = 0
    for raw, vector in rows:
        try:
            word = raw.decode("utf-8")
        except UnicodeDecodeError:
            unreadable += 1
            continue
        if word in words or not word or "\n" in word:
            twice += 1
            continue
        words[word] = len(words)
        vectors.append(vector)
        if len(words) == max_rows:
            break
    if not words:
        raise DataError(f"{path}: found no words, expected a word and its numbers.")
    if twice or unreadable:
        log.warning("%s: skipped %d repeated words and %d not in UTF-8", path, twice, unreadable)
    note = write_vectors(folder, TABLE, words, np.stack(vectors))
    write_json(folder / "manifest.json", {"kind": "vectors", "tables": {TABLE: note}})
    log.info("vectors read file=%s words=%d dim=%d", path, len(words), header.dim)


def _read_text(path: Path, header: Header) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield words and vectors; a word may contain spaces."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and header.has_line:
                continue
            parts = line.rstrip().rsplit(b" ", header.dim)
            if len(parts) != header.dim + 1:
                raise _refuse(path, number, f"found {len(parts) - 1} numbers", header)
            try:
                vector = np.array([float(part) for part in parts[1:]], dtype=np.float32)
            except ValueError as err:
                raise _refuse(path, number, f"found no number ({err})", header) from err
            if not np.isfinite(vector).all():
                raise _refuse(path, number, "found a number that is not finite", header)
            yield parts[0], vector


def _read_binary(path: Path, header: Header) -> Iterator[tuple[bytes, np.ndarray]]:
    width = 4 * header.dim
    assert header.rows is not None
    with _open(path) as file:
        file.readline()
        for number in range(1, header.rows + 1):
            word = bytearray()
            while (letter := file.read(1)) != b" ":
                if not letter or len(word) > LONGEST_WORD:
                    raise DataError(
                        f"{path}: word {number}: found the end, or not word2vec's binary format; "
                        f"expected {header.rows} words, by the header. Fetch it again."
                    )
                word += letter
            values = file.read(width)
            vector = np.frombuffer(values, dtype="<f4") if len(values) == width else None
            if vector is None or not np.isfinite(vector).all():
                raise DataError(
                    f"{path}: word {number}: expected {header.dim} finite numbers; the file is "
                    "truncated or not in word2vec's binary format. Fetch it again."
                )
            yield bytes(word).lstrip(b"\n"), vector


def _is_text(sample: bytes, dim: int) -> bool:
    """Return whether bytes begin with a word and `dim` numbers in digits."""
    parts = sample.split(b"\n")[0].rstrip().rsplit(b" ", dim)[1:]
    try:
        return bool(parts) and all(np.isfinite(float(part)) for part in parts)
    except ValueError:
        return False


def _refuse(path: Path, number: int, found: str, header: Header) -> DataError:
    return DataError(
        f"{path}: line {number}: {found}, expected a word and {header.dim} numbers separated by "
        "single spaces. Fetch the file again."
    )


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    if path.suffix != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as packed:
            yield cast(BinaryIO, packed)
    except (gzip.BadGzipFile, EOFError, zlib.error) as err:
        raise DataError(f"{path}: cannot be unpacked ({err}); fetch it again.") from err
