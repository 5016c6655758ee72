"""What teachers said of texts, stored once: artifacts/soft_labels/<set>/<teacher>/.

A seed of a teacher has a parquet file with a row for each text of a split, in the split's order:
its `id` there, and for each target (label, tags) a flat list of numbers: one number, one for each
label, or one for each label of each token. They are scores as a head gives them (logits, values),
of a conditional random field the log-probabilities of the labels of each token. manifest.json,
written last, says whose they are, and of which bytes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import parse_config, read_mapping
from nlp_core.config.distillation import AlterationConfig
from nlp_core.data.task import Split
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json, replacing
from nlp_core.kinds import TAGS

MANIFEST = "manifest.json"


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
        lengths = np.diff(self.offsets)[rows]
        steps = np.arange(max(int(lengths.max()), 1))
        inside = steps < lengths[:, None]
        places = np.where(inside, self.offsets[rows][:, None] + steps, 0)
        return np.where(inside[..., None], self.values[:, places], np.float32(0))

    def __deepcopy__(self, memo: object) -> "SoftColumn":
        """Return itself: nothing changes it, and copies of a model share it."""
        return self


@dataclass(frozen=True)
class SoftLabels:
    """What one teacher said of one split.

    Attributes:
        folder: where it lies.
        task: the task that is taught.
        data: the task whose texts they are.
        split: the split of them.
        seeds: of the teacher.
        targets: by column all labels, in the order of the numbers.
        widths: by column the numbers of an example, or of each of its tokens; 0: one, a value.
        marginals: whether the numbers are log-probabilities of a conditional random field.
        files: by name the sha256 of each seed's file.
        split_sha256: of the split.
        teacher: folder of the cell, and the digest of each seed.
        alteration: how the texts were altered before; None: they were not.
    """

    folder: Path
    task: str
    data: str
    split: str
    seeds: list[int]
    targets: dict[str, list[str]]
    widths: dict[str, int]
    marginals: bool
    files: dict[str, str]
    split_sha256: str
    teacher: dict[str, Any]
    alteration: AlterationConfig | None = None

    @property
    def texts(self) -> tuple[str, str, AlterationConfig | None]:
        """What texts they are of: task, split and alteration."""
        return self.data, self.split, self.alteration

    def read(self, split: Split) -> dict[str, SoftColumn]:
        """Read the numbers, by target.

        Args:
            split: the texts that they are of.

        Raises:
            DataError: a file is missing or damaged, or they are of other texts.
        """
        tables = [self._read_seed(seed, split) for seed in self.seeds]
        return {
            target: join_members([_read_column(table, target, width) for table in tables])
            for target, width in self.widths.items()
        }

    def _read_seed(self, seed: int, split: Split) -> pa.Table:
        path = self.folder / name_file(seed)
        if not path.exists() or digest_file(path) != self.files[path.name]:
            raise DataError(
                f"{path}: found no file, or another one than {MANIFEST} says; run `dvc repro "
                f"--force teach@{self.folder.name}`."
            )
        with pq.ParquetFile(path) as file:
            table = file.read()
        if table.column("id").to_pylist() != split.ids.tolist():
            raise DataError(
                f"{path}: found soft labels of {table.num_rows} examples that are not those of the "
                f"{len(split)} of {self.data}, split {split.name}; run `dvc repro --force "
                f"teach@{self.folder.name}`."
            )
        return table


def read_soft_labels(folder: Path) -> list[SoftLabels]:
    """Read what the teachers of a set say of themselves, in the order of their names.

    Raises:
        DataError: there is none.
    """
    paths = sorted(folder.glob(f"[!.]*/{MANIFEST}"))
    if not paths:
        raise DataError(
            f"{folder}: found no soft labels; run `dvc repro teach@TEACHER` for each of the "
            f"teachers in params.yaml whose set is '{folder.name}'."
        )
    return [_read_manifest(path) for path in paths]


def refuse_other_teachers(folder: Path, expected: Collection[str]) -> None:
    """Refuse soft labels of a teacher that params.yaml has no longer in the set.

    Its stage is gone, and no engine removes what a stage that is gone has written.

    Args:
        folder: of the set.
        expected: the set's teachers.

    Raises:
        DataError: there are some.
    """
    found = {path.parent.name for path in folder.glob(f"[!.]*/{MANIFEST}")}
    if others := sorted(found - {*expected}):
        raise DataError(
            f"{folder / others[0]}: found soft labels of a teacher that params.yaml does not have "
            f"in the set '{folder.name}', expected those of {', '.join(sorted(expected))} alone; "
            "remove the folder, and train the students of the set again."
        )


def _read_manifest(path: Path) -> SoftLabels:
    note = read_mapping(path)
    alteration = note.pop("alteration", None)  # soft labels of before there were any have none
    if alteration is not None:
        alteration = parse_config(alteration, AlterationConfig, where=str(path))
    return SoftLabels(folder=path.parent, **note, alteration=alteration)


def digest_soft_labels(parts: Sequence[SoftLabels]) -> str:
    """Return the digest of all that a student learns of its teachers."""
    notes: list[list[Any]] = []
    for part in parts:
        note = [part.task, part.data, part.split, part.split_sha256, part.files]
        notes.append([*note, part.alteration.model_dump()] if part.alteration else note)
    return digest_json(notes)


def find_split_digest(folder: Path, split: str) -> str:
    """Return the sha256 of a split of a processed task, as its manifest has it.

    Raises:
        DataError: the task is not processed, or has no such split.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so task '{folder.name}' is not processed yet; run "
            f"`dvc repro preprocess@{folder.name}`."
        )
    splits = read_mapping(path)["splits"]
    if split not in splits:
        raise DataError(
            f"{path}: found no split '{split}', expected one of {', '.join(sorted(splits))}."
        )
    digest: str = splits[split]["sha256"]
    return digest


def name_file(seed: int) -> str:
    """Return the name of the file of a teacher's seed."""
    return f"seed-{seed}.parquet"


def write_seed(path: Path, ids: np.ndarray, scores: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Write what one seed says.

    Args:
        path: the file.
        ids: of the examples in their split.
        scores: by target the numbers of each example, in any shape.
    """
    columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
    for target, rows in scores.items():
        flat = [np.asarray(row, dtype=np.float32).ravel() for row in rows]
        columns[target] = pa.array(flat, pa.list_(pa.float32()))
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def join_columns(pieces: Sequence[SoftColumn], *, where: str) -> SoftColumn:
    """Return the soft labels of one split behind those of another.

    Raises:
        DataError: the ensembles have not as many members.
    """
    counts = [len(piece.values) for piece in pieces]
    if len(set(counts)) > 1:
        raise DataError(
            f"{where}: found {' and '.join(map(str, counts))} seeds of teachers for parts of the "
            "training texts, expected as many for each; give all parts the same teachers."
        )
    values = np.concatenate([piece.values for piece in pieces], axis=1)
    if pieces[0].offsets is None:
        return SoftColumn(values)
    sizes = np.concatenate(
        [np.diff(piece.offsets) for piece in pieces if piece.offsets is not None]
    )
    return SoftColumn(values, np.concatenate([[0], np.cumsum(sizes)]))


def join_members(columns: Sequence[SoftColumn]) -> SoftColumn:
    """Return several teachers' soft labels of the same texts as those of one ensemble."""
    return SoftColumn(np.concatenate([column.values for column in columns]), columns[0].offsets)


def _read_column(table: pa.Table, target: str, width: int) -> SoftColumn:
    lists = table.column(target).combine_chunks()
    values = np.asarray(lists.flatten().to_pylist(), dtype=np.float32)
    if target == TAGS:
        offsets = np.asarray(lists.offsets.to_pylist()) // width
        return SoftColumn(values.reshape(1, -1, width), offsets)
    return SoftColumn(values.reshape((1, -1, width) if width else (1, -1)))
