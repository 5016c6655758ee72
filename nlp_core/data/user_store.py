"""The user's file as arrays on disk: written in one pass, opened by mapping them.

Memory does not grow with the texts. A store holds, for each text column, the numbers of its words
(int32), the length of each text and a lexicon of the words; labels and tags are kept in the same
way. Nothing in it depends on a model.
"""

import json
import logging
import math
import sys
from array import array
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from nlp_core.config.reader import NUMBERS, SYMBOLS, WHOLE_TEXTS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.cache import keep
from nlp_core.data.label_column import LabelColumn
from nlp_core.data.readers.entities import BorderCheck
from nlp_core.data.readers.records import check_file, refuse
from nlp_core.data.readers.user import READ_SCHEME, UserExample, read_examples
from nlp_core.data.scheme_detection import suggest_scheme
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.tagging_scheme import TagError, convert_tags
from nlp_core.data.task import Split
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json
from nlp_core.kinds import LABEL, TAGS

log = logging.getLogger(__name__)

FORMAT_VERSION = 2
DROPPED = 0
"""Number of the words that were too rare to be kept."""
DROPPED_WORD = "\0"
"""The word of that number, which no text can hold."""
NOTE = "note.json"
RAW = "raw_"
"""Prefix of a column that holds the whole text, as one word."""
ROWS_A_CHUNK = 8192
LIVE_WORDS = 8
"""Words that are counted at once, in multiples of max_words; above it the rarest are forgotten."""
MOST_LABELS = 10_000


def store_file(path: Path, data: DataConfig, name: str, pieces: Collection[str] = ()) -> Split:
    """Return the examples of a file, encoded into the cache unless they are there.

    Args:
        path: the file.
        data: how it is read.
        name: of the split.
        pieces: columns that a pretrained encoder cuts into pieces of its own; their texts are kept
            whole, and read into memory.

    Raises:
        DataError: the file is missing or empty, or a line is malformed; the line is named.
    """
    check_file(path)
    tokenizer = sys.modules[TOKENIZERS.get(data.tokens).__module__].__file__
    assert tokenizer is not None, data.tokens
    key = digest_json(
        {
            "data": data.model_dump(mode="json", exclude={"metrics"}),
            "file": digest_file(path),
            "tokenizer": digest_file(Path(tokenizer)),
            "format": FORMAT_VERSION,
        }
        | ({"pieces": sorted(pieces)} if pieces else {})
    )
    folder = keep("examples", key, lambda temporary: write_store(temporary, path, data, pieces))
    return open_store(folder, name, path)


def open_store(folder: Path, name: str, path: Path) -> Split:
    """Open what `write_store` wrote.

    Args:
        folder: the store.
        name: of the split.
        path: the file that was stored, for error messages.
    """
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    if note["warning"]:
        log.warning("%s: %s", path, note["warning"])
    groups, is_number = folder / "group", (folder / LABEL).exists()
    raw = [_open_column(folder, key).tokens for key in note["raw"]]
    return Split(
        name=name,
        ids=np.arange(note["rows"]),
        texts={key: _open_column(folder, key) for key in note["texts"]},
        targets={
            key: np.fromfile(folder / key, np.float64)
            if is_number
            else LabelColumn(key, _open_column(folder, key), lines, str(path))
            for key, lines in note["lines"].items()
        },
        group=np.fromfile(groups, np.int32) if groups.exists() else None,
        numbers={key: _read_numbers(folder, key, path) for key in note["numbers"]},
        raw=RawText(raw[0], raw[1] if raw[1:] else None) if raw else None,
    )


def _open_column(folder: Path, name: str) -> TextColumn:
    lengths = np.fromfile(folder / f"{name}.lengths", dtype=np.int32)
    starts = np.cumsum(lengths, dtype=np.int64)
    starts -= lengths
    lexicon = json.loads((folder / f"{name}.lexicon.json").read_text(encoding="utf-8"))
    path = folder / f"{name}.numbers"
    # an empty file cannot be mapped
    numbers = np.memmap(path, np.int32, "r") if path.stat().st_size else np.empty(0, np.int32)
    return TextColumn(lexicon, numbers, starts, lengths, DROPPED)


def _read_numbers(folder: Path, name: str, path: Path) -> NumberColumn:
    values = np.fromfile(folder / f"{name}.values", dtype=np.float64)
    sizes = np.fromfile(folder / f"{name}.sizes", dtype=np.int32)
    if not name.startswith(NUMBERS):
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return NumberColumn(values[:, None], offsets, str(path))
    return NumberColumn(values.reshape(len(sizes), -1), None, str(path))


def write_store(folder: Path, path: Path, data: DataConfig, pieces: Collection[str] = ()) -> None:
    """Write the arrays of a file's examples into an empty folder; the note is written last.

    Raises:
        DataError: see `store_file`.
    """
    # an encoder knows pieces of all words, however rare
    most = sys.maxsize if pieces else data.max_words
    raw = [f"{RAW}{name}" for name in data.text_names] if {*WHOLE_TEXTS} & {*pieces} else []
    read = [*data.text_names, *(name for name in data.extras if name.startswith(SYMBOLS))]
    columns = [_ColumnWriter(folder, name, most) for name in [*read, *raw]]
    numbers = [
        _NumberWriter(folder, name, path, column)
        for name, column in data.extras.items()
        if name not in read
    ]
    targets = _TargetWriter(folder, path, data)
    groups = _GroupWriter(is_by_run=data.group is None)
    borders = BorderCheck()
    rows = 0
    for example in read_examples(path, data):
        rows += 1
        borders.add(example.borders, example.line())
        words = _list_words(example, data, raw)
        for column in columns:
            column.add(words[column.name])
        for values in numbers:
            values.add(example)
        targets.add(example)
        if example.group is not None:
            groups.add(example.group)
    if rows == 0:
        raise DataError(f"{path}: found no examples; expected at least one row behind the header.")
    groups.close(folder)
    for values in numbers:
        values.close()
    for column in columns:
        if column.close():
            text = "%s: kept the %d most frequent words of %s, the rest is unknown (data.max_words)"
            log.warning(text, path, data.max_words, column.name)
    note = {"rows": rows, "texts": read, "lines": targets.close()}
    note["warning"] = borders.describe()
    note |= {"pieces": sorted(pieces), "raw": raw, "numbers": [item.name for item in numbers]}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


def _list_words(example: UserExample, data: DataConfig, raw: Sequence[str]) -> dict[str, list[str]]:
    """Return by column the tokens, the text as one word, or the symbols; numbers among them."""
    words = dict(zip(data.text_names, example.texts, strict=True))
    words |= {name: [text] for name, text in zip(raw, example.raw, strict=False)}
    return words | dict(example.extras)


class _Numbers(dict[str, int]):
    """Number words from 1 on as they come; a number is never given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0

    def __missing__(self, word: str) -> int:
        self.last += 1
        self[word] = self.last
        return self.last


class _ColumnWriter:
    """Write the tokens of one column: their numbers, the lengths, and at the end the lexicon."""

    def __init__(self, folder: Path, name: str, max_words: int) -> None:
        self.folder = folder
        self.name = name
        self.max_words = max_words
        self._numbers = _Numbers()
        self._counts = np.zeros(1024, dtype=np.int64)
        self._tokens, self._lengths = array("i"), array("i")

    def add(self, tokens: list[str]) -> None:
        """Add one text."""
        number = self._numbers
        self._tokens.extend([number[token] for token in tokens])
        self._lengths.append(len(tokens))
        if len(self._lengths) >= ROWS_A_CHUNK:
            self._flush()

    def close(self) -> bool:
        """Write the lexicon and return whether words were dropped."""
        self._flush()
        self._forget(self.max_words)
        lexicon = [DROPPED_WORD, *self._numbers]
        final = np.full(self._numbers.last + 1, DROPPED, dtype=np.int32)
        final[np.fromiter(self._numbers.values(), np.int64)] = np.arange(1, len(lexicon))
        dropped = len(lexicon) - 1 < self._numbers.last
        if dropped:
            self._renumber(final)
        text = json.dumps(lexicon, ensure_ascii=False)
        (self.folder / f"{self.name}.lexicon.json").write_text(text, encoding="utf-8")
        return dropped

    def _flush(self) -> None:
        for values, ending in ((self._tokens, "numbers"), (self._lengths, "lengths")):
            with (self.folder / f"{self.name}.{ending}").open("ab") as file:
                values.tofile(file)
        needed = self._numbers.last + 1
        if needed > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(needed, dtype=np.int64)])
        if len(self._tokens):
            found = np.bincount(np.frombuffer(self._tokens, dtype=np.int32))
            self._counts[: len(found)] += found
        self._tokens, self._lengths = array("i"), array("i")
        if len(self._numbers) > LIVE_WORDS * self.max_words:
            self._forget(LIVE_WORDS * self.max_words // 2)

    def _forget(self, size: int) -> None:
        """Keep the most frequent words, of equally frequent ones those that came first."""
        if len(self._numbers) <= size:
            return
        words = list(self._numbers)
        counts = self._counts[np.fromiter(self._numbers.values(), np.int64)]
        for idx in np.argsort(-counts, kind="stable")[size:]:
            del self._numbers[words[idx]]

    def _renumber(self, final: np.ndarray) -> None:
        with (self.folder / f"{self.name}.numbers").open("r+b") as file:
            while True:
                place = file.tell()
                chunk = np.fromfile(file, dtype=np.int32, count=1 << 20)
                if not len(chunk):
                    return
                file.seek(place)
                final[chunk].tofile(file)


class _NumberWriter:
    """Write the numbers of one column, and how many there are in each row."""

    def __init__(self, folder: Path, name: str, path: Path, column: str) -> None:
        self.name = name
        self._folder, self._path, self._column = folder, path, column
        self._values, self._sizes = array("d"), array("i")

    def add(self, example: UserExample) -> None:
        """Add the numbers of one example.

        Raises:
            DataError: the numbers of rows, and these are not as many as in the first one.
        """
        values = example.extras[self.name]
        if self.name.startswith(NUMBERS) and self._sizes and len(values) != self._sizes[0]:
            found = f"found {len(values)} numbers in '{self._column}', expected {self._sizes[0]}"
            raise refuse(self._path, example.line(), f"{found} as in the first row")
        self._values.extend(values)
        self._sizes.append(len(values))

    def close(self) -> None:
        """Write all of it."""
        for values, ending in ((self._values, "values"), (self._sizes, "sizes")):
            with (self._folder / f"{self.name}.{ending}").open("wb") as file:
                values.tofile(file)


class _GroupWriter:
    """Number the questions of candidates, by their names or by runs of equal ones."""

    def __init__(self, *, is_by_run: bool) -> None:
        self._is_by_run = is_by_run
        self._numbers: dict[str, int] = {}
        self._groups = array("i")
        self._last: str | None = None

    def add(self, group: str) -> None:
        """Add the question of one candidate."""
        if self._is_by_run and group != self._last:
            self._numbers = {group: self._groups[-1] + 1 if self._groups else 0}
        self._last = group
        self._groups.append(self._numbers.setdefault(group, len(self._numbers)))

    def close(self, folder: Path) -> None:
        """Write the numbers, where there are groups."""
        if self._groups:
            with (folder / "group").open("wb") as file:
                self._groups.tofile(file)


class _TargetWriter:
    """Write labels, numbers or tags, whichever the kind has."""

    def __init__(self, folder: Path, path: Path, data: DataConfig) -> None:
        self._folder, self._path, self._data = folder, path, data
        self._is_number = data.kind.is_number
        self._columns: dict[str, _ColumnWriter] = {}
        self._lines: dict[str, dict[str, int]] = {}
        self._values = array("d")

    def add(self, example: UserExample) -> None:
        """Add the targets of one example."""
        for name, words in example.targets.items():
            if self._is_number:
                self._values.append(self._parse(words[0], example.line()))
                continue
            if name not in self._columns:
                self._columns[name] = _ColumnWriter(self._folder, name, MOST_LABELS)
                self._lines[name] = {}
            labels = self._convert(example, words) if name == TAGS else words
            self._columns[name].add(labels)
            for idx, label in enumerate(labels):
                if label not in self._lines[name]:
                    self._see(name, label, example.line(idx))

    def close(self) -> dict[str, dict[str, int]]:
        """Write what is left; return for each target the first line of each of its labels."""
        if self._is_number:
            with (self._folder / LABEL).open("wb") as file:
                self._values.tofile(file)
            return {LABEL: {}}
        for column in self._columns.values():
            column.close()
        return self._lines

    def _see(self, name: str, label: str, line: int) -> None:
        self._lines[name][label] = line
        if len(self._lines[name]) > MOST_LABELS:
            found = f"found more than {MOST_LABELS} labels in '{self._data.label}', expected the"
            raise refuse(self._path, line, f"{found} same few again and again; is it the label?")

    def _parse(self, label: str, line: int) -> float:
        try:
            value = float(label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            found = f"found '{label}' in '{self._data.label}', expected a number for the kind"
            raise refuse(self._path, line, f"{found} {self._data.kind}")
        return value

    def _convert(self, example: UserExample, tags: list[str]) -> list[str]:
        source = READ_SCHEME if self._data.has_spans else self._data.scheme
        target = self._data.target_scheme
        assert source is not None
        if target is None:
            return tags
        try:
            return convert_tags(tags, source, target)
        except TagError as err:
            line = example.line(err.index)
            hint = suggest_scheme(read_examples(self._path, self._data), source)
            raise refuse(self._path, line, f"{err}{hint}") from err
