"""Metrics of tasks with one label, or any number of labels, for each example.

A label's metrics compare it with all others. Averages are over labels: `macro` weighs all the same,
`weighted` by their examples, and `micro` pools the decisions on all labels.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.errors import DataError
from nlp_core.metrics.base import LABEL, PRECISION, Predictions, register

ONE_LABEL = ("classification", "pair_classification")
LABELS = (*ONE_LABEL, "multi_label")
Indicator = NDArray[np.bool_]
BINS = 15  # Guo et al. 2017, section 4
# Above every probability, also when rounded to the 6 places of results: nothing is chosen.
NOTHING = 1.000001


class Decision(NamedTuple):
    """A yes-no question about many examples; `what` names it in error messages."""

    what: str
    target: NDArray[np.bool_]
    score: NDArray[np.floating]

    @property
    def has_both(self) -> bool:
        return bool(self.target.any()) and not bool(self.target.all())


class Confusion(NamedTuple):
    """The examples with the label of a row and the prediction of a column, [L, L]."""

    labels: list[str]
    counts: NDArray[np.int64]


def count_confusions(predictions: Predictions) -> Confusion:
    target, prediction = (
        _texts(answers).tolist() for answers in (predictions.target, predictions.prediction)
    )
    labels = [str(label) for label in predictions.labels]
    labels += sorted({*target, *prediction} - {*labels})  # which training never saw
    places = {label: place for place, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for (right, found), count in Counter(zip(target, prediction, strict=True)).items():
        counts[places[right], places[found]] = count
    return Confusion(labels, counts)


@register("accuracy", *ONE_LABEL)
def measure_accuracy(predictions: Predictions) -> float:
    return float(_compare(predictions).mean())


@register("exact_match", "multi_label")
def measure_exact_match(predictions: Predictions) -> float:
    """Return the share of examples all of whose labels are right (subset accuracy)."""
    pairs = zip(predictions.target, predictions.prediction, strict=True)
    right = [frozenset(cast(Collection[str], one)) == frozenset(other) for one, other in pairs]  # type: ignore[call-overload]
    return float(np.mean(right))


@register("matthews", *ONE_LABEL)
def measure_matthews(predictions: Predictions) -> float:
    """Return Matthews' correlation; 0 if all targets or all predictions are the same."""
    from sklearn.metrics import matthews_corrcoef

    target, prediction = _texts(predictions.target), _texts(predictions.prediction)
    if len(set(target)) == 1 or len(set(prediction)) == 1:
        return 0.0
    return float(matthews_corrcoef(target, prediction))


@register("expected_calibration_error", *ONE_LABEL, better="lower")
def measure_calibration_error(predictions: Predictions) -> float:
    return compute_calibration_error(_require_score(predictions).max(1), _compare(predictions))


def compute_calibration_error(
    confidence: NDArray[np.floating], right: NDArray[np.bool_], *, bins: int = BINS
) -> float:
    """Return the expected calibration error: sum_b n_b / n * |accuracy_b - mean confidence_b|.

    Args:
        confidence: probability of each answer, [N].
        right: whether the answer is right, [N].
        bins: number of bins b of equal width on (0, 1], each with its upper edge.

    Source: Guo et al. 2017 (calibration of modern neural networks), equation 3.
    """
    edges = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    place = np.digitize(confidence, edges, right=True)
    gap = np.bincount(place, right - confidence.astype(np.float64), minlength=bins)
    return float(np.abs(gap).sum() / len(right))


def measure_label(score: str, predictions: Predictions, label: str) -> float:
    """Return precision, recall or F1 = 2 p r / (p + r) of one label; 0 where undefined."""
    column = list(predictions.labels).index(label)
    target, prediction = indicate_both(predictions)
    return _score(score, target[:, column], prediction[:, column])


def measure_average(score: str, average: str, predictions: Predictions) -> float:
    target, prediction = indicate_both(predictions)
    if len(predictions.labels) == 1:  # scikit-learn takes one column for two classes
        return _score(score, target[:, 0], prediction[:, 0])
    return _score(score, target, prediction, average=average)


def _score(score: str, target: Indicator, prediction: Indicator, **options: str) -> float:
    from sklearn import metrics

    compute = getattr(metrics, f"{score}_score")
    return float(compute(target, prediction, zero_division=0, **options))


def compute_auc(decision: Decision) -> float:
    """Return the area under the ROC curve: the share of pairs (yes, no) in the right order."""
    from sklearn.metrics import roc_auc_score

    if not decision.has_both:
        labelled = "labelled" if decision.target.all() else "not labelled"
        raise DataError(
            f"found only examples {labelled} '{decision.what}', expected both classes. Measure a "
            "larger split, or another metric."
        )
    return float(roc_auc_score(decision.target, decision.score))


@dataclass(frozen=True)
class Area:
    """The area under the ROC curve of a decision on each example.

    Attributes:
        decide: returns the decision of `predictions`, and of the number or label in the metric's
            name.
    """

    decide: Callable[..., Decision]

    def __call__(self, predictions: Predictions, *parameters: float | str) -> float:
        return compute_auc(self.decide(predictions, *parameters))


@register("micro_auc", *LABELS)
def measure_pooled_auc(predictions: Predictions) -> float:
    """Return the area under the ROC curve of the decisions on all labels together."""
    return compute_auc(_decide(predictions, None))


@register("macro_auc", *LABELS)
def measure_mean_auc(predictions: Predictions, *, weighted: bool = False) -> float:
    """Return the mean area under the ROC curves of the labels that some, not all, examples have.

    With `weighted`, a label counts as many times as examples have it.
    """
    decisions = _decide_each(predictions)
    defined = [item for item in decisions if item.has_both] or decisions[-1:]
    weights = [int(item.target.sum()) for item in defined] if weighted else None
    return float(np.average([compute_auc(item) for item in defined], weights=weights))


@register(f"average_precision{LABEL}", *LABELS)
def measure_average_precision(predictions: Predictions, label: str) -> float:
    return _compute_average_precision(_decide(predictions, label))


@register("average_precision", "multi_label")
def measure_mean_average_precision(predictions: Predictions) -> float:
    """Return the mean average precision over the labels that some example has."""
    decisions = _decide_each(predictions)
    defined = [item for item in decisions if item.target.any()] or decisions[-1:]
    return float(np.mean([_compute_average_precision(item) for item in defined]))


def _compute_average_precision(decision: Decision) -> float:
    """Return sum_n (R_n - R_{n-1}) P_n over the thresholds: the area under precision and recall."""
    from sklearn.metrics import average_precision_score

    _require_positive(decision)
    return float(average_precision_score(decision.target, decision.score))


def measure_at_precision(
    wanted: str, predictions: Predictions, precision: float, label: str | None = None
) -> float:
    """Return the highest recall whose precision is high enough, or its highest threshold.

    If no threshold is precise enough, the recall is 0 and the threshold above 1. Without a label,
    the decisions on all labels have one threshold.

    Args:
        wanted: recall or threshold.
    """
    from sklearn.metrics import precision_recall_curve

    decision = _decide(predictions, label)
    _require_positive(decision)
    found, recall, threshold = precision_recall_curve(decision.target, decision.score)
    allowed = np.flatnonzero(found[:-1] >= precision)
    if not len(allowed):
        return 0.0 if wanted == "recall" else NOTHING
    best = max(allowed, key=lambda idx: (recall[idx], threshold[idx]))
    return float(recall[best] if wanted == "recall" else threshold[best])


def _of_last_label(compute: Callable[..., float]) -> Callable[..., float]:
    """Return the metric of the last label, which is the positive one by convention."""

    def measure_last(predictions: Predictions, *numbers: float) -> float:
        return compute(predictions, *numbers, predictions.labels[-1])

    return measure_last


register("weighted_auc", *LABELS)(partial(measure_mean_auc, weighted=True))
register("average_precision", *ONE_LABEL)(_of_last_label(measure_average_precision))
for name in ("f1", "precision", "recall"):
    measure_one = partial(measure_label, name)
    register(f"{name}{LABEL}", *LABELS)(measure_one)
    register(name, *ONE_LABEL)(_of_last_label(measure_one))
    for average in ("macro", "micro", "weighted"):
        register(f"{average}_{name}", *LABELS)(partial(measure_average, name, average))
for is_recall in (True, False):
    add = partial(register, better="higher" if is_recall else None, in_points=is_recall)
    name = "recall" if is_recall else "threshold"
    measure_point = partial(measure_at_precision, name)
    add(f"{name}_at_precision{PRECISION}", "multi_label")(measure_point)
    add(f"{name}_at_precision{PRECISION}{LABEL}", *LABELS)(measure_point)
    add(f"{name}_at_precision{PRECISION}", *ONE_LABEL)(_of_last_label(measure_point))


def _require_score(predictions: Predictions) -> NDArray[np.floating]:
    if predictions.score is None:
        raise DataError("found no scores, expected the probability of each label.")
    return predictions.score


def _require_positive(decision: Decision) -> None:
    if not decision.target.any():
        raise DataError(
            f"found no example labelled '{decision.what}', expected at least one. Measure a larger "
            "split, or another metric."
        )


def _decide(predictions: Predictions, label: str | None) -> Decision:
    """Return the decision on a label; None: the pooled decisions on all labels."""
    score, target = _require_score(predictions), _indicate(predictions.target, predictions.labels)
    if label is None:
        return Decision("any of the labels", target.ravel(), score.ravel())
    column = list(predictions.labels).index(label)
    return Decision(label, target[:, column], score[:, column])


def _decide_each(predictions: Predictions) -> list[Decision]:
    score, target = _require_score(predictions), _indicate(predictions.target, predictions.labels)
    pairs = zip(predictions.labels, target.T, score.T, strict=True)
    return [Decision(*item) for item in pairs]


def _texts(values: Sequence[object]) -> NDArray[np.str_]:
    return np.asarray(values, dtype=np.str_)


def _compare(predictions: Predictions) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = _texts(predictions.target) == _texts(predictions.prediction)
    return right


def indicate_both(predictions: Predictions) -> tuple[Indicator, Indicator]:
    labels = predictions.labels
    return _indicate(predictions.target, labels), _indicate(predictions.prediction, labels)


def _indicate(values: Sequence[object], labels: Sequence[str]) -> Indicator:
    """Return which labels each example has, [examples, labels]; a value is a label or several."""
    if isinstance(values[0], str):
        found: Indicator = _texts(values)[:, None] == _texts(labels)
        return found
    chosen = [frozenset(cast(Collection[str], value)) for value in values]
    return np.array([[label in item for label in labels] for item in chosen], dtype=np.bool_)


register(f"auc{LABEL}", *LABELS)(Area(_decide))
register("auc", *ONE_LABEL)(Area(lambda found: _decide(found, found.labels[-1])))
