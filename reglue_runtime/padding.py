"""Rows of several lengths as one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def pad(rows: Sequence[Sequence[Any] | np.ndarray], fill: object, dtype: type) -> np.ndarray:
    """Return [N, longest row]; `fill` is at the end of shorter rows, and the only item of none."""
    found: np.ndarray = np.full((len(rows), max(1, *map(len, rows))), fill, dtype=dtype)
    for row, values in enumerate(rows):
        found[row, : len(values)] = values
    return found
