"""Trees that a model writes symbol by symbol: what each can go on with.

Shape letters: R hypotheses, T tokens, V symbols, A choices of a step (V + T).

Training reads this module too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reglue_runtime.search import STAY
from reglue_runtime.tree import OPEN, REDUCE, SHIFT, Derivation, count_steps


class TreeRules:
    """Trees over the tokens, as a head's `constraints` say.

    Args:
        note: `max_open`; `free`: whether anything may be written; `inside`: by parent, the root
            last, 1 for each label that may open inside it.
    """

    def __init__(self, sizes_R: np.ndarray, *, note: Mapping[str, Any]) -> None:
        self._lengths: list[int] = sizes_R.tolist()
        self._max_open, self._is_free = note["max_open"], note["free"]
        self._inside = np.array(note["inside"], dtype=bool)
        self._trees = [Derivation() for _ in self._lengths]
        self._steps = 0
        self._num_symbols = OPEN + self._inside.shape[1]
        self.max_steps = count_steps(max(self._lengths), self._max_open)

    @property
    def done(self) -> np.ndarray:
        pairs = zip(self._trees, self._lengths, strict=True)
        return np.array(
            [
                tree.is_done or length == 0 or self._steps >= count_steps(length, self._max_open)
                for tree, length in pairs
            ]
        )

    @property
    def read(self) -> np.ndarray:
        """The tokens that each has written, [R]."""
        return np.array([tree.read for tree in self._trees])

    def allow(self, num_choices: int) -> np.ndarray:
        """Return the choices that each can go on with, [R, A]."""
        allowed_RA = np.zeros((len(self._trees), num_choices), dtype=bool)
        if self._is_free:
            allowed_RA[:, REDUCE:] = True
            return allowed_RA
        for allowed_A, tree, length in zip(allowed_RA, self._trees, self._lengths, strict=True):
            moves = tree.list_moves(length, self._max_open)
            allowed_A[SHIFT], allowed_A[REDUCE] = moves.shifts, moves.closes
            if moves.parent is not None:
                allowed_A[OPEN : self._num_symbols] = self._inside[moves.parent]
        return allowed_RA

    def restrict(self, log_RA: np.ndarray) -> np.ndarray:
        place_R = np.minimum(self._num_symbols + self.read, log_RA.shape[1] - 1)
        log_RA[:, SHIFT] = log_RA[np.arange(len(log_RA)), place_R]
        found_RA: np.ndarray = np.where(self.allow(log_RA.shape[1]), log_RA, -np.inf)
        found_RA[[tree.is_done for tree in self._trees], SHIFT] = 0.0  # not read, but a number
        return found_RA

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> np.ndarray:
        self._steps += 1
        read_R = self.read[parent_R]
        self._trees = [
            self._trees[parent]
            if choice == STAY or choice >= self._num_symbols
            else self._trees[parent].follow(choice)
            for parent, choice in zip(parent_R.tolist(), choice_R.tolist(), strict=True)
        ]
        return np.where(choice_R == SHIFT, self._num_symbols + read_R, choice_R)
