"""Calibrate the confidence of a model: a temperature, and a threshold below which it abstains.

Both are fitted on held-out examples, after training. The temperature divides the weights of the
head's last linear layer, so that all that use the model have calibrated probabilities.

Shape letters: N examples, L labels.
"""

import logging
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nlp_core.data.scope import OUT_OF_SCOPE
from nlp_core.data.task import Task
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import PLACES
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.metrics import HONEST
from nlp_core.metrics.classification import compute_calibration_error
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan
from nlp_core.prediction.split_prediction import predict
from nlp_core.training.task_run import TaskRun

log = logging.getLogger(__name__)

COLDEST, HOTTEST = 0.001, 10.0
"""Bounds of the search. Early weights may separate all labels by tiny differences of scores."""
LEAST_PROB = 1e-300
FEW = 10
"""Fewer examples with a label that training saw fit no temperature."""
NUM_FOLDS = 5
"""Parts of the held-out examples that say whether a temperature is better than none."""
KEPT = 0.95
"""Share of the right answers that the threshold keeps."""


class Calibration(NamedTuple):
    """How the confidence of a model was fitted.

    Attributes:
        temperature: what the scores were divided by.
        error_before, error: expected calibration error on the held-out examples, from 0 to 1.
        abstain_below: the least confidence of an answer that `--abstain-below auto` gives; None:
            none keeps a right answer, or the answers are a ranking.
        right_kept, wrong_kept: shares of the right and of the wrong answers that it keeps.
        examples: held out.
        out_of_scope: the answer below the threshold; None: the model abstains.
        outside_examples: out-of-scope rows that the threshold was also fitted to.
        outside_below: share of them below the threshold.
    """

    temperature: float
    error_before: float
    error: float
    abstain_below: float | None
    right_kept: float
    wrong_kept: float
    examples: int
    out_of_scope: str | None = None
    outside_examples: int | None = None
    outside_below: float | None = None

    def describe(self) -> dict[str, Any]:  # Any: JSON
        """Return what is known, for calibration.json."""
        return {name: item for name, item in self._asdict().items() if item is not None}


def calibrate(
    item: TaskRun, model: GraphModel, states: dict[str, dict[str, Tensor]]
) -> Calibration | None:
    """Fit the confidence of the honest weights on the split that chose them, and cool these.

    Args:
        states: by the way of choosing the epoch the weights; the honest ones are replaced.

    Returns:
        None: no single head chooses a label by a softmax, or there are too few examples.
    """
    heads = [name for name, head in model.heads.items() if type(head) is ClassificationHead]
    if len(heads) != 1:
        return None
    model.load_state_dict(states[HONEST])
    task, encoded = item.task, item.splits[item.task.select_split]
    predicted = predict(item.model, encoded, task.targets)
    assert predicted.score is not None, heads
    outside = item.splits.get(f"{task.select_split}{OUT_OF_SCOPE}")
    score = None if outside is None else predict(item.model, outside, task.targets).score
    found = fit_calibration(predicted.score, encoded.labels, score)
    if found is None:
        return None
    states[HONEST] = apply_temperature(states[HONEST], heads[0], found.temperature)
    is_silent = task.kind.is_grouped or (not found.right_kept and task.out_of_scope is None)
    if is_silent:  # a ranking has no answer to leave out
        found = found._replace(abstain_below=None)
    return found._replace(out_of_scope=task.out_of_scope)


def fit_calibration(
    probability_NL: NDArray[np.floating],
    target_N: NDArray[np.integer],
    outside_ML: NDArray[np.floating] | None = None,
) -> Calibration | None:
    """Fit a temperature and a threshold; None: there are too few examples.

    Args:
        target_N: ids of the right labels; -1: a label that training never saw, always wrong.
        outside_ML: probabilities for out-of-scope rows, which the threshold should reject.
    """
    if len(target_N) < FEW:
        log.warning("train calibration: %d examples held out, too few for it", len(target_N))
        return None
    is_known = target_N >= 0
    temperature = 1.0
    if is_known.sum() >= FEW:
        temperature = choose_temperature(probability_NL[is_known], target_N[is_known])
    right = probability_NL.argmax(1) == target_N
    confidence = _scale_confidence(probability_NL, temperature)
    outside = None if outside_ML is None else _scale_confidence(outside_ML, temperature)
    threshold = (
        choose_threshold(confidence, right)
        if outside is None
        else choose_scope_threshold(confidence, right, outside)
    )
    # as calibration.json has it; rounded up, it would reject the example that it is taken from
    threshold = math.floor(threshold * 10**PLACES) / 10**PLACES
    kept = confidence >= threshold
    return Calibration(
        temperature=temperature,
        error_before=compute_calibration_error(probability_NL.max(1), right),
        error=compute_calibration_error(confidence, right),
        abstain_below=threshold,
        right_kept=float(kept[right].mean()) if right.any() else 0.0,
        wrong_kept=float(kept[~right].mean()) if not right.all() else 0.0,
        examples=len(target_N),
        outside_examples=None if outside is None else len(outside),
        outside_below=None if outside is None else float((outside < threshold).mean()),
    )


def check_scope(plan: ModelPlan, task: Task, *, is_calibrated: bool) -> None:
    """Raise if no threshold can be fitted to reject out-of-scope rows; warn if there are none.

    Raises:
        ConfigError: the model's confidence is not fitted.
        DataError: too few rows are held out.
    """
    where = f"{plan.where}: data.out_of_scope"
    if not is_calibrated or [head.head for head in plan.heads.values()] != [ClassificationHead]:
        raise ConfigError(
            f"{where}: found a model whose confidence is not fitted, expected one head, "
            "`classification`, and training.calibration 'temperature'. Change these, or leave "
            "the label out."
        )
    size = len(task.read_split(task.select_split))
    if size < FEW:
        raise DataError(
            f"{where}: found {size} rows in scope held out, expected {FEW} at least, to fit the "
            "threshold; give more rows, or --dev."
        )
    if f"{task.select_split}{OUT_OF_SCOPE}" not in task.report_splits:
        log.warning(
            "%s: found no row with the label '%s' in the training and development data, so the "
            "threshold keeps %.0f %% of the right answers, whatever is out of scope",
            *(where, task.out_of_scope, 100 * KEPT),
        )


def _scale_confidence(
    probability_NL: NDArray[np.floating], temperature: float
) -> NDArray[np.floating]:
    """Return the confidence of each row at a temperature."""
    from scipy.special import softmax  # imported here: a third of a second that no cell needs

    found: NDArray[np.floating] = softmax(_list_logits(probability_NL) / temperature, axis=1).max(1)
    return found


def choose_temperature(
    probability_NL: NDArray[np.floating], target_N: NDArray[np.integer]
) -> float:
    """Return the temperature that fits best, or 1 unless it helps on other examples.

    In cross-validation the mean log loss must fall. The calibration error does not decide: on few
    examples it is mostly noise.
    """
    fold_N, gain = np.arange(len(target_N)) % NUM_FOLDS, 0.0
    for fold in range(NUM_FOLDS):
        is_out = fold_N == fold
        found = fit_temperature(probability_NL[~is_out], target_N[~is_out])
        before, after = (
            _list_losses(probability_NL[is_out], target_N[is_out], value) for value in (1.0, found)
        )
        gain += float((before - after).sum())
    return fit_temperature(probability_NL, target_N) if gain > 0 else 1.0


def _list_logits(probability_NL: NDArray[np.floating]) -> NDArray[np.floating]:
    found: NDArray[np.floating] = np.log(probability_NL.clip(min=LEAST_PROB)).clip(min=-100.0)
    return found


def _list_losses(
    probability_NL: NDArray[np.floating], target_N: NDArray[np.integer], temperature: float
) -> NDArray[np.floating]:
    from scipy.special import log_softmax

    log_prob_NL = log_softmax(_list_logits(probability_NL) / temperature, axis=1)
    found: NDArray[np.floating] = -log_prob_NL[np.arange(len(target_N)), target_N]
    return found


def fit_temperature(probability_NL: NDArray[np.floating], target_N: NDArray[np.integer]) -> float:
    """Return the temperature T that fits best: the least mean of -log softmax(log p / T)(y).

    The targets are smoothed by 1 / (N + 2), so that a model without an error on few examples does
    not become certain.

    Source: Guo et al. 2017 (calibration of modern neural networks), section 4.2; Platt 1999 for the
        smoothed targets.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits_NL = _list_logits(probability_NL)
    size, num_labels = logits_NL.shape
    smoothing = 1.0 / (size + 2.0)
    wanted_NL = np.full((size, num_labels), smoothing / num_labels)
    wanted_NL[np.arange(size), target_N] += 1.0 - smoothing

    def loss(log_temperature: float) -> float:
        log_prob_NL = log_softmax(logits_NL / np.exp(log_temperature), axis=1)
        return float(-(wanted_NL * log_prob_NL).sum() / size)

    bounds = float(np.log(COLDEST)), float(np.log(HOTTEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def choose_threshold(confidence_N: NDArray[np.floating], right_N: NDArray[np.bool_]) -> float:
    """Return the confidence that KEPT of the right answers have; without any, above all."""
    if not right_N.any():
        return 1.0
    return float(np.quantile(confidence_N[right_N], 1 - KEPT, method="lower"))


def choose_scope_threshold(
    inside_N: NDArray[np.floating], right_N: NDArray[np.bool_], outside_M: NDArray[np.floating]
) -> float:
    """Return the threshold that best separates in-scope from out-of-scope rows.

    It maximises the mean of the share of rows in scope that are answered right and the share of
    out-of-scope rows that are rejected, so that it does not depend on how many of them the file
    has. It is halfway between two neighbouring confidences; of equally good ones the least.

    Source: Hendrycks and Gimpel 2017 (the maximum softmax probability as the score); the measure is
        that of Larson et al. 2019 (CLINC150), with both sides weighed the same.
    """
    confidence = np.unique(np.concatenate([[0.0], inside_N, outside_M, [1.0]]))
    middle = (confidence[1:] + confidence[:-1]) / 2
    right, outside = np.sort(inside_N[right_N]), np.sort(outside_M)
    kept = (len(right) - np.searchsorted(right, middle)) / len(inside_N)
    turned_down = np.searchsorted(outside, middle) / len(outside)
    return float(middle[(kept + turned_down).argmax()])


def apply_temperature(state: dict[str, Tensor], head: str, temperature: float) -> dict[str, Tensor]:
    """Return the weights with the scores of a head divided by the temperature."""
    names = [f"heads.{head}.layers.out.{part}" for part in ("weight", "bias")]
    return {name: item / temperature if name in names else item for name, item in state.items()}
