"""Audit the splits of a task: count what is repeated, shared with train, in conflict or shifted."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nlp_core.config.dataset import HELD_OUT, TRAIN
from nlp_core.config.user_data import DataConfig
from nlp_core.data.audit.key import NgramIndex, SplitKeys, read_text
from nlp_core.data.audit.record import SplitAudit, TaskAudit
from nlp_core.data.audit.split_comparison import Finding, Reference, SplitComparison
from nlp_core.data.audit.unit import (
    Row,
    Unit,
    list_sorts,
    list_units,
    read_processed_rows,
    read_user_rows,
)
from nlp_core.data.task import read_task
from nlp_core.files import MANIFEST
from nlp_core.kinds import Kind

Splits = Mapping[str, Callable[[], Iterator[Row]]]
"""By name what reads the rows of a split, which may be called twice: train, then what was held out
of it, then the others."""
Place = tuple[str, str, int]
"""A unit: its sort, its split and its number in the split."""


@dataclass(frozen=True)
class Audit:
    """What was found in the splits of a task.

    Attributes:
        data: digest of a processed task; empty for the user's files.
        units: counts by natural unit and split.
        findings: a few examples of each fault.
    """

    name: str
    kind: Kind
    data: str
    splits: Splits
    units: dict[str, dict[str, SplitAudit]]
    findings: list[Finding]

    @property
    def record(self) -> TaskAudit:
        """The counts, which can be kept."""
        return TaskAudit(task=self.name, kind=self.kind.name, data=self.data, units=self.units)

    def read_units(self) -> dict[Place, Unit]:
        """Return the units of the findings; the splits are read again, since no text was kept."""
        wanted = {(item.sort, item.split, item.unit) for item in self.findings}
        wanted |= {(item.sort, item.other_split, item.other) for item in self.findings}
        found: dict[Place, Unit] = {}
        for split in sorted({split for _, split, _ in wanted}):
            numbers = dict.fromkeys(list_sorts(self.kind), 0)
            for unit in list_units(self.kind, self.splits[split]()):
                place = (unit.sort, split, numbers[unit.sort])
                numbers[unit.sort] += 1
                if place in wanted:
                    found[place] = unit
        return found


def audit_task(folder: Path, *, shown: int = 0) -> Audit:
    """Audit a processed task, and keep `shown` examples of each fault.

    Raises:
        DataError: it is not processed yet, or is not a task with examples.
    """
    task = read_task(folder)
    names = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["splits"]
    order = sorted(names, key=lambda name: (name != TRAIN, name != HELD_OUT, name))
    splits = {
        name: partial(read_processed_rows, folder / f"{name}.parquet", task.kind) for name in order
    }
    return audit_splits(task.name, task.kind, splits, data=f"sha256:{task.digest}", shown=shown)


def audit_files(paths: Sequence[Path], data: DataConfig, *, shown: int = 0) -> Audit:
    """Audit the user's files, of which the first one is the training data."""
    splits = {str(path): partial(read_user_rows, path, data) for path in paths}
    return audit_splits(str(paths[0]), data.kind, splits, shown=shown)


def audit_splits(name: str, kind: Kind, splits: Splits, *, data: str = "", shown: int = 0) -> Audit:
    """Compare the units of all splits; `data` is the digest of the task."""
    sorts = list_sorts(kind)
    ngrams = {sort: NgramIndex() for sort in sorts}
    keys = {sort: {split: SplitKeys() for split in splits} for sort in sorts}
    train, *others = splits
    # Train comes last: its 13-grams are looked up among those of the other splits.
    for split in [*others, train]:
        if split == train:
            for index in ngrams.values():
                index.close()
        for unit in list_units(kind, splits[split]()):
            keys[unit.sort][split].add(unit)
            found = np.concatenate([read_text(text).ngrams for text in unit.texts])
            if split == train:
                ngrams[unit.sort].look_up(found)
            else:
                ngrams[unit.sort].add(split, found)
    units: dict[str, dict[str, SplitAudit]] = {}
    findings: list[Finding] = []
    for sort in sorts:
        compared = list(_compare(sort, keys[sort], ngrams[sort]))
        units[sort] = {item.split: item.count() for item in compared}
        findings += [finding for item in compared for finding in item.list_findings(shown)]
    return Audit(name, kind, data, splits, units, findings)


def _compare(
    sort: str, keys: Mapping[str, SplitKeys], ngrams: NgramIndex
) -> Iterator[SplitComparison]:
    """Compare what was held out with train, and every further split with both."""
    parts: list[str] = []
    for split in keys:
        train = None
        if parts:
            sizes = {part: len(keys[part]) for part in parts}
            train = Reference(SplitKeys.join(keys[part] for part in parts), sizes)
        shared, is_long = ngrams.find_in_train(split), ngrams.is_long(split)
        yield SplitComparison(sort, split, keys[split], train, shared, is_long)
        if split == HELD_OUT:
            ngrams.look_up_split(split)
        if not parts or split == HELD_OUT:
            parts.append(split)
