"""Gazetteers: lists of typed phrases, and where their phrases occur in a text.

A gazetteer is a file of lines `phrase TAB type` or `phrase TAB type TAB weight`. Words of a phrase
are separated by spaces; a phrase of several types has a line for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from nlp_core.data.batching import Ragged
from nlp_core.data.formats.rows import parse_numbers
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.data.split_column import Column
from nlp_core.data.vocabulary import Options, require_text
from nlp_core.errors import DataError, plural
from reglue_runtime.featurizing import Entry, Phrases, match_phrases, sum_phrase_weights


@dataclass(frozen=True)
class GazetteerVocabulary:
    """Typed phrases; nothing is learned from the training split.

    Attributes:
        entries: phrase, type and weight, sorted.
        phrases: the weights of the types of each phrase.
    """

    entries: list[Entry]
    phrases: Phrases
    lowercase: bool

    @classmethod
    def build(cls, entries: Sequence[Entry], *, lowercase: bool) -> Self:
        return cls(sorted(entries), sum_phrase_weights(entries, lowercase=lowercase), lowercase)

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        entries = read_gazetteer(Path(options["file"]))
        return cls.build(entries, lowercase=bool(options.get("lowercase", False)))

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        entries = [(phrase, kind, float(weight)) for phrase, kind, weight in note["entries"]]
        return cls.build(entries, lowercase=bool(options.get("lowercase", False)))

    def describe(self) -> dict[str, Any]:
        """Return the entries; weights are text, which keeps all digits."""
        return {"entries": [(phrase, kind, repr(weight)) for phrase, kind, weight in self.entries]}

    def __len__(self) -> int:
        return len(self.phrases.types)

    def read(self, column: Column) -> "Matches":
        weights = self.phrases.weights
        words = sorted({word for phrase in weights for word in phrase})
        number = {word: idx for idx, word in enumerate(words, start=1)}

        def encode(tokens: Sequence[str]) -> np.ndarray:
            folded = (token.lower() if self.lowercase else token for token in tokens)
            return np.array([number.get(token, 0) for token in folded], dtype=np.int64)

        phrases = {
            tuple(number[word] for word in item): row for row, item in enumerate(weights, start=1)
        }
        rows = np.stack([np.zeros(len(self), dtype=np.float32), *weights.values()])
        return Matches(require_text(column).look_up(encode), phrases, rows, self.phrases.longest)


@dataclass(frozen=True)
class Matches:
    """The phrases in each text, which are searched for when a batch is read.

    Attributes:
        words: the number of each token's word; 0: in no phrase.
        phrases: the row of each phrase, by the numbers of its words.
        rows: the weights of the phrases, [R, G]; row 0 is all zeros.
        longest: words of the longest phrase.
    """

    words: Ragged
    phrases: dict[tuple[int, ...], int]
    rows: np.ndarray
    longest: int

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        """Return weights [B, T, G], 0 at padding."""
        words = self.words.take(rows, multiple=multiple)
        numbers = np.zeros_like(words)
        for text, found in zip(words.tolist(), numbers, strict=True):
            for place, phrase in match_phrases(text, self.phrases, self.longest):
                found[place : place + len(phrase)] = self.phrases[phrase]
        return (self.rows[numbers],)


def read_gazetteer(path: Path) -> list[Entry]:
    """Read the entries of a file; a missing weight is 1.

    Raises:
        DataError: the file is missing, empty or malformed, or has a phrase and type twice.
    """
    require_gazetteer(path)
    lines: dict[tuple[str, str], int] = {}
    entries: list[Entry] = []
    for line in read_lines(path):
        if line.text.strip():
            entry = _read_entry(line, path)
            before = lines.setdefault(entry[:2], line.number)
            if before != line.number:
                message = f"found '{entry[0]}' of type '{entry[1]}' again, as on line {before}"
                raise refuse(path, line.number, message)
            entries.append(entry)
    if not entries:
        raise DataError(f"{path}: found no entry, expected lines `phrase TAB type [TAB weight]`.")
    return entries


def require_gazetteer(path: Path) -> None:
    if not path.is_file():
        raise DataError(
            f"{path}: no such file, which a gazetteer_embedding layer names; its path is "
            "relative to the working directory, which for cells is the project's root."
        )


def _read_entry(line: Line, path: Path) -> Entry:
    parts = line.text.split("\t")
    phrase, kind = " ".join(parts[0].split()), parts[1].strip() if len(parts) > 1 else ""
    if len(parts) not in (2, 3) or not phrase or not kind:
        message = f"found {plural(len(parts), 'column')}, expected `phrase TAB type [TAB weight]`"
        raise refuse(path, line.number, message)
    weights = parse_numbers(parts[2], "weight", line, path) if len(parts) == 3 else [1.0]
    if len(weights) != 1:
        message = f"found {plural(len(weights), 'weight')}, expected one"
        raise refuse(path, line.number, message)
    return phrase, kind, weights[0]
