"""Compare the predictions of an exported model with the trained one's.

Shape letters: B batch, T tokens, L labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.task import Split
from nlp_core.errors import ExportError
from nlp_core.export.real_examples import list_examples
from nlp_core.kinds import ANSWERS, LABEL, LABELS, OUTPUT, TAGS, TREE
from nlp_core.metrics import find_direction
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.graph import HeadScores
from nlp_core.prediction.prediction import Prediction, name_answers
from nlp_core.prediction.split_prediction import (
    SplitPredictions,
    map_batches,
    predict,
    score_predictions,
)
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.progress import show_progress
from reglue_runtime import Bundle

NUM_EXAMPLES = 500
NUM_ALONE = 4
"""Shortest examples that are predicted again without padding."""
MAX_DIFFERENCE = 1e-4
"""Of scores; relative above 1, since above 1024 even the next 32-bit number is further."""
EXACT = ("float32", "program")
"""Variants that predict the same as the trained model; the others are measured."""


class ModelAnswer(NamedTuple):
    """The prediction of one target of an example.

    `value`: the label, the labels, the tags, the text; None for a number. `scores`: probability of
    each label, of each token's tag, or of the answer; the number.
    """

    value: Any
    scores: np.ndarray


CONFIDENT = {TAGS: "tags", ANSWERS: "answer", OUTPUT: "text", TREE: "tree"}
"""The key of the predictions whose confidence is compared, by target."""
Answers = dict[str, ModelAnswer]
"""By target."""


def ask_trained(trained: TrainedModel, encoded: EncodedSplit, rows: np.ndarray) -> list[Answers]:
    model = trained.model.eval()
    with show_progress("trained model", len(rows)) as bar:
        return map_batches(
            encoded,
            lambda batch: name_scores(trained, model(batch), encoded, batch.rows),
            rows,
            bar.advance,
        )


def name_scores(
    trained: TrainedModel,
    scores: Mapping[str, HeadScores],
    encoded: EncodedSplit,
    rows: np.ndarray,
) -> list[Answers]:
    found = name_answers(trained.model, scores, encoded, rows, trained.featurizer.targets)
    named = [[_strip(item, target) for item in items] for target, items in found.items()]
    return [dict(zip(found, row, strict=True)) for row in zip(*named, strict=True)]


def _strip(item: Prediction, target: str) -> ModelAnswer:
    if item.probability is None:
        return ModelAnswer(None, np.array([item.prediction]))
    scores = item.confidence if target in CONFIDENT else item.probability
    return ModelAnswer(item.prediction, np.atleast_1d(np.asarray(scores)))


def read_predictions(
    predictions: Sequence[Mapping[str, Any]], targets: Mapping[str, list[str]]
) -> list[Answers]:
    first, *others = targets
    found = []
    for item in predictions:
        answers = {first: _read(item, first)}
        answers |= {name: _read(item["slots"], name) for name in others}
        found.append(answers)
    return found


def _read(item: Mapping[str, Any], target: str) -> ModelAnswer:
    if target in CONFIDENT:
        return ModelAnswer(item[CONFIDENT[target]], np.atleast_1d(item["confidence"]))
    scores = list(item["scores"].values()) if "scores" in item else [item["score"]]
    return ModelAnswer(item.get("labels" if target == LABELS else "label"), np.array(scores))


def join_predictions(
    split: Split, answers: Sequence[Answers], targets: Mapping[str, list[str]]
) -> SplitPredictions:
    """Return answers to all examples of a split in the form that metrics read."""
    values = {
        name: [
            float(item[name].scores[0]) if item[name].value is None else item[name].value
            for item in answers
        ]
        for name in targets
    }
    first, score = next(iter(targets)), None
    if first in (LABEL, LABELS) and targets[first]:
        score = np.stack([item[first].scores for item in answers]).astype(np.float64)
    return SplitPredictions(split, values, score)


class Parity(NamedTuple):
    """How two models compare.

    Attributes:
        examples: number of examples compared; `same_labels` of them have equal labels.
        max_difference: largest difference between two scores; relative if the trained model's is
            above 1.
        metric: the task's first metric, with its value for both models; None if not measured.
        predictions: of both models on all examples; None if not measured.
    """

    examples: int
    same_labels: int
    max_difference: float
    metric: str | None = None
    trained: float | None = None
    exported: float | None = None
    predictions: tuple[SplitPredictions, SplitPredictions] | None = None

    def describe(self) -> dict[str, Any]:
        """Return the content of parity.json; a difference is rounded up to 1e-6."""
        note = self._replace(predictions=None)._asdict()
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
    rows = choose_rows(size, max_drop)
    encoded = trained.featurizer.encode(examples)
    right = ask_trained(trained, encoded, rows)
    found = _ask_bundle(trained, examples, bundle, rows)
    parity = _count(right, found)
    if max_drop is None:
        _check_same(trained.name, parity)
        _check_alone(trained, encoded, bundle, dict(zip(rows.tolist(), right, strict=True)))
        return parity
    metric = trained.task.metrics[0]
    targets = trained.featurizer.targets
    joined = (
        join_predictions(examples, right, targets),
        join_predictions(examples, found, targets),
    )
    both = [score_predictions(trained.task, item)[metric] for item in joined]
    parity = parity._replace(metric=metric, trained=both[0], exported=both[1], predictions=joined)
    drop = find_direction(metric) * (both[0] - both[1])
    if not drop <= max_drop:  # a nan is as bad as a large one
        raise ExportError(
            f"{trained.name}: {bundle.manifest.variant}: found {metric} {both[1]:.2f} over {size} "
            f"examples, {drop:.2f} worse than the trained model's {both[0]:.2f}, "
            f"expected at most {max_drop:g}; no bundle was written. Export float32, or allow more "
            "with --max-drop (max_drop in params.yaml)."
        )
    return parity


def choose_rows(size: int, max_drop: float | None) -> NDArray[np.int64]:
    """Return the rows that two models are compared on: some, or all for a metric."""
    if max_drop is None and size > NUM_EXAMPLES:
        return np.sort(np.random.default_rng(0).choice(size, NUM_EXAMPLES, replace=False))
    return np.arange(size)


def _ask_bundle(
    trained: TrainedModel, examples: Split, bundle: Bundle, rows: np.ndarray
) -> list[Answers]:
    with show_progress("exported model", len(rows)) as bar:
        given = list_examples(trained, examples, rows)
        every = None if bundle.out_of_scope is None else 0.0  # the labels that the model chose
        predictions = bundle.predict(given, advance=bar.advance, abstain_below=every)
    return read_predictions(predictions, trained.featurizer.targets)


def _check_alone(
    trained: TrainedModel, encoded: EncodedSplit, bundle: Bundle, right: Mapping[int, Answers]
) -> None:
    """Predict the shortest examples one by one: a batch hides the sizes of its shortest texts."""
    shortest = sorted(right, key=lambda row: (int(encoded.lengths[row]), row))[:NUM_ALONE]
    split = encoded.split
    found = [_ask_bundle(trained, split, bundle, np.array([row]))[0] for row in shortest]
    _check_same(trained.name, _count([right[row] for row in shortest], found))


def measure_trained(trained: TrainedModel, examples: Split) -> dict[str, float]:
    """Return the trained model's metrics on all examples."""
    encoded = trained.featurizer.encode(examples)
    with show_progress("scores", len(examples)) as bar:
        predictions = predict(trained.model, encoded, trained.featurizer.targets, bar.advance)
    return score_predictions(trained.task, predictions)


def _count(right: Sequence[Answers], found: Sequence[Answers]) -> Parity:
    same, largest = 0, 0.0
    for one, other in zip(right, found, strict=True):
        # max would skip a nan
        is_same = all(
            one[target].value == other[target].value
            and np.isfinite(one[target].scores).all()
            and np.isfinite(other[target].scores).all()
            for target in one
        )
        same += is_same
        for target in one if is_same else ():
            scores = one[target].scores
            gap = np.abs(scores - other[target].scores) / np.maximum(1.0, np.abs(scores))
            largest = max(largest, float(gap.max(initial=0.0)))
    return Parity(len(right), same, largest)


def _check_same(name: str, parity: Parity) -> None:
    if parity.same_labels < parity.examples or parity.max_difference > MAX_DIFFERENCE:
        raise ExportError(
            f"{name}: the exported model predicts the same for {parity.same_labels} of "
            f"{parity.examples} examples, with scores that differ by up to "
            f"{parity.max_difference:.2g}, expected all and at most {MAX_DIFFERENCE:g}; no bundle "
            "was written. This is a bug of the export: please report it with the model file."
        )
