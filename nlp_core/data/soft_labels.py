"""Soft labels: what teachers predict for the training texts of a task, as columns of the task.

train.parquet of a taught task has a column `soft.<member>.<target>` for each member of an ensemble
and each target (label, tags): for each text a flat list of one number, one for each label, or one
for each label of each token. They are scores as a head outputs them (logits, values); those of a
conditional random field are the log-probabilities of the labels of each token. The last texts may
have no labels of their own. `soft` in the task's manifest describes the columns.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import TRAIN
from nlp_core.data.batching import locate_rows
from nlp_core.data.split_column import LabelColumn
from nlp_core.data.task import Answers, Split, Task
from nlp_core.files import MANIFEST, digest_file, name_local, replacing, write_json
from nlp_core.kinds import TAGS

SOFT = "soft"
TRAIN_FILE = f"{TRAIN}.parquet"


@dataclass(frozen=True)
class SoftColumn:
    """The soft labels of one target, of each member of an ensemble.

    Attributes:
        values: of each example, [K, N, L] or [K, N], or of all tokens, [K, total, L].
        offsets: where the tokens of each example begin, and the end, [N + 1]; None: no tokens.
    """

    values: np.ndarray
    offsets: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some examples: [K, B, L], [K, B] or, zeros at padding, [K, B, T, L]."""
        if self.offsets is None:
            found: np.ndarray = self.values[:, rows]
            return found
        places, inside = locate_rows(self.offsets, rows)
        return np.where(inside[..., None], self.values[:, places], np.float32(0))

    def __deepcopy__(self, memo: object) -> "SoftColumn":
        """Return itself: nothing changes it, and copies of a model share it."""
        return self


class TeacherSeed(NamedTuple):
    """A seed that taught: its cell's folder, its number, a digest of what its answers depend on."""

    cell: Path
    seed: int
    digest: str


@dataclass(frozen=True)
class SoftLabels:
    """The soft labels, as the manifest of a taught task describes them.

    Attributes:
        num_labelled: the first texts, which have labels as well.
        widths: by target the numbers of an example, or of each of its tokens; 0: one, a value.
        marginals: whether numbers are log-probabilities of a conditional random field.
        teachers: the members of the ensemble.
    """

    num_labelled: int
    widths: dict[str, int]
    marginals: bool
    teachers: list[TeacherSeed]

    def describe(self) -> dict[str, Any]:
        """Return the manifest's `soft`."""
        teachers = [[str(one.cell), one.seed, one.digest] for one in self.teachers]
        return vars(self) | {"teachers": teachers}

    def read(self, folder: Path) -> dict[str, SoftColumn]:
        """Return the numbers of all members, by target."""
        file = pq.ParquetFile(name_local(folder / TRAIN_FILE))
        found: dict[str, SoftColumn] = {}
        for target, width in self.widths.items():
            names = [name_column(k, target) for k in range(len(self.teachers))]
            table = file.read(names)
            columns = [_read_column(table.column(name), target, width) for name in names]
            values = np.concatenate([column.values for column in columns])
            found[target] = SoftColumn(values, columns[0].offsets)
        return found


def name_column(member: int, target: str) -> str:
    return f"{SOFT}.{member}.{target}"


def read_soft_labels(folder: Path) -> SoftLabels | None:
    """Return what a processed task has of soft labels; None: nobody taught it."""
    note = read_mapping(folder / MANIFEST).get(SOFT)
    if note is None:
        return None
    teachers = [
        TeacherSeed(Path(cell), seed, digest) for cell, seed, digest in note.pop("teachers")
    ]
    return SoftLabels(**note, teachers=teachers)


def read_taught_split(task: Task, soft: SoftLabels) -> Split:
    """Read the training split of a taught task.

    A text without a label gets the first label of the split, from which nothing may be learnt.
    """
    split, own = task.read_split(TRAIN), soft.num_labelled
    if own == len(split):
        return split
    targets = {name: _fill(name, rows, split, own) for name, rows in split.targets.items()}
    return replace(split, targets=targets)


def _fill(target: str, rows: Answers, split: Split, own: int) -> Answers:
    """Return answers with placeholders of their form after the first `own` ones."""
    if target == TAGS:
        sizes = np.diff(split.tag_offsets)[own:].tolist()
        return LabelColumn.build(target, [*rows[:own], *([rows[0][0]] * size for size in sizes)])
    filled = [*rows[:own], *[rows[0]] * (len(split) - own)]
    if isinstance(rows[0], float):
        return np.array(filled)
    return LabelColumn.build(target, filled)


def write_answers(path: Path, scores: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Write by target what one member of an ensemble says of each text, in any shape."""
    columns = {
        target: pa.array(
            [np.asarray(row, dtype=np.float32).ravel() for row in rows], pa.list_(pa.float32())
        )
        for target, rows in scores.items()
    }
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns), name_local(temporary), compression="zstd")


def append_answers(table: pa.Table, member: int, path: Path) -> pa.Table:
    """Return the training texts with what one more member of the ensemble says."""
    answers = pq.ParquetFile(name_local(path)).read()
    for target in answers.column_names:
        table = table.append_column(name_column(member, target), answers.column(target))
    return table


def write_taught_task(task: Task, folder: Path, train: pa.Table, soft: SoftLabels) -> None:
    """Write a task again, with other training texts and their soft labels, into an empty folder."""
    for path in sorted(task.folder.glob("*.parquet")):
        if path.name != TRAIN_FILE:
            shutil.copyfile(path, folder / path.name)
    pq.write_table(train, name_local(folder / TRAIN_FILE), compression="zstd")
    manifest = read_mapping(task.folder / MANIFEST) | {SOFT: soft.describe()}
    manifest["splits"][TRAIN]["sha256"] = digest_file(folder / TRAIN_FILE)
    manifest["splits"][TRAIN]["rows"] = len(train)
    write_json(folder / MANIFEST, manifest)


def _read_column(column: pa.ChunkedArray, target: str, width: int) -> SoftColumn:
    lists = column.combine_chunks()
    values = np.asarray(lists.flatten().to_pylist(), dtype=np.float32)
    if target == TAGS:
        offsets = np.asarray(lists.offsets.to_pylist()) // width
        return SoftColumn(values.reshape(1, -1, width), offsets)
    return SoftColumn(values.reshape((1, -1, width) if width else (1, -1)))
