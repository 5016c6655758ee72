"""Measures of one label against all others, from its score at each example."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from nlp_core.errors import DataError

# Above every probability, also when rounded to the 6 places of results: nothing is chosen.
NOTHING = 1.000001


class Decision(NamedTuple):
    """A question with the answers yes and no, asked of many examples.

    Attributes:
        what: the label or labels, for error messages.
        target: whether yes is right.
        score: how likely yes is, by the model.
    """

    what: str
    target: NDArray[np.bool_]
    score: NDArray[np.floating]

    @property
    def has_both(self) -> bool:
        """Whether yes and no both occur."""
        return bool(self.target.any()) and not bool(self.target.all())


class OperatingPoint(NamedTuple):
    """What choosing the examples of at least a score gives.

    Attributes:
        recall: share of the right ones that is chosen.
        threshold: the least score that is chosen.
    """

    recall: float
    threshold: float


def compute_auc(decision: Decision) -> float:
    """Return the area under the ROC curve: the share of pairs (yes, no) in the right order.

    Raises:
        DataError: all examples are of one class.
    """
    if not decision.has_both:
        labelled = "labelled" if decision.target.all() else "not labelled"
        raise DataError(
            f"metrics: auc: found only examples {labelled} '{decision.what}', expected both "
            "classes: the curve is not defined without them. Measure a larger split, or another "
            "metric."
        )
    return float(roc_auc_score(decision.target, decision.score))


def average_auc(decisions: Sequence[Decision], *, weighted: bool = False) -> float:
    """Return the mean area under the ROC curves of those that have both classes.

    Args:
        decisions: a question each.
        weighted: count each by the examples whose answer is yes, not the same.

    Raises:
        DataError: none of them has.
    """
    defined = [item for item in decisions if item.has_both] or decisions[-1:]
    areas = [compute_auc(item) for item in defined]
    weights = [int(item.target.sum()) for item in defined] if weighted else None
    return float(np.average(areas, weights=weights))


def pool_decisions(decisions: Sequence[Decision]) -> Decision:
    """Return the answers to the questions of all labels as those to one."""
    return Decision(
        "any of the labels",
        np.concatenate([item.target for item in decisions]),
        np.concatenate([item.score for item in decisions]),
    )


def compute_average_precision(decision: Decision) -> float:
    """Return sum_n (R_n - R_{n-1}) P_n over the thresholds: the area below precision by recall.

    Raises:
        DataError: no example is right.
    """
    _require_positive("average_precision", decision)
    return float(average_precision_score(decision.target, decision.score))


def find_operating_point(decision: Decision, precision: float) -> OperatingPoint:
    """Return the greatest recall whose precision is at least the one that is asked for.

    Of the thresholds that give it, the highest. Where no threshold is precise enough, nothing is
    chosen: recall 0 and a threshold above 1.

    Raises:
        DataError: no example is right.
    """
    _require_positive("recall_at_precision", decision)
    found, recall, threshold = precision_recall_curve(decision.target, decision.score)
    allowed = np.flatnonzero(found[:-1] >= precision)
    if not len(allowed):
        return OperatingPoint(0.0, NOTHING)
    best = max(allowed, key=lambda idx: (recall[idx], threshold[idx]))
    return OperatingPoint(float(recall[best]), float(threshold[best]))


def _require_positive(metric: str, decision: Decision) -> None:
    if not decision.target.any():
        raise DataError(
            f"metrics: {metric}: found no example labelled '{decision.what}', expected at least "
            "one. Measure a larger split, or another metric."
        )
