"""The labels of a split as a column: one of each example, several, or one of each token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, overload

import numpy as np

from nlp_core.data.batching import Ragged
from nlp_core.data.split_column import RowMaker, Rows, TextColumn
from nlp_core.errors import DataError, suggest
from nlp_core.kinds import LABEL, LABELS


@dataclass(frozen=True)
class LabelColumn(Sequence[Any]):
    """The labels of each example; an item is a label, a tuple of labels or a list of tags.

    Attributes:
        target: label, labels or tags.
        words: the labels.
        where: the file that they come from, for error messages.
        lines: of the user's file each label, and the line on which it is first.
    """

    target: str
    words: TextColumn
    where: str = "input"
    lines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def build(cls, target: str, rows: Sequence[Any]) -> "LabelColumn":
        """Make a column of items."""
        lists = [[row] if target == LABEL else [*row] for row in rows]
        offsets = np.cumsum([0, *map(len, lists)])
        return cls(target, TextColumn.build([*chain.from_iterable(lists)], offsets))

    def __len__(self) -> int:
        return len(self.words.starts)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[idx] for idx in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        found = self.words.row(row)
        if self.target == LABEL:
            return found[0]
        return tuple(found) if self.target == LABELS else found

    def encode(self, labels: list[str]) -> Ragged | Rows:
        """Return label ids, of several labels 1 at each of them.

        Args:
            labels: all labels of the task, in the order of their ids.

        Raises:
            DataError: a label that the task does not have; its line is named.
        """
        number = {label: idx for idx, label in enumerate(labels)}
        for label in self.words.lexicon:
            if label not in number:
                raise self._refuse(label, labels)
        ids = self.words.look_up(lambda words: np.array([number.get(word, -1) for word in words]))
        if self.target == LABEL:
            return RowMaker(lambda rows: ids.take(rows)[:, 0])
        if self.target != LABELS:
            return ids
        every = np.arange(len(labels))
        return RowMaker(
            lambda rows: (
                (ids.take(rows, padding=-1)[:, :, None] == every).any(axis=1).astype(np.float32)
            )
        )

    def subset(self, rows: np.ndarray) -> "LabelColumn":
        """Return the labels of some rows."""
        return replace(self, words=self.words.subset(rows))

    def _refuse(self, label: str, labels: list[str]) -> DataError:
        line, hint = self.lines.get(label), suggest(label, labels)
        if line is None:
            place, other = self.where, "the task's manifest does not name"
        else:
            place, other = f"{self.where}: line {line}", "the training file does not have"
        return DataError(f"{place}: found the label '{label}', which {other}. {hint}")
