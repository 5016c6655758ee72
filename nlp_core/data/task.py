"""A processed task in memory: columns of each split, and what its manifest says."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.config.column import NUMBERS, PIECES, SYMBOLS, TOKEN_NUMBERS, TOKEN_VECTORS
from nlp_core.config.dataset import Searched
from nlp_core.data.batching import Ragged
from nlp_core.data.holdout import cut_by_key
from nlp_core.data.split_column import (
    Column,
    LabelColumn,
    NumberColumn,
    RawText,
    Rows,
    TextColumn,
    WordText,
)
from nlp_core.data.stored_column import Passages, StoredColumns, read_columns
from nlp_core.data.written_text import number_outputs
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import MANIFEST, check_digest, digest_json, name_local
from nlp_core.kinds import ANSWERS, GROUP, KINDS, LABELS, NEXT_WORD, OUTPUT, SENTENCES, TREE, Kind
from reglue_runtime.tree import write_tree
from reglue_runtime.writing import write_words

DIGESTED = (
    "further_report_splits",
    "kind",
    "labels",
    "metrics",
    "report_split",
    "scheme",
    "searched",
    "select_split",
    "soft",
    "tags",
)
VALUES = (NUMBERS, TOKEN_NUMBERS, TOKEN_VECTORS, SENTENCES)
"""How the names of columns of numbers begin."""
NO_EXAMPLES = {
    "vectors": "word vectors",
    "encoder": "an encoder",
    "corpus": "a corpus",
    "group": "a group of tasks",
}

Answers = Sequence[Any] | np.ndarray
"""The right answer of each example; numbers may be an array."""


@dataclass(frozen=True)
class Split:
    """The examples of one split, by column.

    Attributes:
        ids: row number of each example in the official file, [N].
        texts: text columns by name: tokens, tokens_a, tokens_b, and columns of a symbol for each
            token: features.pos and the like.
        targets: by column (label, labels, tags, answers) what is to be predicted of each example: a
            label (text), value, several labels (a tuple), tags (a list) or right answers (a list of
            texts, of which one is to be found), the symbols of a tree, or the text to write; None
            where the split has none. Of next_word, no column, how many words are predicted.
        group: question number of each candidate, [N]; None when the kind has no groups.
        numbers: columns of numbers by name: dense.votes, token_dense.surprisal and the like.
        passages: what the answers are cut out of; None when the kind has no such answers.
        raw: the unchanged texts of the file; None where only their tokens are read.
    """

    name: str
    ids: np.ndarray
    texts: dict[str, TextColumn]
    targets: Mapping[str, Answers]
    group: np.ndarray | None
    numbers: dict[str, NumberColumn] = field(default_factory=dict)
    passages: Passages | None = None
    raw: RawText | None = None

    @property
    def columns(self) -> dict[str, Column]:
        """All that a model can read."""
        found: dict[str, Column] = {**self.texts, **self.numbers}
        if self.raw is not None:
            found |= self.raw.list_columns()
        # what an encoder reads with its own tokenizer
        if "tokens" in self.texts:
            found["tokens" + PIECES] = WordText(self.texts["tokens"], None)
        if "tokens_b" in self.texts:
            found["tokens_b" + PIECES] = WordText(self.texts["tokens_b"], self.texts["tokens_a"])
        return found

    def __len__(self) -> int:
        return len(self.ids)

    def read_texts(self, row: int) -> tuple[str, ...]:
        """Return the texts of an example, or where the file has tokens, these joined by spaces."""
        if self.raw is not None:
            texts = (self.raw.first, self.raw.second)
            return tuple(column[row] for column in texts if column is not None)
        names = (name for name in self.texts if name.startswith("tokens"))
        return tuple(" ".join(self.texts[name].row(row)) for name in names)

    @property
    def tag_offsets(self) -> np.ndarray:
        """Where the tags of each example begin, and the end: of tokens or sentences, [N + 1]."""
        found = self.numbers[SENTENCES] if SENTENCES in self.numbers else self.texts["tokens"]
        assert found.offsets is not None, self.name
        return found.offsets

    @property
    def target(self) -> list[Any]:
        """The right answer of each example, see `join_answers`."""
        return join_answers(
            {
                name: rows.tolist() if isinstance(rows, np.ndarray) else list(rows)
                for name, rows in self.targets.items()
            }
        )

    def encode_target(self, name: str, labels: list[str]) -> Ragged | Rows | None:
        """Return label ids, values or places of a target; None where the split has none.

        Args:
            labels: all labels in the order of their ids; none for values.

        Raises:
            DataError: a label that the task does not name.
        """
        if name == ANSWERS:
            return None if self.passages is None else self.passages.positions
        answers = self.targets[name]
        if isinstance(answers, LabelColumn):
            if name == OUTPUT:
                return number_outputs(answers.words, self.texts["tokens"], labels)
            return answers.encode(labels)
        if isinstance(answers, np.ndarray):
            return answers.astype(np.float32)
        assert not answers or None in answers, (self.name, name)
        return None

    def write_answer(self, name: str, row: int, ids: list[int], labels: list[str]) -> Any:
        """Return what a model found for a target that is not named by one label or each token.

        Args:
            ids: first and last token of an answer; the actions of a tree, then numbers below 0;
                the ids of a text's words.
        """
        if name == OUTPUT:
            return write_words(ids, labels, self.texts["tokens"].row(row))
        if name == TREE:
            actions = [action for action in ids if action >= 0]
            return write_tree(actions, labels, self.texts["tokens"].row(row))
        assert self.passages is not None, self.name
        return self.passages.cut(row, *ids)

    def subset(self, name: str, rows: np.ndarray) -> "Split":
        """Return some of the examples as a split."""
        return replace(
            self,
            name=name,
            ids=self.ids[rows],
            texts={key: column.subset(rows) for key, column in self.texts.items()},
            targets={key: _take(answers, rows) for key, answers in self.targets.items()},
            group=None if self.group is None else self.group[rows],
            numbers={key: column.subset(rows) for key, column in self.numbers.items()},
            passages=None if self.passages is None else self.passages.subset(rows),
            raw=None if self.raw is None else self.raw.subset(rows),
        )


def draw_share(split: Split, share: float, seed: int) -> Split:
    """Return a random share of a split, whole groups of candidates of a ranking.

    With one seed a smaller share is a part of a larger one.

    Raises:
        DataError: the share is less than one example.
    """
    keys = split.ids if split.group is None else split.group
    chosen = cut_by_key([str(key) for key in keys.tolist()], share=share, seed=seed).held_out
    if not chosen:
        raise DataError(
            f"train_share: found {share}, which selects none of the {len(split)} examples of "
            f"{split.name}; choose a larger one."
        )
    return split.subset(split.name, np.array(chosen))


def _take(answers: Answers, rows: np.ndarray) -> Answers:
    if isinstance(answers, np.ndarray):
        taken: np.ndarray = answers[rows]
        return taken
    if isinstance(answers, LabelColumn):
        return answers.subset(rows)
    return [answers[row] for row in rows.tolist()]


@dataclass(frozen=True)
class Task:
    """A processed task.

    Attributes:
        targets: by column (label, tags) all labels that can be predicted, or words that can be
            written, sorted; none for the values of a regression.
        metrics: the first one chooses the epoch.
        select_split: the split that chooses the epoch.
        report_split: the split that the table reports.
        footnotes: the labels of data that is not the official release.
        digest: sha256 of what training reads: the splits' own digests, the labels, the choices.
        searched: the passages that queries are searched in; None: those of all splits.
        out_of_scope: what a model answers where it has too little confidence; None: nothing.
    """

    name: str
    kind: Kind
    targets: dict[str, list[str]]
    metrics: list[str]
    select_split: str
    report_split: str
    scheme: str | None
    footnotes: list[str]
    digest: str
    folder: Path
    further_report_splits: tuple[str, ...] = field(default=(), kw_only=True)
    searched: Searched | None = field(default=None, kw_only=True)
    out_of_scope: str | None = field(default=None, kw_only=True)

    @property
    def report_splits(self) -> list[str]:
        return [self.report_split, *self.further_report_splits]

    @property
    def labels(self) -> list[str]:
        """All labels of the first target: of intents and slots the intents."""
        return next(iter(self.targets.values()))

    def read_split(self, name: str) -> Split:
        """Read one split; raise DataError if the task has none of that name."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            _check_processed(self.folder)
            splits = [item.stem for item in self.folder.glob("*.parquet")]
            raise DataError(f"{self.folder}: found no split '{name}'. {suggest(name, splits)}")
        manifest = read_mapping(self.folder / MANIFEST)
        remedy = f"run `dvc repro --force preprocess@{self.folder.name}`"
        check_digest(path, manifest["splits"][name]["sha256"], remedy=remedy)
        return read_split_file(path, self.kind, self.targets)


def read_split_file(
    path: Path,
    kind: Kind,
    targets: Collection[str],
    *,
    where: str | None = None,
    max_words: int = sys.maxsize,
    has_raw: bool = True,
) -> Split:
    """Read the columns of a split, whose name is that of its file.

    Args:
        targets: the columns of right answers.
        where: what messages call the file; None: its path.
        max_words: of the lexicon of a text; the most frequent are kept.
        has_raw: whether unchanged texts are read too, into memory.
    """
    where = where or str(path)
    with pq.ParquetFile(name_local(path)) as file:
        names = file.schema_arrow.names
        texts = [name for name in names if name.startswith(("tokens", SYMBOLS))]
        values = [name for name in names if name.startswith(VALUES)]
        predicted = [name for name in targets if name not in (ANSWERS, NEXT_WORD)]
        others = ["id", *([GROUP] if kind.is_grouped else []), *predicted]
        limits = dict.fromkeys(texts, max_words)
        found = read_columns(file, [*texts, *values, *others], path.parent, limits)
        answers = {name: _read_answers(name, file, found, where) for name in targets}
        raw = [_list_cells(file, name) for name in kind.texts if has_raw and name in names]
        passages = Passages.read(file.read()) if kind.has_passages else None
    sizes = next((found.words[name].lengths for name in texts), np.empty(0, dtype=np.int64))
    return Split(
        name=path.stem,
        ids=found.numbers["id"].values,
        texts={name: found.words[name] for name in texts},
        targets=answers,
        group=found.numbers[GROUP].values if kind.is_grouped else None,
        numbers={name: found.numbers[name].build_column(name, where, sizes) for name in values},
        passages=passages,
        raw=RawText(raw[0], raw[1] if raw[1:] else None) if raw else None,
    )


def _read_answers(name: str, file: pq.ParquetFile, found: StoredColumns, where: str) -> Answers:
    if name == NEXT_WORD:
        return [float(size - 1) for size in found.words["tokens"].lengths]
    if name in found.words:
        return LabelColumn(name, found.words[name], where)
    if name in found.numbers:
        return found.numbers[name].values
    rows = _list_cells(file, name)
    return [tuple(row) if name == LABELS and row is not None else row for row in rows]


def _list_cells(file: pq.ParquetFile, column: str) -> list[Any]:
    cells: list[Any] = file.read([column]).column(0).to_pylist()
    return cells


def list_targets(kind: Kind, note: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by column all labels that a kind predicts, from the lists of a manifest."""
    return {target.name: note[target.source] for target in kind.targets}


def join_answers(answers: Mapping[str, list[Any]]) -> list[Any]:
    """Return an answer for each example: that of the only target, or a record {target: answer}."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    return [dict(zip(answers, row, strict=True)) for row in zip(*answers.values(), strict=True)]


def _check_processed(folder: Path) -> Path:
    """Return the path of a task's manifest."""
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path}: no such file, so task '{folder.name}' is not processed yet; run "
            f"`dvc repro preprocess@{folder.name}`, or `teach@{folder.name}` for a taught task."
        )
    return path


def read_task(folder: Path) -> Task:
    """Read the manifest of a processed task.

    Raises:
        DataError: the task has not been processed, or is not a task with examples; its manifest is
            damaged.
    """
    path = _check_processed(folder)
    try:
        return _parse_manifest(read_mapping(path), path)
    except (ConfigError, LookupError, TypeError, AttributeError) as err:
        reason = f"no key {err}" if isinstance(err, KeyError) else str(err)
        raise DataError(
            f"{path}: found a damaged manifest ({reason.rstrip('.')}); "
            f"run `dvc repro --force preprocess@{folder.name}`, which writes it again."
        ) from err


def _parse_manifest(manifest: Mapping[str, Any], path: Path) -> Task:  # Any: JSON
    if manifest["kind"] in NO_EXAMPLES:
        raise DataError(
            f"{path}: found {NO_EXAMPLES[manifest['kind']]}, expected a task with examples; name "
            "vectors or an encoder in 'init' and a task in 'data'."
        )
    kind = KINDS.get(manifest["kind"])
    splits = {name: split["sha256"] for name, split in manifest["splits"].items()}
    return Task(
        name=manifest["task"],
        kind=kind,
        targets=list_targets(kind, manifest),
        metrics=manifest["metrics"],
        select_split=manifest["select_split"],
        report_split=manifest["report_split"],
        scheme=manifest["scheme"],
        footnotes=list_footnotes(manifest.get("source", {})),
        digest=digest_json(
            {key: manifest[key] for key in DIGESTED if key in manifest} | {"splits": splits}
        ),
        folder=path.parent,
        further_report_splits=tuple(manifest.get("further_report_splits", ())),
        searched=manifest.get("searched"),
    )


def list_footnotes(source: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Return a line for each label of members that are not the official release.

    `source` has digest and label of each member, as a manifest does.
    """
    members: dict[str, list[str]] = {}
    for member, item in sorted(source.items()):
        if item["label"]:
            members.setdefault(item["label"], []).append(member)
    return [f"{', '.join(names)}: {label}" for label, names in members.items()]
