"""A processed task in memory: columns of each split, and what its manifest says."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow.parquet as pq

from nlp_core.config.reader import NUMBERS, SYMBOLS, TOKEN_NUMBERS
from nlp_core.data.batching import Ragged
from nlp_core.errors import DataError, suggest
from nlp_core.files import digest_json

DIGESTED = ("kind", "labels", "metrics", "report_split", "scheme", "select_split", "tags")
LABEL = "label"
LABELS = "labels"
TAGS = "tags"
NEXT_WORD = "next_word"


Encode = Callable[[list[str]], np.ndarray]
"""Return ids of words [N], or of the characters of words [N, C]."""


class Rows(Protocol):
    """An array, or what makes rows of one when they are asked for."""

    def __getitem__(self, rows: np.ndarray, /) -> np.ndarray:
        """Return some rows."""


class Text(Protocol):
    """A column of tokens: those of one text of each example, in memory or in a file."""

    def count(self) -> Counter[str]:
        """Return how often each word stands in the column."""

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the number of its word, and the characters of those words."""

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""


class Examples(Protocol):
    """The examples of a split: `Split` in memory, or read from files piece by piece."""

    @property
    def name(self) -> str:
        """train, dev, test, held_out ..."""

    @property
    def ids(self) -> np.ndarray:
        """Row number of each example in its file, [N]."""

    @property
    def texts(self) -> Mapping[str, Text]:
        """Text columns by name: tokens, tokens_a, tokens_b ..."""

    @property
    def columns(self) -> Mapping[str, "Column"]:
        """All that a model can read: the texts, and columns of numbers."""

    @property
    def target(self) -> list[Any]:
        """The right answer of each example, see `join_answers`."""

    @property
    def group(self) -> np.ndarray | None:
        """Question number of each candidate, [N]; None when the kind has no groups."""

    def encode_target(self, name: str, labels: list[str]) -> Ragged | Rows | None:
        """Return label ids or values of a target; None where the split has none."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class TextColumn:
    """The tokens of one text column, flat.

    Attributes:
        tokens: all tokens of all examples, in order.
        offsets: where each example begins, and the end, [N + 1].
    """

    tokens: list[str]
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, [N]."""
        return np.diff(self.offsets)

    def count(self) -> Counter[str]:
        """Return how often each word stands in the column."""
        return Counter(self.tokens)

    def look_up(self, encode: Encode) -> Ragged:
        """Return the ids of all tokens."""
        return Ragged(encode(self.tokens), self.offsets)

    def spell(self, encode: Encode) -> tuple[Ragged, Rows]:
        """Return for each token the number of its word, and the characters of those words."""
        distinct = sorted(set(self.tokens))
        number = {word: idx for idx, word in enumerate(distinct)}
        numbers = np.array([number[word] for word in self.tokens], dtype=np.int64)
        return Ragged(numbers, self.offsets), encode(distinct)

    def outline(self) -> Ragged:
        """Return a column of nothing but lengths, for masks."""
        return Ragged(np.empty(0), self.offsets)


@dataclass(frozen=True)
class NumberColumn:
    """The numbers of one column.

    Attributes:
        values: of all examples, [N, W], or all their tokens one behind the other, [total, 1].
        offsets: where the tokens of each example begin, and the end, [N + 1]; None: an example.
    """

    values: np.ndarray
    offsets: np.ndarray | None


Column = Text | NumberColumn
"""What a raw-input layer can read."""


@dataclass(frozen=True)
class Split:
    """The examples of one split, by column.

    Attributes:
        name: train, dev, test, held_out ...
        ids: row number of each example in the official file, [N].
        texts: text columns by name: tokens, tokens_a, tokens_b, and columns of a symbol for each
            token: features.pos and the like.
        targets: by column (label, labels, tags) what is to be predicted of each example: a label
            (text), value, several labels (a tuple) or tags (a list); None where the split has none.
            Of next_word, which is no column, how many words are predicted.
        group: question number of each candidate, [N]; None when the kind has no groups.
        numbers: columns of numbers by name: dense.votes, token_dense.surprisal and the like.
    """

    name: str
    ids: np.ndarray
    texts: dict[str, TextColumn]
    targets: dict[str, list[Any]]
    group: np.ndarray | None
    numbers: dict[str, NumberColumn] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, Column]:
        """All that a model can read."""
        return {**self.texts, **self.numbers}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def target(self) -> list[Any]:
        """The right answer of each example, see `join_answers`."""
        return join_answers(self.targets)

    def encode_target(self, name: str, labels: list[str]) -> Ragged | Rows | None:
        """Return label ids or values of a target; None where the split has none.

        Args:
            name: label, labels or tags.
            labels: all labels in the order of their ids; none for values.

        Raises:
            DataError: a label that the task does not name.
        """
        answers = self.targets[name]
        if any(item is None for item in answers):
            return None
        if not labels:
            return np.array(answers, dtype=np.float32)
        number = {label: idx for idx, label in enumerate(labels)}
        several = bool(answers) and isinstance(answers[0], tuple)
        tagged = bool(answers) and isinstance(answers[0], list)
        flat = list(chain.from_iterable(answers)) if several or tagged else answers
        unknown = sorted(set(flat) - set(number))
        if unknown:
            raise DataError(
                f"split {self.name}: found the label '{unknown[0]}', which the task's manifest "
                f"does not name. {suggest(unknown[0], number)}"
            )
        if several:
            chosen = [[label in row for label in labels] for row in answers]
            return np.array(chosen, dtype=np.float32)
        ids = np.array([number[label] for label in flat], dtype=np.int64)
        if not tagged:
            return ids
        return Ragged(ids, np.cumsum([0, *(len(tags) for tags in answers)]))


@dataclass(frozen=True)
class Task:
    """A processed task.

    Attributes:
        name: its name under datasets/.
        kind: classification, regression, tagging ...
        targets: by column (label, tags) all labels that can be predicted, sorted; none for the
            values of a regression.
        metrics: names of its metrics; the first one chooses the epoch.
        select_split: the split that chooses the epoch.
        report_split: the split that the table reports.
        scheme: tagging scheme, or None.
        footnotes: what is to be said of data that is not the official release.
        digest: sha256 of what training reads: the splits' own digests, the labels, the choices.
        folder: where it lies.
    """

    name: str
    kind: str
    targets: dict[str, list[str]]
    metrics: list[str]
    select_split: str
    report_split: str
    scheme: str | None
    footnotes: list[str]
    digest: str
    folder: Path

    @property
    def labels(self) -> list[str]:
        """All labels of the first target: of intents and slots the intents."""
        return next(iter(self.targets.values()))

    def read_split(self, name: str) -> Split:
        """Read one split.

        Raises:
            DataError: the task has no such split.
        """
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            splits = [item.stem for item in self.folder.glob("*.parquet")]
            raise DataError(f"{self.folder}: found no split '{name}'. {suggest(name, splits)}")
        # Neither read_table nor to_numpy: both import pandas, half a second of a start-up.
        with pq.ParquetFile(path) as file:
            table = file.read()
        texts, numbers = {}, {}
        for column in table.column_names:
            if column.startswith(("tokens", SYMBOLS)):
                lists = table.column(column).combine_chunks()
                offsets = np.asarray(lists.offsets.to_pylist())
                texts[column] = TextColumn(lists.flatten().to_pylist(), offsets - offsets[0])
            if column.startswith((NUMBERS, TOKEN_NUMBERS)):
                numbers[column] = _read_numbers(column, table.column(column).to_pylist())
        targets = {
            name: table.column(name).to_pylist() for name in self.targets if name != NEXT_WORD
        }
        if NEXT_WORD in self.targets:
            targets[NEXT_WORD] = [float(size - 1) for size in texts["tokens"].lengths]
        if LABELS in targets:
            targets[LABELS] = [None if row is None else tuple(row) for row in targets[LABELS]]
        group = table.column("group").to_pylist() if "group" in table.column_names else None
        ids = np.asarray(table.column("id").to_pylist())
        group = None if group is None else np.asarray(group)
        return Split(name, ids, texts, targets, group, numbers)


def _read_numbers(name: str, rows: list[list[float]]) -> NumberColumn:
    if name.startswith(NUMBERS):
        return NumberColumn(np.array(rows, dtype=np.float64), None)
    values = np.array([value for row in rows for value in row], dtype=np.float64)
    return NumberColumn(values[:, None], np.cumsum([0, *map(len, rows)]))


def list_targets(kind: str, note: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by column what a task of some kind predicts, and all labels of it.

    Args:
        kind: the task's kind.
        note: its "labels" and, for intent_slots, its "tags", as a manifest has them.
    """
    if kind == "intent_slots":
        return {LABEL: note["labels"], TAGS: note["tags"]}
    names = {"tagging": TAGS, "multi_label": LABELS, "language_model": NEXT_WORD}
    return {names.get(kind, LABEL): note["labels"]}


def join_answers(answers: Mapping[str, list[Any]]) -> list[Any]:
    """Return one answer an example: that of the one target, or a record {target: answer}."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    return [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]


def read_task(folder: Path) -> Task:
    """Read the manifest of a processed task.

    Raises:
        DataError: the task has not been processed, or is no task with examples.
    """
    path = folder / "manifest.json"
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so task '{folder.name}' is not processed yet; run "
            f"`dvc repro preprocess@{folder.name}`."
        )
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if manifest["kind"] == "vectors":
        raise DataError(
            f"{path}: found word vectors, expected a task with examples; name the vectors in "
            "'init' and a task in 'data'."
        )
    splits = {name: split["sha256"] for name, split in manifest["splits"].items()}
    return Task(
        name=manifest["task"],
        kind=manifest["kind"],
        targets=list_targets(manifest["kind"], manifest),
        metrics=manifest["metrics"],
        select_split=manifest["select_split"],
        report_split=manifest["report_split"],
        scheme=manifest["scheme"],
        footnotes=list_footnotes(manifest.get("source", {})),
        digest=digest_json(
            {key: manifest[key] for key in DIGESTED if key in manifest} | {"splits": splits}
        ),
        folder=folder,
    )


def list_footnotes(source: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Return what is to be said of members that are not the official release.

    Args:
        source: digest and label of each member, as a manifest has them.
    """
    members: dict[str, list[str]] = {}
    for member, item in sorted(source.items()):
        if item["label"]:
            members.setdefault(item["label"], []).append(member)
    return [f"{', '.join(names)}: {label}" for label, names in members.items()]
