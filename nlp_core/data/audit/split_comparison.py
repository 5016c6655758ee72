"""Compare the units of a split with each other and with train: counts, shifts and examples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.key import Mask, SplitKeys, find_repeated
from nlp_core.data.audit.record import Overlap, Repeats, Shift, SplitAudit

LEAST_EXPECTED = 5
"""Below it the chi-squared test is wrong; rarer labels are counted as one (Cochran 1954)."""


def compare_labels(train: Mapping[str, int], other: Mapping[str, int]) -> Shift | None:
    """Compare counts of labels with those of train; None without labels, or with only one."""
    from scipy.stats import chi2_contingency  # a second to load, which only an audit needs

    names = sorted({*train, *other})
    if not train or not other or len(names) == 1:
        return None
    counts = np.array([[found.get(name, 0) for name in names] for found in (train, other)], float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    distance = float(np.abs(shares[0] - shares[1]).sum() / 2)
    smallest = counts.sum(axis=0) * min(counts.sum(axis=1)) / counts.sum()
    rare = smallest < LEAST_EXPECTED
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)])
    pooled = pooled[:, pooled.any(axis=0)]
    p = 1.0
    if pooled.shape[1] > 1:
        p = float(chi2_contingency(pooled, correction=False).pvalue)
    return Shift(distance=distance, p=p)


def compare_numbers(train: NDArray[np.float64], other: NDArray[np.float64]) -> Shift | None:
    """Compare values or lengths with those of train; None if one of them has none."""
    from scipy.stats import ks_2samp

    if not len(train) or not len(other):
        return None
    # two numbers in all say nothing
    method = "asymp" if len(train) + len(other) > 2 else "exact"
    found = ks_2samp(train, other, method=method)
    return Shift(distance=float(found.statistic), p=float(found.pvalue))


Fault = Literal[
    "repeated", "conflicting label", "in train", "in train, other label", "13 words in train"
]


class Finding(NamedTuple):
    """An example of a fault: a unit, and the other unit that makes it one.

    `unit` and `other` are their numbers in their splits, from 0.
    """

    fault: Fault
    sort: str
    split: str
    unit: int
    other_split: str
    other: int


@dataclass(frozen=True)
class Reference:
    """The units of train, followed by those held out of it; `sizes` counts those of each."""

    keys: SplitKeys
    sizes: Mapping[str, int]

    def locate(self, number: int) -> tuple[str, int]:
        """Return the split of a unit, and its number there."""
        for split, size in self.sizes.items():
            if number < size:
                return split, number
            number -= size
        raise AssertionError(number)


@dataclass(frozen=True)
class SplitComparison:
    """The units of one sort in one split, next to those of train.

    Attributes:
        train: the units of train; None: the split is train.
        shared: for each unit, the first unit of train that shares a 13-gram with it, or -1; [N].
        is_long: whether a unit has a 13-gram, [N].
    """

    sort: str
    split: str
    keys: SplitKeys
    train: Reference | None
    shared: NDArray[np.int64]
    is_long: Mask

    def count(self) -> SplitAudit:
        own = self.keys
        found = SplitAudit(
            examples=len(own),
            labelled=int(own.is_labelled.sum()),
            repeated=_count(find_repeated(own.exact), find_repeated(own.normalised)),
            conflicting=_count(
                own.find_conflicting(own.exact), own.find_conflicting(own.normalised)
            ),
        )
        if self.train is None:
            return found
        train = self.train.keys
        overlap = Overlap(
            **_count(
                np.isin(own.exact, train.exact), np.isin(own.normalised, train.normalised)
            ).model_dump(),
            ngram=int((self.shared >= 0).sum()),
            long=int(self.is_long.sum()),
            other_label=int(own.find_differing(train).sum()),
        )
        labels = compare_labels(train.classes, own.classes)
        if len(train.numbers):
            labels = compare_numbers(train.numbers, own.numbers)
        lengths = compare_numbers(train.lengths, own.lengths)
        return found.model_copy(
            update={"in_train": overlap, "label_shift": labels, "length_shift": lengths}
        )

    def list_findings(self, most: int) -> Iterator[Finding]:
        """Yield at most some examples of each fault."""
        own = self.keys.normalised
        yield from self._pair("repeated", find_repeated(own), most)
        conflicting = self.keys.find_conflicting(own)
        # the first unit with a text contradicts none before it
        later = conflicting & find_repeated(own)
        yield from self._pair("conflicting label", later, most, is_conflict=True)
        if self.train is None:
            return
        theirs = self.train.keys.normalised
        differing = self.keys.find_differing(self.train.keys)
        in_train = np.isin(own, theirs)
        yield from self._match("in train", in_train & ~differing, self.train, most)
        yield from self._match("in train, other label", differing, self.train, most)
        for unit in np.flatnonzero((self.shared >= 0) & ~in_train)[:most].tolist():
            other = self.train.locate(int(self.shared[unit]))
            yield Finding("13 words in train", self.sort, self.split, unit, *other)

    def _pair(
        self, fault: Fault, mask: Mask, most: int, *, is_conflict: bool = False
    ) -> Iterator[Finding]:
        """Yield faulty units, each with the first of the split that it repeats or contradicts."""
        keys, labels = self.keys.normalised, self.keys.labels
        units = np.flatnonzero(mask).tolist()
        found = 0
        while units and found < most:
            unit = units.pop(0)
            is_other = keys == keys[unit]
            if is_conflict:
                is_other &= self.keys.is_labelled & (labels != labels[unit])
            other = int(np.flatnonzero(is_other)[0])
            # Of a conflict both units are in the mask: it is shown at the later one.
            if other < unit:
                found += 1
                yield Finding(fault, self.sort, self.split, unit, self.split, other)

    def _match(self, fault: Fault, mask: Mask, train: Reference, most: int) -> Iterator[Finding]:
        """Yield units with the first unit of train that has their key."""
        theirs = train.keys.normalised
        for unit in np.flatnonzero(mask)[:most].tolist():
            other = int(np.flatnonzero(theirs == self.keys.normalised[unit])[0])
            yield Finding(fault, self.sort, self.split, unit, *train.locate(other))


def _count(exact: Mask, normalised: Mask) -> Repeats:
    return Repeats(exact=int(exact.sum()), normalised=int(normalised.sum()))
