"""Lists of phrases with types, and where their phrases stand in a text.

A gazetteer is a file of lines `phrase TAB type` or `phrase TAB type TAB weight`; the words of a
phrase have spaces between them, and a phrase of several types has a line for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.data.batching import Ragged
from nlp_core.data.feature import Weights
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.data.readers.tsv import parse_numbers
from nlp_core.data.task import Column
from nlp_core.data.vocabulary import require_text
from nlp_core.errors import DataError

Phrase = tuple[str, ...]
Entry = tuple[str, str, float]


@dataclass(frozen=True)
class Gazetteer:
    """Phrases with the weights of their types.

    Attributes:
        types: all types, sorted.
        entries: phrase, type and weight, sorted.
        weights: the weight of each type of each phrase, by its words.
        longest: words of the longest phrase.
        lowercase: whether case does not count.
    """

    types: list[str]
    entries: list[Entry]
    weights: dict[Phrase, np.ndarray]
    longest: int
    lowercase: bool

    @classmethod
    def build(cls, entries: Sequence[Entry], *, lowercase: bool) -> "Gazetteer":
        """Make a gazetteer of entries; the weights of one type of the same words are summed."""
        types = sorted({kind for _, kind, _ in entries})
        weights: dict[Phrase, np.ndarray] = {}
        for phrase, kind, weight in entries:
            words = tuple((phrase.lower() if lowercase else phrase).split())
            found = weights.setdefault(words, np.zeros(len(types), dtype=np.float32))
            found[types.index(kind)] += weight
        longest = max(map(len, weights), default=0)
        return cls(types, sorted(entries), weights, longest, lowercase)

    @classmethod
    def learn(
        cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path
    ) -> "Gazetteer":
        """Read the file that the option `file` names; the training split adds nothing to it.

        Raises:
            DataError: the file is missing, empty or malformed.
        """
        entries = read_gazetteer(Path(options["file"]))
        return cls.build(entries, lowercase=bool(options.get("lowercase", False)))

    @classmethod
    def recall(cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path) -> "Gazetteer":
        """Restore the entries; the file is not read."""
        entries = [(phrase, kind, float(weight)) for phrase, kind, weight in note["entries"]]
        return cls.build(entries, lowercase=bool(options.get("lowercase", False)))

    def describe(self) -> dict[str, Any]:
        """Return the entries, weights as text so that no place is rounded away."""
        return {"entries": [(phrase, kind, repr(weight)) for phrase, kind, weight in self.entries]}

    def __len__(self) -> int:
        return len(self.types)

    def read(self, column: Column) -> Weights:
        """Return the weights of the types at each token."""
        text = require_text(column)
        tokens = [word.lower() for word in text.tokens] if self.lowercase else text.tokens
        matches = [(), *self.weights]
        number = {phrase: idx for idx, phrase in enumerate(matches)}
        numbers = np.zeros(len(tokens), dtype=np.int64)
        for start, end in zip(text.offsets[:-1].tolist(), text.offsets[1:].tolist(), strict=True):
            for first, phrase in self._match(tokens[start:end]):
                numbers[start + first : start + first + len(phrase)] = number[phrase]
        nothing = np.zeros(len(self.types), dtype=np.float32)
        rows = np.stack([nothing, *self.weights.values()])
        return Weights(Ragged(numbers, text.offsets), rows)

    def _match(self, words: Sequence[str]) -> list[tuple[int, Phrase]]:
        """Return the longest phrase at each place from the left, none over another."""
        found: list[tuple[int, Phrase]] = []
        place = 0
        while place < len(words):
            for size in range(min(self.longest, len(words) - place), 0, -1):
                phrase = tuple(words[place : place + size])
                if phrase in self.weights:
                    found.append((place, phrase))
                    place += size
                    break
            else:
                place += 1
        return found


def read_gazetteer(path: Path) -> list[Entry]:
    """Read the entries of a file; a weight that is left out is 1.

    Raises:
        DataError: the file is missing, empty or malformed, or says the same twice.
    """
    require_file(path)
    lines: dict[tuple[str, str], int] = {}
    entries: list[Entry] = []
    for line in read_lines(path):
        if line.text.strip():
            entry = _read_entry(line, path)
            before = lines.setdefault(entry[:2], line.number)
            if before != line.number:
                message = (
                    f"found '{entry[0]}' of type '{entry[1]}' again, which is on line {before}"
                )
                raise refuse(path, line.number, message)
            entries.append(entry)
    if not entries:
        raise DataError(f"{path}: found no entry, expected lines `phrase TAB type [TAB weight]`.")
    return entries


def require_file(path: Path) -> None:
    """Refuse a gazetteer that is not there.

    Raises:
        DataError: there is no such file.
    """
    if not path.is_file():
        raise DataError(
            f"{path}: there is no such file, which a gazetteer_embedding layer names; its path "
            "starts at the project's root."
        )


def _read_entry(line: Line, path: Path) -> Entry:
    parts = line.text.split("\t")
    phrase, kind = " ".join(parts[0].split()), parts[1].strip() if len(parts) > 1 else ""
    if len(parts) not in (2, 3) or not phrase or not kind:
        message = f"found {len(parts)} columns, expected `phrase TAB type [TAB weight]`"
        raise refuse(path, line.number, message)
    weights = parse_numbers(parts[2], "weight", line, path) if len(parts) == 3 else [1.0]
    if len(weights) != 1:
        message = f"found {len(weights)} weights, expected one"
        raise refuse(path, line.number, message)
    return phrase, kind, weights[0]
