"""Word vectors: tables of a processed folder, and the files of others that become one.

GloVe text, word2vec text and binary and fastText text and models of the user are converted once to
such a folder in the cache.
"""

import gzip
import json
import logging
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from nlp_core.data.cache import keep
from nlp_core.data.fasttext import MAGIC, read_fasttext
from nlp_core.data.readers.lines import read_lines, refuse, require_file
from nlp_core.errors import DataError, plural, suggest
from nlp_core.files import (
    MANIFEST,
    check_digest,
    digest_file,
    digest_json,
    readable,
    write_json,
    write_text,
)

log = logging.getLogger(__name__)

TABLE = "vectors"
"""Name of the one table in that folder."""
FASTTEXT_BINARY = MAGIC.to_bytes(4, "little")
LONGEST_WORD = 1 << 12
LONGEST_LINE = 1 << 16
MOST_DIGITS = 9
"""Of a count in the first line."""


class Header(NamedTuple):
    """The format of a file.

    Attributes:
        is_binary: whether the numbers are 4-byte floats.
        rows: number of words, if the first line has the two counts.
        dim: numbers per word.
    """

    is_binary: bool
    rows: int | None
    dim: int


@dataclass(frozen=True)
class WordVectors:
    """Pretrained word vectors, [R, D] float32, and the row of each word."""

    vectors: np.ndarray
    row_of: dict[str, int]

    def find(self, word: str) -> int:
        """Return the row of the word, else that of its lower-case form, else -1."""
        row = self.row_of.get(word)
        return self.row_of.get(word.lower(), -1) if row is None else row


def read_table(folder: Path, table: str, dim: int) -> WordVectors:
    """Read one table of a processed folder of kind `vectors`.

    Raises:
        DataError: the folder has no such table, or its width is not `dim`.
    """
    found = open_table(folder, table)
    if found.vectors.shape[1] != dim:
        raise DataError(
            f"{folder / table}.safetensors: found vectors of width {found.vectors.shape[1]}, "
            f"expected {dim}, the 'dim' of the layer; change one of the two."
        )
    return found


def open_table(folder: Path, table: str) -> WordVectors:
    """Read one table, whatever its width."""
    path = folder / f"{table}.safetensors"
    if not path.exists():
        tables = [item.stem for item in folder.glob("*.safetensors")]
        raise DataError(f"{folder}: found no vector table '{table}'. {suggest(table, tables)}")
    if (folder / MANIFEST).is_file():
        note = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["tables"][table]
        remedy = f"run `dvc repro --force preprocess@{folder.name}`, or remove the folder"
        check_digest(path, note["sha256"], remedy=remedy)
    vectors = load_file(path)["vectors"]
    # as bytes: a carriage return may be part of a word
    words = (folder / f"{table}.words.txt").read_bytes().decode("utf-8").split("\n")[:-1]
    if len(words) != len(vectors):
        raise DataError(
            f"{folder}: found {plural(len(words), 'word')} and {len(vectors)} vectors in the table "
            f"'{table}', expected as many; remove the folder and make it again."
        )
    return WordVectors(vectors, {word: row for row, word in enumerate(words)})


def write_table(folder: Path, table: str, found: WordVectors) -> dict[str, object]:
    """Write one table of a processed folder of kind `vectors`, and return its manifest entry."""
    path = folder / f"{table}.safetensors"
    with readable(path):
        save_file({"vectors": found.vectors}, path)
    write_text(folder / f"{table}.words.txt", "".join(f"{word}\n" for word in found.row_of))
    rows, dim = found.vectors.shape
    return {"rows": rows, "dim": dim, "sha256": digest_file(path)}


def convert_vectors(path: Path, max_rows: int | None = None, words: Collection[str] = ()) -> Path:
    """Return a folder of the cache that holds a file's vectors as the table `vectors`.

    A file whose name ends in .gz is unpacked; only the first `max_rows` words are read.

    Args:
        words: further ones, whose vectors a binary fastText model composes of parts of words.

    Raises:
        DataError: the file is missing, in an unknown format, or malformed.
    """
    require_file(path)
    content: dict[str, object] = {"file": digest_file(path), "max_rows": max_rows, "is": 1}
    if is_fasttext(path):
        content["words"] = sorted(words)
        return keep(
            "vectors", digest_json(content), lambda folder: _compose(path, folder, max_rows, words)
        )
    return keep("vectors", digest_json(content), lambda folder: _convert(path, folder, max_rows))


def is_fasttext(path: Path) -> bool:
    """Return whether a file is a binary fastText model."""
    with path.open("rb") as file:
        return file.read(len(FASTTEXT_BINARY)) == FASTTEXT_BINARY


def read_header(path: Path) -> Header:
    with _open(path) as file:
        first = file.readline(LONGEST_LINE)
        following = file.readline(LONGEST_LINE)  # whole: a sample may end inside a number
    if first.startswith(FASTTEXT_BINARY):
        raise DataError(
            f"{path}: found a compressed fastText model; decompress it, and name the .bin file."
        )
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        if (digits := max(map(len, parts))) > MOST_DIGITS:
            raise DataError(
                f"{path}: line 1: found a count of {digits} digits, expected the number of words "
                "and the numbers of a word; the file is damaged, so fetch it again."
            )
        rows, dim = (int(part) for part in parts)
        return Header(not _is_text(following, dim), rows, dim)
    dim = len(first.rstrip().split(b" ")) - 1
    if dim < 1 or not _is_text(first, dim):
        raise DataError(
            f"{path}: line 1: found neither a word and its numbers nor a header of two counts; "
            "expected GloVe text, word2vec text or binary, or fastText text (.vec)."
        )
    return Header(False, None, dim)


def _compose(path: Path, folder: Path, max_rows: int | None, words: Collection[str]) -> None:
    model = read_fasttext(path)
    rows = dict.fromkeys(model.words[:max_rows])
    found: dict[str, np.ndarray] = {}
    own = {word: row for row, word in enumerate(model.words)}
    for word in [*rows, *sorted(set(words) - rows.keys())]:
        vector = model.compose(word, own.get(word)) if word and "\n" not in word else None
        if vector is not None and np.isfinite(vector).all():
            found[word] = vector
    if not found:
        raise DataError(f"{path}: found no words, expected at least one.")
    row_of = {word: row for row, word in enumerate(found)}
    note = write_table(folder, TABLE, WordVectors(np.stack([*found.values()]), row_of))
    write_json(folder / MANIFEST, {"kind": "vectors", "tables": {TABLE: note}})
    composed = len(found.keys() - own.keys())
    log.info("vectors read file=%s words=%d composed=%d", path, len(found), composed)


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
    note = write_table(folder, TABLE, WordVectors(np.stack(vectors), words))
    write_json(folder / MANIFEST, {"kind": "vectors", "tables": {TABLE: note}})
    log.info("vectors read file=%s words=%d dim=%d", path, len(words), header.dim)


def _read_text(path: Path, header: Header) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield words and vectors; a word may contain spaces."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and header.rows is not None:
                continue
            parts = line.rstrip().rsplit(b" ", header.dim)
            if len(parts) != header.dim + 1:
                raise _refuse(path, number, f"found {plural(len(parts) - 1, 'number')}", header)
            try:
                vector = np.array([float(part) for part in parts[1:]], dtype=np.float32)
            except ValueError as err:
                raise _refuse(path, number, f"found no number ({err})", header) from err
            if not np.isfinite(vector).all():
                raise _refuse(path, number, "found a number that is not finite", header)
            yield parts[0], vector
    if header.rows is not None and number != header.rows + 1:
        raise DataError(
            f"{path}: found {number - 1} words, but its first line says {header.rows}; the file "
            "is cut off, so fetch it again."
        )


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


INSIDE_WORD = "##"
"""Prefix of continuation pieces."""
PLACES = 4
"""Decimal places of a projected number; two machines differ only in later ones."""


def read_glove(path: Path, *, dim: int) -> WordVectors:
    """Read an official file of word vectors; any malformed line is an error.

    Raises:
        DataError: a line has another number of numbers than `dim`, one that is not finite, or a
            repeated word.
    """
    vectors: list[np.ndarray] = []
    row_of: dict[str, int] = {}
    for row, line in enumerate(read_lines(path)):
        word, *parts = line.text.split(" ")
        if len(parts) != dim or not word:
            found = f"found a word and {len(parts)} numbers, expected {dim}"
            raise refuse(path, line.number, found)
        try:
            vector = np.array([float(part) for part in parts], dtype=np.float32)
        except ValueError as err:
            raise refuse(path, line.number, f"found no number ({err})") from err
        if not np.isfinite(vector).all():
            raise refuse(path, line.number, "a number is not finite")
        if word in row_of:
            raise refuse(path, line.number, f"the word '{word}' is also on line {row_of[word] + 1}")
        row_of[word] = row
        vectors.append(vector)
    return WordVectors(np.stack(vectors), row_of)


def read_piece_vectors(path: Path, tensor: str, pieces: Path, *, dim: int) -> WordVectors:
    """Read the vectors of whole words from an encoder's embedding table.

    Continuation pieces and special ones ([CLS]) are left out. The rest is projected onto its
    principal components, so that the first columns of a wide table are the narrow table.

    Args:
        path: the weights, in safetensors.
        tensor: name of the table [V, D].
        pieces: a file of the V pieces, one per line.
        dim: at most D.

    Raises:
        DataError: there is no such table, or its size is not that of `pieces`.

    Source: Raunak et al. 2019 (effective dimensionality reduction for word embeddings), section 2,
        only the projection.
    """
    from sklearn.decomposition import PCA  # takes a second to load

    try:
        with safe_open(path, framework="numpy") as file:
            table_VD = file.get_tensor(tensor).astype(np.float64)
    except (OSError, SafetensorError) as err:
        raise DataError(f"{path}: found no table '{tensor}' ({err}), expected one.") from err
    names = [line.text for line in read_lines(pieces)]
    if len(names) != len(table_VD) or dim > table_VD.shape[1]:
        raise DataError(
            f"{path}: found {tensor} of {len(table_VD)} rows and {table_VD.shape[1]} columns, "
            f"expected {len(names)} rows, the pieces of {pieces.name}, and at least {dim} columns."
        )
    rows = [row for row, name in enumerate(names) if _is_word(name)]
    # PCA fixes the signs of the components by a rule, so they are the same every time
    components = PCA(n_components=dim, svd_solver="covariance_eigh").fit_transform(table_VD[rows])
    row_of = {names[row]: number for number, row in enumerate(rows)}
    return WordVectors(components.round(PLACES).astype(np.float32), row_of)


def _is_word(piece: str) -> bool:
    is_special = piece.startswith("[") and piece.endswith("]") and len(piece) > 1
    return not (piece.startswith(INSIDE_WORD) and len(piece) > len(INSIDE_WORD)) and not is_special
