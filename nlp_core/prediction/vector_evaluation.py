"""Word vectors measured by themselves: judgements of similarity, and analogies.

Shape letters: V words, D numbers per word.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlp_core.data.readers.lines import read_lines, refuse
from nlp_core.data.readers.records import check_file
from nlp_core.data.word_vectors import WordVectors
from nlp_core.errors import DataError, plural
from nlp_core.metrics.base import Predictions, measure

SECTION = ":"
QUESTIONS = 512
"""Analogies compared with all words at a time, which bounds the memory."""


class VectorScore(NamedTuple):
    """A number in points, of the lines whose words all have a vector."""

    score: float
    known: int
    lines: int


def measure_similarity(path: Path, vectors: WordVectors) -> VectorScore:
    """Return Spearman's correlation of cosines with the judgements of a file.

    A line has two words and a number; a first line without a number is a header.

    Raises:
        DataError: a line is malformed, or fewer than two pairs are known.
    """
    pairs, given, lines = [], [], 0
    for number, (first, second, value) in _read_rows(path, 3):
        judged = _read_number(value)
        if judged is None:
            if number == 1:
                continue
            raise refuse(path, number, f"found '{value}', expected a number after two words")
        lines += 1
        rows = vectors.find(first), vectors.find(second)
        if min(rows) >= 0:
            pairs.append(rows)
            given.append(judged)
    if len(pairs) < 2:
        raise _refuse_unknown(path, len(pairs), lines, "two pairs")
    unit_VD = _normalise(vectors)
    first, second = np.array(pairs).T
    cosines = (unit_VD[first] * unit_VD[second]).sum(1)
    found = measure("pair_regression", ["spearman"], Predictions([], given, cosines.tolist()))
    return VectorScore(found["spearman"], len(pairs), lines)


def measure_analogies(path: Path, vectors: WordVectors) -> VectorScore:
    """Return how often the word nearest to b - a + c is d, leaving out a, b and c.

    A line has the words a b c d; one that starts with a colon names a section.

    Source: Mikolov et al. 2013 (Efficient Estimation of Word Representations), section 4.
    """
    questions, lines = [], 0
    for _, words in _read_rows(path, 4):
        lines += 1
        rows = [vectors.find(word) for word in words]
        if min(rows) >= 0:
            questions.append(rows)
    if not questions:
        raise _refuse_unknown(path, 0, lines, "one line")
    unit_VD, right = _normalise(vectors), 0
    for part in np.array_split(np.array(questions), -(-len(questions) // QUESTIONS)):
        a, b, c, d = part.T
        scores = (unit_VD[b] - unit_VD[a] + unit_VD[c]) @ unit_VD.T
        np.put_along_axis(scores, part[:, :3], -np.inf, axis=1)
        right += int((scores.argmax(1) == d).sum())
    return VectorScore(100 * right / len(questions), len(questions), lines)


def _read_rows(path: Path, size: int) -> Iterator[tuple[int, list[str]]]:
    check_file(path)
    for line in read_lines(path):
        words = line.text.split()
        if not words or words[0].startswith(SECTION):
            continue
        if len(words) != size:
            found = f"found {plural(len(words), 'word')}, expected {size}"
            raise refuse(path, line.number, f"{found}, separated by spaces or tabs")
        yield line.number, words


def _read_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _normalise(vectors: WordVectors) -> np.ndarray:
    lengths = np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    unit: np.ndarray = vectors.vectors / np.where(lengths > 0, lengths, 1.0)
    return unit


def _refuse_unknown(path: Path, known: int, lines: int, least: str) -> DataError:
    return DataError(
        f"{path}: found {known} of {lines} lines whose words all have a vector, expected {least} "
        "at least; check the language and the case of the words."
    )
