"""What a model says of a split: for the choice of the epoch, and as a file for evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.task import Split, Task
from nlp_core.files import replacing
from nlp_core.metrics import Predictions, measure
from nlp_core.models.features import EncodedSplit
from nlp_core.models.graph import GraphModel

EVALUATION_BATCH = 128


@dataclass(frozen=True)
class SplitPredictions:
    """The predictions of a split, in the order of its examples.

    Attributes:
        split: the examples.
        prediction: a label, a value, tags or several labels for each.
        score: probability of each label, [N, L]; None where the head gives none.
    """

    split: Split
    prediction: list[Any]
    score: np.ndarray | None


@torch.no_grad()
def predict(model: GraphModel, encoded: EncodedSplit, labels: list[str]) -> SplitPredictions:
    """Predict a split with the model's one head, padding included in nothing."""
    model.eval()
    predictions: list[Any] = [None] * len(encoded.split)
    score = np.zeros((len(encoded.split), len(labels)), dtype=np.float64)
    scored = False
    for rows in order_evaluation_batches(encoded.lengths, batch_size=EVALUATION_BATCH):
        batch = encoded.batch(rows)
        (decoded,) = model.decode(batch).values()
        mask = next(iter(batch.masks.values()))
        if decoded.probability is not None and decoded.probability.ndim == 2:
            scored = True
            score[rows] = decoded.probability.double().numpy()
        for row, value, length in zip(
            rows, decoded.prediction.tolist(), mask.sum(1).tolist(), strict=True
        ):
            predictions[row] = _name(value, labels, length)
    return SplitPredictions(encoded.split, predictions, score if scored else None)


def score_predictions(task: Task, predictions: SplitPredictions) -> dict[str, float]:
    """Measure the task's metrics, in points."""
    return measure(
        task.kind,
        task.metrics,
        Predictions(
            labels=task.labels,
            target=predictions.split.target,
            prediction=predictions.prediction,
            score=predictions.score,
            group=predictions.split.group,
            scheme=task.scheme,
        ),
    )


def write_predictions(
    path: Path, task: Task, by_selection: Mapping[str, list[SplitPredictions]]
) -> None:
    """Write the predictions of each way of choosing the epoch as one parquet file."""
    several = pa.list_(pa.string())
    answer = {"tagging": several, "multi_label": several, "regression": pa.float64()}.get(
        task.kind.removeprefix("pair_"), pa.string()
    )
    tables = []
    for selection, splits in by_selection.items():
        for item in splits:
            size = len(item.split)
            columns: dict[str, pa.Array] = {
                "split": pa.array([item.split.name] * size, pa.string()),
                "selection": pa.array([selection] * size, pa.string()),
                "id": pa.array(item.split.ids, pa.int64()),
                "target": pa.array(item.split.target, answer),
                "prediction": pa.array(item.prediction, answer),
            }
            if item.split.group is not None:
                columns["group"] = pa.array(item.split.group, pa.int64())
            if item.score is not None:
                columns["score"] = pa.array(list(item.score), pa.list_(pa.float64()))
            tables.append(pa.table(columns))
    with replacing(path) as temporary:
        pq.write_table(pa.concat_tables(tables), temporary, compression="zstd")


def _name(value: Any, labels: list[str], length: int) -> Any:  # Any: id, value, ids, choices
    if isinstance(value, list) and isinstance(value[0], bool):
        return [label for label, chosen in zip(labels, value, strict=True) if chosen]
    if isinstance(value, list):
        return [labels[idx] for idx in value[:length]]
    return labels[value] if labels else float(value)
