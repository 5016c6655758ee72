"""Metrics of a yes-no decision by its scores."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError

# Above every probability, also when rounded to the 6 places of results: nothing is chosen.
NOTHING = 1.000001


class Decision(NamedTuple):
    """A yes-no question about many examples.

    Attributes:
        what: the label or labels, for error messages.
        target: whether yes is right.
        score: of yes.
    """

    what: str
    target: NDArray[np.bool_]
    score: NDArray[np.floating]

    @property
    def has_both(self) -> bool:
        return bool(self.target.any()) and not bool(self.target.all())


class OperatingPoint(NamedTuple):
    """The recall of all scores of at least a threshold."""

    recall: float
    threshold: float


def compute_auc(decision: Decision) -> float:
    """Return the area under the ROC curve: the share of pairs (yes, no) in the right order.

    Raises:
        DataError: all examples are of one class.
    """
    from sklearn.metrics import roc_auc_score

    if not decision.has_both:
        labelled = "labelled" if decision.target.all() else "not labelled"
        raise DataError(
            f"found only examples {labelled} '{decision.what}', expected both classes. Measure a "
            "larger split, or another metric."
        )
    return float(roc_auc_score(decision.target, decision.score))


def average_auc(decisions: Sequence[Decision], *, weighted: bool = False) -> float:
    """Return the mean area under the ROC curves of those that have both classes.

    Args:
        weighted: weigh each by the examples whose answer is yes.

    Raises:
        DataError: none of them has both classes.
    """
    defined = [item for item in decisions if item.has_both] or decisions[-1:]
    areas = [compute_auc(item) for item in defined]
    weights = [int(item.target.sum()) for item in defined] if weighted else None
    return float(np.average(areas, weights=weights))


def compute_average_precision(decision: Decision) -> float:
    """Return sum_n (R_n - R_{n-1}) P_n over the thresholds: the area under precision and recall.

    Raises:
        DataError: no answer is yes.
    """
    from sklearn.metrics import average_precision_score

    _require_positive(decision)
    return float(average_precision_score(decision.target, decision.score))


def find_operating_point(decision: Decision, precision: float) -> OperatingPoint:
    """Return the highest recall whose precision is high enough, at its highest threshold.

    If no threshold is precise enough, the recall is 0 and the threshold above 1.

    Raises:
        DataError: no answer is yes.
    """
    from sklearn.metrics import precision_recall_curve

    _require_positive(decision)
    found, recall, threshold = precision_recall_curve(decision.target, decision.score)
    allowed = np.flatnonzero(found[:-1] >= precision)
    if not len(allowed):
        return OperatingPoint(0.0, NOTHING)
    best = max(allowed, key=lambda idx: (recall[idx], threshold[idx]))
    return OperatingPoint(float(recall[best]), float(threshold[best]))


def _require_positive(decision: Decision) -> None:
    if not decision.target.any():
        raise DataError(
            f"found no example labelled '{decision.what}', expected at least one. Measure a larger "
            "split, or another metric."
        )
