"""Compare the predictions of an exported model with the trained one's."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nlp_core.data.task import Split
from nlp_core.errors import ExportError
from nlp_core.export.answer import (
    Answers,
    ModelAnswer,
    ask_trained,
    join_predictions,
    read_predictions,
)
from nlp_core.export.real_examples import list_examples
from nlp_core.metrics import is_lower_better
from nlp_core.models.batch import EncodedSplit
from nlp_core.prediction.split_prediction import score_predictions
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import Bundle

NUM_EXAMPLES = 500
NUM_ALONE = 4
"""Shortest examples that are predicted again without padding."""
MAX_DIFFERENCE = 1e-4
"""Of scores; relative above 1, since above 1024 even the next 32-bit number is further."""
EXACT = ("float32", "program")
"""Variants that predict the same as the trained model; the others are measured."""


class Parity(NamedTuple):
    """How two models compare.

    Attributes:
        examples: number of real examples compared.
        same_labels: of these, those with equal labels.
        max_difference: largest difference between two scores; relative if the trained model's is
            above 1.
        metric: the task's first metric; None if none was measured.
        trained: the trained model's metric, in points or in the metric's units.
        exported: the exported one's.
    """

    examples: int
    same_labels: int
    max_difference: float
    metric: str | None = None
    trained: float | None = None
    exported: float | None = None

    def describe(self) -> dict[str, Any]:
        """Return the content of parity.json; a difference is rounded up to 1e-6."""
        note = self._asdict()
        note["max_difference"] = float(np.ceil(self.max_difference * 1e6) / 1e6)
        return {key: value for key, value in note.items() if value is not None}


def compare(
    trained: TrainedModel, examples: Split, bundle: Bundle, max_drop: float | None
) -> Parity:
    """Compare an exported model with the trained one on real examples.

    `max_drop`: by how much the task's first metric over all examples may be worse, in its units;
    None demands equal predictions.

    Raises:
        ExportError: it predicts something else, or is worse by more than that.
    """
    size = len(examples)
    rows = np.arange(size)
    if max_drop is None and size > NUM_EXAMPLES:
        rows = np.sort(np.random.default_rng(0).choice(size, NUM_EXAMPLES, replace=False))
    encoded = trained.featurizer.encode(examples)
    right = ask_trained(trained, encoded, rows)
    found = _ask_bundle(trained, examples, bundle, rows)
    parity = _count(right, found)
    if max_drop is None:
        _check_same(trained.name, parity)
        _check_alone(trained, encoded, bundle, dict(zip(rows.tolist(), right, strict=True)))
        return parity
    metric = trained.task.metrics[0]
    both = [_measure(trained, examples, answers, metric) for answers in (right, found)]
    parity = parity._replace(metric=metric, trained=both[0], exported=both[1])
    drop = both[1] - both[0] if is_lower_better(metric) else both[0] - both[1]
    if not drop <= max_drop:  # a nan is no better than a large one
        raise ExportError(
            f"{trained.name}: {bundle.manifest.variant}: found {metric} {both[1]:.2f} over {size} "
            f"examples, {drop:.2f} worse than the trained model's {both[0]:.2f}, "
            f"expected at most {max_drop:g}; no bundle was written. Export float32, or allow more "
            "with --max-drop (max_drop in params.yaml)."
        )
    return parity


def _ask_bundle(
    trained: TrainedModel, examples: Split, bundle: Bundle, rows: np.ndarray
) -> list[Answers]:
    predictions = bundle.predict(list_examples(trained, examples, rows))
    return read_predictions(predictions, trained.featurizer.targets)


def _check_alone(
    trained: TrainedModel, encoded: EncodedSplit, bundle: Bundle, right: Mapping[int, Answers]
) -> None:
    """Predict the shortest examples one by one: a batch hides sizes that only they have."""
    shortest = sorted(right, key=lambda row: (int(encoded.lengths[row]), row))[:NUM_ALONE]
    split = encoded.split
    found = [_ask_bundle(trained, split, bundle, np.array([row]))[0] for row in shortest]
    _check_same(trained.name, _count([right[row] for row in shortest], found))


def _measure(
    trained: TrainedModel, examples: Split, answers: Sequence[Answers], metric: str
) -> float:
    joined = join_predictions(examples, answers, trained.featurizer.targets)
    return score_predictions(trained.task, joined)[metric]


def _count(right: Sequence[Answers], found: Sequence[Answers]) -> Parity:
    same, largest = 0, 0.0
    for one, other in zip(right, found, strict=True):
        is_same = all(_says_same(one[target], other[target]) for target in one)
        same += is_same
        for target in one if is_same else ():
            scores = one[target].scores
            gap = np.abs(scores - other[target].scores) / np.maximum(1.0, np.abs(scores))
            largest = max(largest, float(gap.max(initial=0.0)))
    return Parity(len(right), same, largest)


def _says_same(one: ModelAnswer, other: ModelAnswer) -> bool:
    # max would skip a nan
    is_finite = np.isfinite(one.scores).all() and np.isfinite(other.scores).all()
    return bool(one.value == other.value and is_finite)


def _check_same(name: str, parity: Parity) -> None:
    if parity.same_labels < parity.examples or parity.max_difference > MAX_DIFFERENCE:
        raise ExportError(
            f"{name}: the exported model predicts the same for {parity.same_labels} of "
            f"{parity.examples} examples, with scores that differ by up to "
            f"{parity.max_difference:.2g}, expected all and at most {MAX_DIFFERENCE:g}; no bundle "
            "was written. This is a bug of the export: please report it with the model file."
        )
