"""How far the labels and lengths of a split are from those of train."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.record import Shift

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
    found = ks_2samp(train, other, method="asymp")
    return Shift(distance=float(found.statistic), p=float(found.pvalue))
