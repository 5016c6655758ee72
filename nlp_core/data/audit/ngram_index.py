"""The 13-grams of all splits but train, in which those of train are looked up."""

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.text_key import Keys

KEYS_AT_ONCE = 1 << 18
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


class NgramIndex:
    """Say which units share a 13-gram with train.

    First the units of the other splits are added, which are kept; then those of train, which are
    looked up in parts and forgotten: memory does not grow with train.
    """

    def __init__(self) -> None:
        self._keys: dict[str, list[Keys]] = {}
        self._known = NO_KEYS
        self._found: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._waiting: list[Keys] = []
        self._num_waiting = 0
        self._num_seen = 0

    def add(self, split: str, keys: Keys) -> None:
        """Add the next unit of a split that is not train."""
        self._keys.setdefault(split, []).append(keys)

    def close(self) -> None:
        """End the other splits: what follows is train."""
        self._known = np.unique(np.concatenate([NO_KEYS, *(_join(k) for k in self._keys.values())]))
        self._found = np.full(len(self._known), -1, dtype=np.int64)

    def look_up_split(self, split: str) -> None:
        """Count a split that was added as a part of train from now on."""
        for keys in self._keys.get(split, []):
            self.look_up(keys)

    def look_up(self, keys: Keys) -> None:
        """Look the 13-grams of the next unit of train up."""
        self._waiting.append(keys)
        self._num_waiting += len(keys)
        if self._num_waiting >= KEYS_AT_ONCE:
            self._look_up_waiting()

    def _look_up_waiting(self) -> None:
        keys, units = _join(self._waiting), _number(self._waiting) + self._num_seen
        self._num_seen += len(self._waiting)
        self._waiting, self._num_waiting = [], 0
        if not len(self._known):
            return
        places = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        is_new = (self._known[places] == keys) & (self._found[places] < 0)
        # Backwards: of several units of train the first one is kept.
        self._found[places[is_new][::-1]] = units[is_new][::-1]

    def find_in_train(self, split: str) -> NDArray[np.int64]:
        """Return for each unit of a split the first unit of train found in it, or -1."""
        if self._waiting:
            self._look_up_waiting()
        own = self._keys.get(split, [])
        found = self._found[np.searchsorted(self._known, _join(own))]
        is_shared, units = found >= 0, _number(own)
        shared = np.full(len(own), -1, dtype=np.int64)
        shared[units[is_shared][::-1]] = found[is_shared][::-1]
        return shared

    def is_long(self, split: str) -> NDArray[np.bool_]:
        """Return which units of a split have a 13-gram."""
        return np.array([len(keys) > 0 for keys in self._keys.get(split, [])], dtype=np.bool_)


def _join(keys: list[Keys]) -> Keys:
    return np.concatenate([NO_KEYS, *keys])


def _number(keys: list[Keys]) -> NDArray[np.int64]:
    """Return the number of the unit of each key."""
    return np.repeat(np.arange(len(keys)), [len(unit) for unit in keys])
