"""The units of a split as arrays of keys: no text is kept, so memory does not grow with it."""

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.text_key import Keys, hash_text, join_keys, read_text
from nlp_core.data.audit.unit import Unit

SEPARATOR = "\x1f"
Mask = NDArray[np.bool_]


class SplitKeys:
    """The keys of a split's units of one sort, which are added one by one and then compared.

    Attributes:
        classes: how often each label occurs.
    """

    def __init__(self) -> None:
        self._lengths = array("q")
        self._exact, self._normalised, self._labels = array("Q"), array("Q"), array("Q")
        self._is_labelled, self._numbers = array("b"), array("d")
        self.classes: Counter[str] = Counter()

    @classmethod
    def join(cls, parts: Iterable["SplitKeys"]) -> "SplitKeys":
        """Return the keys of several splits as one."""
        joined = cls()
        for part in parts:
            joined.classes += part.classes
            for name, values in vars(part).items():
                if isinstance(values, array):
                    getattr(joined, name).extend(values)
        return joined

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, unit: Unit) -> None:
        texts = [read_text(text) for text in unit.texts]
        self._lengths.append(sum(text.num_words for text in texts))
        self._exact.append(hash_text(SEPARATOR.join(unit.texts)))
        self._normalised.append(hash_text(SEPARATOR.join(text.normalised for text in texts)))
        self._labels.append(hash_text(unit.label or ""))
        self._is_labelled.append(unit.label is not None)
        self.classes.update(unit.classes)
        if unit.number is not None:
            self._numbers.append(unit.number)

    @property
    def exact(self) -> Keys:
        """Key of the unchanged texts, [N]."""
        return np.array(self._exact, dtype=np.uint64)

    @property
    def normalised(self) -> Keys:
        """Key of the normalised texts, [N]."""
        return np.array(self._normalised, dtype=np.uint64)

    @property
    def labels(self) -> Keys:
        """Key of the label, [N]."""
        return np.array(self._labels, dtype=np.uint64)

    @property
    def is_labelled(self) -> Mask:
        return np.array(self._is_labelled, dtype=np.bool_)

    @property
    def lengths(self) -> NDArray[np.float64]:
        """In words, [N]."""
        return np.array(self._lengths, dtype=np.float64)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The values of a regression."""
        return np.array(self._numbers, dtype=np.float64)

    def find_conflicting(self, keys: Keys) -> Mask:
        """Return which units have the key of a unit with another label."""
        labelled = self.is_labelled
        first = np.unique(join_keys(keys, self.labels)[labelled], return_index=True)[1]
        texts, num_labels = np.unique(keys[labelled][first], return_counts=True)
        return labelled & np.isin(keys, texts[num_labels > 1])

    def find_differing(self, train: "SplitKeys") -> Mask:
        """Return which units are in train, but never with the same label."""
        theirs = train.normalised[train.is_labelled]
        labelled = join_keys(theirs, train.labels[train.is_labelled])
        same = np.isin(join_keys(self.normalised, self.labels), labelled)
        return self.is_labelled & np.isin(self.normalised, theirs) & ~same


def find_repeated(keys: Keys) -> Mask:
    """Return which keys an earlier one repeats."""
    repeated = np.ones(len(keys), dtype=np.bool_)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated
