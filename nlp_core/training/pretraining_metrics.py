"""What is measured of an encoder that is pretrained: masked pieces, pairs and replaced pieces."""

from typing import Any, NamedTuple

import numpy as np
import torch

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.corpus import CorpusTask
from nlp_core.kinds import CLASSIFICATION, LABEL, MASKED_LANGUAGE_MODEL, PAIR_CLASSIFICATION
from nlp_core.metrics import Predictions, measure
from nlp_core.models.masked_split import MaskedSplit
from nlp_core.models.pretraining import ANSWERS, PretrainingModel
from nlp_core.models.replacement import TAG_NAMES, ReplacedPieces
from nlp_core.prediction.split_prediction import EVALUATION_BATCH, describe_predictions, predict
from nlp_core.statistics import list_terms


class TextScores(NamedTuple):
    """What is measured of a text.

    Attributes:
        metrics: by name.
        answers: of a metric that sums over answers, these, and the window of each.
    """

    metrics: dict[str, float]
    answers: dict[str, tuple[Predictions, np.ndarray]]


def measure_text(task: CorpusTask, model: PretrainingModel, split: MaskedSplit) -> TextScores:
    found = describe_predictions(task, predict(model.pieces, split, task.targets))
    metrics = measure(task.kind.name, task.metrics, found)
    windows = np.arange(len(split.text))
    answers = dict.fromkeys(task.metrics, (found, windows))
    if split.has_pairs:
        assert model.pairs is not None, task.name
        pairs = predict(model.pairs, split, {LABEL: ANSWERS})
        right = [ANSWERS[answer] for answer in split.text.answers]
        answered = Predictions(ANSWERS, right, pairs.prediction, pairs.score)
        kind = PAIR_CLASSIFICATION.name
        metrics["pair_accuracy"] = measure(kind, ["accuracy"], answered)["accuracy"]
    if isinstance(model.model, ReplacedPieces):
        detection = _measure_detection(model.model, split)
        metrics |= detection.metrics
        answers |= detection.answers
    return TextScores(metrics, answers)


def sum_documents(measured: TextScores, split: MaskedSplit) -> dict[str, Any]:  # Any: JSON
    """Return the documents that have measured windows, and by metric what each adds, [D, K]."""
    documents_D, document_W = np.unique(split.text.documents, return_inverse=True)
    found = {}
    for metric, (predictions, windows) in measured.answers.items():
        kind = MASKED_LANGUAGE_MODEL.name
        terms_DK = list_terms(kind, metric, predictions, document_W[windows])
        assert terms_DK is not None, metric
        found[metric] = terms_DK.tolist()
    return {"documents": documents_D.tolist(), "sums": found}


@torch.no_grad()
def _measure_detection(model: ReplacedPieces, split: MaskedSplit) -> TextScores:
    """Return how well replaced pieces are found, and the accuracy of finding none."""
    model.eval()
    lengths = split.lengths
    batches = [*order_evaluation_batches(lengths, batch_size=EVALUATION_BATCH)]
    found = [model.detect(split.batch(rows).to(model.device)) for rows in batches]
    score = torch.cat([item for _, item in found]).cpu().numpy()
    right = [TAG_NAMES[tag] for tags, _ in found for tag in tags.tolist()]
    predicted = [TAG_NAMES[idx] for idx in score.argmax(1)]
    detected = Predictions(TAG_NAMES, right, predicted, score)
    metrics = measure(CLASSIFICATION.name, ["accuracy", "f1", "auc"], detected)
    metrics = {f"detection_{name}": value for name, value in metrics.items()}
    metrics["original"] = 100 * right.count(TAG_NAMES[0]) / len(right)
    none = Predictions(TAG_NAMES, right, [TAG_NAMES[0]] * len(right))
    windows = np.concatenate([np.repeat(rows, lengths[rows]) for rows in batches])
    answers = {name: (detected, windows) for name in metrics if name != "original"}
    return TextScores(metrics, answers | {"original": (none, windows)})
