"""Labels of the user's file as a column: one of each example, several, or one of each token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        lines: each label, and the line on which it stands first.
        path: the file that they come from, for error messages.
    """

    target: str
    words: TextColumn
    lines: dict[str, int]
    path: str

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
        for label, line in self.lines.items():
            if label not in number:
                raise DataError(
                    f"{self.path}: line {line}: found the label '{label}', which the training file "
                    f"does not have. {suggest(label, labels)}"
                )
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
