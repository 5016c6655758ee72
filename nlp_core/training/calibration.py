"""Confidence that one may believe: a temperature, and a threshold for answering at all.

Both are fitted on examples that were held out, after training. The temperature divides the weights
of a head's last linear map, so that everything that reads the model has calibrated probabilities.

Shape letters: N examples, L labels.
"""

import logging
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nlp_core.heads.sentence import ClassificationHead
from nlp_core.metrics.classification import compute_calibration_error
from nlp_core.models.graph import GraphModel

log = logging.getLogger(__name__)

COLDEST, HOTTEST = 0.1, 10.0
LEAST_PROB = 1e-300
FEW = 10
"""Fewer examples fit no temperature."""
KEPT = 0.95
"""Share of the right answers that the threshold keeps."""


class Calibration(NamedTuple):
    """How the confidence of a model was fitted.

    Attributes:
        temperature: what the scores were divided by.
        error_before, error: expected calibration error on the held-out examples, from 0 to 1.
        abstain_below: the least confidence of an answer that `--abstain-below auto` gives.
        right_kept, wrong_kept: shares of the right and of the wrong answers that it keeps.
        examples: held out.
    """

    temperature: float
    error_before: float
    error: float
    abstain_below: float
    right_kept: float
    wrong_kept: float
    examples: int


def fit_calibration(
    probability_NL: NDArray[np.floating], target_N: NDArray[np.integer]
) -> Calibration | None:
    """Fit a temperature and a threshold; None: there are too few examples."""
    if len(target_N) < FEW:
        log.warning("train calibration: %d examples held out, too few for it", len(target_N))
        return None
    temperature = fit_temperature(probability_NL, target_N)
    from scipy.special import softmax  # imported here: a third of a second that no cell needs

    logits_NL = np.log(probability_NL.clip(min=LEAST_PROB))
    found_NL = softmax(logits_NL / temperature, axis=1)
    right = probability_NL.argmax(1) == target_N
    confidence = found_NL.max(1)
    threshold = choose_threshold(confidence, right)
    kept = confidence >= threshold
    return Calibration(
        temperature=temperature,
        error_before=compute_calibration_error(probability_NL.max(1), right),
        error=compute_calibration_error(confidence, right),
        abstain_below=threshold,
        right_kept=float(kept[right].mean()) if right.any() else 0.0,
        wrong_kept=float(kept[~right].mean()) if not right.all() else 0.0,
        examples=len(target_N),
    )


def fit_temperature(probability_NL: NDArray[np.floating], target_N: NDArray[np.integer]) -> float:
    """Return the temperature T that fits best: the least mean of -log softmax(log p / T)(y).

    The targets are smoothed by 1 / (N + 2), so that a model without an error on few examples does
    not become certain.

    Source: Guo et al. 2017 (calibration of modern neural networks), section 4.2; Platt 1999 for the
        smoothed targets.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits_NL = np.log(probability_NL.clip(min=LEAST_PROB)).clip(min=-100.0)
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


def find_head(model: GraphModel) -> tuple[str, ClassificationHead] | None:
    """Return the one head that chooses a label by a softmax; None: there is none."""
    found = [(name, head) for name, head in model.heads.items() if type(head) is ClassificationHead]
    return found[0] if len(found) == 1 else None


def cool_weights(state: dict[str, Tensor], head: str, temperature: float) -> dict[str, Tensor]:
    """Return the weights with the scores of a head divided by the temperature."""
    names = [f"heads.{head}.layers.out.{part}" for part in ("weight", "bias")]
    return {name: item / temperature if name in names else item for name, item in state.items()}
