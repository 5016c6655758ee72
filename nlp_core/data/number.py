"""Columns of numbers, brought to mean 0 and deviation 1 over the training split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.data.feature import Numbers
from nlp_core.data.split_column import Column, NumberColumn
from nlp_core.errors import DataError


@dataclass(frozen=True)
class NumberVocabulary:
    """Mean and standard deviation of each number of a column; 1 for one that never varies.

    Attributes:
        mean: [W].
        std: [W].
    """

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def learn(
        cls, columns: Sequence[Column], options: Mapping[str, Any], init: Path
    ) -> "NumberVocabulary":
        """Measure the numbers of the columns; by token each token counts.

        Raises:
            DataError: a column has another width than the layer's option `width`.
        """
        width = options.get("width", 1)
        arrays = [_require_numbers(column).values for column in columns]
        for values in arrays:
            if values.shape[1] != width:
                raise DataError(
                    f"split train: found {values.shape[1]} numbers in each row of a column that a "
                    f"dense_features layer of width {width} reads; set its 'width' to "
                    f"{values.shape[1]}, or give it another column."
                )
        values = np.concatenate(arrays)
        std = values.std(0)
        return cls(values.mean(0), np.where(std > 0, std, 1.0))

    @classmethod
    def from_note(
        cls, note: Mapping[str, Any], options: Mapping[str, Any], init: Path
    ) -> "NumberVocabulary":
        """Restore mean and deviation."""
        return cls(*(np.array([float(text) for text in note[name]]) for name in ("mean", "std")))

    def describe(self) -> dict[str, Any]:
        """Return mean and deviation, as text so that no place is rounded away."""
        return {
            "mean": [repr(value) for value in self.mean.tolist()],
            "std": [repr(value) for value in self.std.tolist()],
        }

    def __len__(self) -> int:
        return len(self.mean)

    def read(self, column: Column) -> Numbers:
        """Return the numbers less the mean, by the deviation."""
        numbers = _require_numbers(column)
        if numbers.values.shape[1] != len(self):
            raise DataError(
                f"{numbers.where}: found {numbers.values.shape[1]} numbers in each row of a column "
                f"that the model reads, expected {len(self)}, as in training."
            )
        scaled = ((numbers.values - self.mean) / self.std).astype(np.float32)
        return Numbers(scaled, numbers.offsets)


def _require_numbers(column: Column) -> NumberColumn:
    assert isinstance(column, NumberColumn), type(column)
    return column
