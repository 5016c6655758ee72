"""Read a binary fastText model: vectors of words, and of parts of words for all other words.

The vector of a word is the mean of its own row, if it has one, and of the rows of its n-grams: the
sequences of min_n to max_n letters of `<word>`, which share `num_buckets` rows by their hash.

Source: Bojanowski et al. 2017 (enriching word vectors with subword information), section 3.2; the
    format is that of fastText 0.9, version 12.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nlp_core.errors import DataError

MAGIC = 793712314
VERSIONS = (11, 12)
ARGUMENTS = (
    *("dim", "ws", "epoch", "min_count", "neg", "word_ngrams"),
    *("loss", "model", "bucket", "min_n", "max_n", "lr_update_rate"),
)
WORD = 0
"""The type of an entry that is not a label."""
BEGIN, END = "<", ">"
LINE_END = "</s>"
"""The one word that has no parts."""
HASH_START, HASH_FACTOR = 2166136261, 16777619


@dataclass(frozen=True)
class FastText:
    """A model.

    Attributes:
        words: in the order of their rows, the most frequent first.
        rows: [words + num_buckets, D], in a mapped file.
        num_buckets: of n-grams, whose rows follow those of the words.
        kept: of a pruned model, the row of each bucket that is left, counted from the first one.
    """

    words: list[str]
    rows: np.ndarray
    num_buckets: int
    min_n: int
    max_n: int
    kept: dict[int, int] | None

    def compose(self, word: str, row: int | None = None) -> np.ndarray | None:
        """Return the vector of a word [D], whose own row is given; None if no row is about it."""
        found = [] if row is None else [row]
        found += [] if word == LINE_END else self._find_ngrams(word)
        if not found:
            return None
        vector: np.ndarray = self.rows[found].astype(np.float64).mean(0).astype(np.float32)
        return vector

    def _find_ngrams(self, word: str) -> Iterator[int]:
        if self.max_n < 1 or not self.num_buckets:
            return
        letters = BEGIN + word + END
        for start in range(len(letters)):
            for end in range(start + self.min_n, min(start + self.max_n, len(letters)) + 1):
                if end - start == 1 and (start == 0 or end == len(letters)):
                    continue  # a bare boundary
                bucket = hash_ngram(letters[start:end]) % self.num_buckets
                if self.kept is None:
                    yield len(self.words) + bucket
                elif bucket in self.kept:
                    yield len(self.words) + self.kept[bucket]


def hash_ngram(text: str) -> int:
    """Return the 32-bit FNV-1a hash of a text, whose bytes from 128 on count as negative."""
    found = HASH_START
    for byte in text.encode():
        signed = byte if byte < 128 else byte | 0xFFFFFF00
        found = ((found ^ signed) * HASH_FACTOR) & 0xFFFFFFFF
    return found


def read_fasttext(path: Path) -> FastText:
    """Read a model; its vectors stay in the file.

    Raises:
        DataError: it is of another version, quantized, or cut short.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except (struct.error, ValueError) as err:
        raise DataError(f"{path}: found the end of the file ({err}); fetch it again.") from err


def _read(path: Path, file: BinaryIO) -> FastText:
    magic, version = struct.unpack("<ii", file.read(8))
    if magic != MAGIC or version not in VERSIONS:
        raise DataError(
            f"{path}: found a binary fastText model of version {version}, expected 11 or 12; use "
            "the .vec file of the same name."
        )
    values = struct.unpack(f"<{len(ARGUMENTS)}i", file.read(4 * len(ARGUMENTS)))
    given = dict(zip(ARGUMENTS, values, strict=True))
    file.read(8)  # the sampling threshold
    size, num_words, _, _, num_pruned = struct.unpack("<iiiqq", file.read(28))
    words = []
    for _ in range(size):
        name = _read_name(file)
        _, kind = struct.unpack("<qb", file.read(9))
        if kind == WORD:
            words.append(name)
    kept = None
    if num_pruned >= 0:
        pairs = struct.unpack(f"<{2 * num_pruned}i", file.read(8 * num_pruned))
        kept = dict(zip(pairs[::2], pairs[1::2], strict=True)) if num_pruned else None
    (is_quantized,) = struct.unpack("<?", file.read(1))
    if is_quantized:
        raise DataError(
            f"{path}: found a quantized fastText model, expected one with its vectors; use the "
            ".bin or .vec file that it was made from."
        )
    num_rows, dim = struct.unpack("<qq", file.read(16))
    if dim != given["dim"] or len(words) != num_words:
        raise DataError(
            f"{path}: found {dim} numbers a row, expected {given['dim']}; fetch it again."
        )
    rows = np.memmap(path, "<f4", "r", file.tell(), (num_rows, dim))
    buckets = given["bucket"] if num_rows > num_words else 0
    return FastText(words, rows, buckets, given["min_n"], given["max_n"], kept)


def _read_name(file: BinaryIO) -> str:
    name = bytearray()
    while (letter := file.read(1)) != b"\0":
        if not letter:
            raise ValueError("inside a word")
        name += letter
    return name.decode("utf-8", "replace")
