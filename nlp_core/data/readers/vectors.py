"""Read word vectors from a text file, a word and its numbers per line, or from an encoder."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.errors import DataError

INSIDE_WORD = "##"
"""Prefix of continuation pieces."""
PLACES = 4
"""Decimal places of a projected number; two machines differ only in later ones."""


class VectorTable(NamedTuple):
    """V distinct words in the order of the file, and their vectors [V, D]."""

    words: list[str]
    vectors: NDArray[np.float32]


def read_vectors(path: Path, *, dim: int) -> VectorTable:
    """Read a text file of word vectors.

    Raises:
        DataError: a line has another number of numbers than `dim`, one that is not finite, or a
            repeated word.
    """
    vectors = np.empty((_count_lines(path), dim), dtype=np.float32)
    words: dict[str, int] = {}
    for row, line in enumerate(read_lines(path)):
        word, numbers = _split(line, path, dim)
        vectors[row] = numbers
        if not np.isfinite(vectors[row]).all():
            raise refuse(path, line.number, "a number is not finite")
        if word in words:
            raise refuse(path, line.number, f"the word '{word}' is also on line {words[word]}")
        words[word] = line.number
    return VectorTable(list(words), vectors)


def read_piece_vectors(path: Path, tensor: str, pieces: Path, *, dim: int) -> VectorTable:
    """Read the vectors of whole words from an encoder's embedding table.

    Continuation pieces and special ones ([CLS]) are left out. The rest is projected onto its
    principal components, so that the first columns of a wide table are the narrow table.

    Args:
        path: the weights, in safetensors.
        tensor: name of the table [V, D].
        pieces: a file of the V pieces, one per line.
        dim: principal components, at most D.

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
    return VectorTable([names[row] for row in rows], components.round(PLACES).astype(np.float32))


def _is_word(piece: str) -> bool:
    is_special = piece.startswith("[") and piece.endswith("]") and len(piece) > 1
    return not (piece.startswith(INSIDE_WORD) and len(piece) > len(INSIDE_WORD)) and not is_special


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _split(line: Line, path: Path, dim: int) -> tuple[str, list[float]]:
    word, *parts = line.text.split(" ")
    if len(parts) != dim or not word:
        raise refuse(path, line.number, f"found a word and {len(parts)} numbers, expected {dim}")
    try:
        return word, [float(part) for part in parts]
    except ValueError as err:
        raise refuse(path, line.number, f"found no number ({err})") from err
