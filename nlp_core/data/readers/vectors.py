"""Read word vectors in text form: a word and its numbers a line, separated by spaces."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.readers.lines import Line, read_lines, refuse


class VectorTable(NamedTuple):
    """Words and their vectors.

    Attributes:
        words: V distinct words in the order of the file.
        vectors: V rows of `dim` numbers.
    """

    words: list[str]
    vectors: NDArray[np.float32]


def read_vectors(path: Path, *, dim: int) -> VectorTable:
    """Read a table of word vectors.

    Args:
        path: the file.
        dim: numbers of each word.

    Raises:
        DataError: a line has another number of numbers, one that is not finite, or a word again.
    """
    vectors = np.empty((_count_lines(path), dim), dtype=np.float32)
    words: dict[str, int] = {}
    for row, line in enumerate(read_lines(path)):
        word, numbers = _split(line, path, dim)
        vectors[row] = numbers
        if not np.isfinite(vectors[row]).all():
            raise refuse(path, line.number, "a number is not finite")
        if word in words:
            raise refuse(path, line.number, f"the word '{word}' stands on line {words[word]} too")
        words[word] = line.number
    return VectorTable(list(words), vectors)


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
        raise refuse(path, line.number, f"found a number that is none ({err})") from err
