"""What is measured of an encoder that is pretrained: masked pieces, pairs and replaced pieces."""

import torch

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.corpus import CorpusTask
from nlp_core.kinds import CLASSIFICATION, LABEL, PAIR_CLASSIFICATION
from nlp_core.metrics import Predictions, measure
from nlp_core.models.masked_split import MaskedSplit
from nlp_core.models.pretraining import ANSWERS, PretrainingModel
from nlp_core.models.replacement import TAG_NAMES, ReplacedPieces
from nlp_core.prediction.split_prediction import EVALUATION_BATCH, predict, score_predictions


def measure_text(task: CorpusTask, model: PretrainingModel, split: MaskedSplit) -> dict[str, float]:
    metrics = score_predictions(task, predict(model.pieces, split, task.targets))
    if split.has_pairs:
        assert model.pairs is not None, task.name
        found = predict(model.pairs, split, {LABEL: ANSWERS})
        right = [ANSWERS[answer] for answer in split.text.answers]
        pairs = Predictions(ANSWERS, right, found.prediction, found.score)
        kind = PAIR_CLASSIFICATION.name
        metrics["pair_accuracy"] = measure(kind, ["accuracy"], pairs)["accuracy"]
    if isinstance(model.model, ReplacedPieces):
        metrics |= _measure_detection(model.model, split)
    return metrics


@torch.no_grad()
def _measure_detection(model: ReplacedPieces, split: MaskedSplit) -> dict[str, float]:
    """Return how well replaced pieces are found, and the accuracy of finding none."""
    model.eval()
    batches = order_evaluation_batches(split.lengths, batch_size=EVALUATION_BATCH)
    found = [model.detect(split.batch(rows).to(model.device)) for rows in batches]
    score = torch.cat([item for _, item in found]).cpu().numpy()
    right = [TAG_NAMES[tag] for tags, _ in found for tag in tags.tolist()]
    predicted = [TAG_NAMES[idx] for idx in score.argmax(1)]
    detected = Predictions(TAG_NAMES, right, predicted, score)
    metrics = measure(CLASSIFICATION.name, ["accuracy", "f1", "auc"], detected)
    none = 100 * right.count(TAG_NAMES[0]) / len(right)
    return {f"detection_{name}": value for name, value in metrics.items()} | {"original": none}
