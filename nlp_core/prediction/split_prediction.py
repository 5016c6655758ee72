"""The predictions of a split: to choose the epoch, as a file for evaluation, or to teach."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.columns import TYPES
from nlp_core.data.scope import OUT_OF_SCOPE
from nlp_core.data.task import Split, Task, join_answers
from nlp_core.files import name_local, replacing
from nlp_core.heads.span import SpanHead
from nlp_core.kinds import ANSWERS, LABEL, TAGS, Kind
from nlp_core.metrics import Predictions, measure
from nlp_core.metrics.span import compare_words, score_answer
from nlp_core.models.batch import WRITTEN, Batch, EncodedSplit, find_label
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.masked_split import encode_split
from nlp_core.models.retrieval_split import RetrievalSplit, encode_retrieval
from nlp_core.prediction.search import rank_passages

EVALUATION_BATCH = 128
Advance: TypeAlias = Callable[[float], None]
Value = TypeVar("Value")


@dataclass(frozen=True)
class SplitPredictions:
    """The predictions of a split, in the order of its examples.

    Attributes:
        answers: by target a label, a value, tags, several labels, a text, a rank or symbols of a
            tree for each.
        score: probability of each label, [N, L], or of an answer and of none, or of a tree or text.
    """

    split: Split
    answers: dict[str, list[Any]]
    score: np.ndarray | None

    @property
    def prediction(self) -> list[Any]:
        """The answer for each example, in the form of the split's `target`."""
        return join_answers(self.answers)


def encode_splits(featurizer: Featurizer, task: Task, train: Split) -> dict[str, EncodedSplit]:
    """Turn what training reads of a task into arrays: `train`, and the splits that it predicts."""
    names = dict.fromkeys((task.select_split, *task.report_splits))
    read = {"train": train, **{name: task.read_split(name) for name in names}}
    if task.kind.is_searched:
        return {**encode_retrieval(featurizer, read, shared=task.searched != "split")}
    return {name: encode_split(featurizer, split) for name, split in read.items()}


def encode_alone(featurizer: Featurizer, split: Split, kind: Kind) -> EncodedSplit:
    """Turn a split into arrays; its queries, if any, are searched in its own passages."""
    if not kind.is_searched:
        return featurizer.encode(split)
    return encode_retrieval(featurizer, {split.name: split}, shared=False)[split.name]


def ignore(number: float) -> None:
    """Accept the number of predicted examples and show nothing."""


@torch.no_grad()
def map_batches(
    encoded: EncodedSplit,
    compute: Callable[[Batch], Iterable[Value]],
    rows: NDArray[np.int64] | None = None,
    advance: Advance = ignore,
) -> list[Value]:
    """Return what is computed for each row, in batches of like lengths.

    Args:
        compute: returns an item for each example of a batch.
        rows: None: all of the split.
        advance: called after each batch with its number of examples.
    """
    rows = np.arange(len(encoded.split)) if rows is None else rows
    found: dict[int, Value] = {}
    for places in order_evaluation_batches(encoded.lengths[rows], batch_size=EVALUATION_BATCH):
        found |= zip(places.tolist(), compute(encoded.batch(rows[places])), strict=True)
        advance(len(places))
    return [found[place] for place in range(len(rows))]


@torch.no_grad()
def predict(
    model: GraphModel,
    encoded: EncodedSplit,
    targets: Mapping[str, list[str]],
    advance: Advance = ignore,
) -> SplitPredictions:
    """Predict a split.

    Args:
        targets: by column (label, tags) all labels that can be predicted.
        advance: called after each batch with its number of examples.
    """
    model.eval()
    if isinstance(encoded, RetrievalSplit):
        return SplitPredictions(encoded.split, {LABEL: rank_passages(model, encoded)}, None)
    size = len(encoded.split)
    answers: dict[str, list[Any]] = {target: [None] * size for target in targets}
    score: np.ndarray | None = None
    for rows in order_evaluation_batches(encoded.lengths, batch_size=EVALUATION_BATCH):
        batch = encoded.batch(rows).to(model.device)
        for name, decoded in model.decode(batch).items():
            mask = model.find_mask(name, batch)
            lengths = [0] * len(rows) if mask is None else mask.sum(1).tolist()
            target = model.plan.heads[name].head.target
            if decoded.probability is not None and decoded.probability.ndim == 2:
                if score is None:
                    score = np.zeros((size, decoded.probability.shape[1]), dtype=np.float64)
                score[rows] = decoded.probability.double().cpu().numpy()
            found = zip(rows, decoded.prediction.tolist(), lengths, strict=True)
            for row, value, length in found:
                labels = targets[target]
                answers[target][row] = (
                    encoded.write_answer(target, row, value, labels)
                    if target in WRITTEN
                    else _name(value, labels, length)
                )
        advance(len(rows))
    return SplitPredictions(encoded.split, answers, score)


def score_predictions(task: Task, predictions: SplitPredictions) -> dict[str, float]:
    return measure(task.kind.name, task.metrics, describe_predictions(task, predictions))


def measure_splits(
    task: Task, predicted: Sequence[SplitPredictions], least: float | None
) -> dict[str, dict[str, float]]:
    """Return the metrics of each split; rows out of scope count only for the one they are of.

    Args:
        least: the confidence below which a row is rejected, see `measure_scope`; None: none is.
    """
    by_name = {item.split.name: item for item in predicted}
    found = {}
    for name, item in by_name.items():
        if not name.endswith(OUT_OF_SCOPE):
            found[name] = score_predictions(task, item)
            if least is not None:
                found[name] |= measure_scope(item, by_name.get(name + OUT_OF_SCOPE), least)
    return found


def measure_scope(
    inside: SplitPredictions, outside: SplitPredictions | None, least: float
) -> dict[str, float]:
    """Return, in points, the metrics of a threshold on in-scope and out-of-scope rows.

    A row is rejected if its confidence is below `least`. An in-scope row is right if its label is
    right and it is not rejected. Without out-of-scope rows there is no recall and no precision.
    """
    assert inside.score is not None, inside.split.name
    is_kept = inside.score.max(1) >= least
    is_right = np.array([*map(operator.eq, inside.prediction, inside.split.target)])
    scores = {"in_scope_accuracy": float((is_kept & is_right).mean())}
    if outside is not None:
        assert outside.score is not None, outside.split.name
        turned_down = int((outside.score.max(1) < least).sum())
        scores["out_of_scope_recall"] = turned_down / len(outside.score)
        scores["out_of_scope_precision"] = turned_down / max(turned_down + int((~is_kept).sum()), 1)
    return {name: 100 * score for name, score in scores.items()}


def describe_predictions(task: Task, predictions: SplitPredictions) -> Predictions:
    return Predictions(
        labels=task.labels,
        target=predictions.split.target,
        prediction=predictions.prediction,
        score=predictions.score,
        group=predictions.split.group,
        scheme=task.scheme,
    )


def write_predictions(
    path: Path, task: Task, by_selection: Mapping[str, list[SplitPredictions]]
) -> None:
    """Write the predictions of each way of choosing the epoch as one parquet file."""
    answer, right = (
        # what `join_answers` makes
        pa.struct([*types.items()]) if len(types) > 1 else types.popitem()[1]
        for types in (
            {item.name: TYPES[item.answer] for item in task.kind.targets},
            {item.name: TYPES[item.right] for item in task.kind.targets},
        )
    )
    tables = []
    for selection, splits in by_selection.items():
        for item in splits:
            size = len(item.split)
            columns: dict[str, pa.Array] = {
                "split": pa.array([item.split.name] * size, pa.string()),
                "selection": pa.array([selection] * size, pa.string()),
                "id": pa.array(item.split.ids, pa.int64()),
                "target": pa.array(item.split.target, right),
                "prediction": pa.array(item.prediction, answer),
            }
            if item.split.group is not None:
                columns["group"] = pa.array(item.split.group, pa.int64())
            if item.score is not None:
                columns["score"] = pa.array(list(item.score), pa.list_(pa.float64()))
            tables.append(pa.table(columns))
    with replacing(path) as temporary:
        pq.write_table(pa.concat_tables(tables), name_local(temporary), compression="zstd")


def _name(value: Any, labels: list[str], length: int) -> Any:  # Any: id, value, ids, choices
    if isinstance(value, list) and isinstance(value[0], bool):
        return [label for label, chosen in zip(labels, value, strict=True) if chosen]
    if isinstance(value, list):
        return [labels[idx] for idx in value[:length]]
    return find_label(labels, value) if labels else float(value)


def predict_with_best_threshold(
    model: GraphModel, encoded: EncodedSplit, targets: Mapping[str, list[str]]
) -> SplitPredictions:
    """Predict a split as `predict` does, with the threshold for no answer that serves it best.

    A head that can leave a question unanswered keeps the threshold.
    """
    heads = [head for head in model.heads.values() if isinstance(head, SpanHead) and head.has_none]
    if not heads:
        return predict(model, encoded, targets)
    (head,) = heads
    head.threshold.fill_(torch.inf)
    found = predict(model, encoded, targets)
    assert found.score is not None
    with np.errstate(divide="ignore"):
        none_odds = np.log(found.score[:, 1]) - np.log(found.score[:, 0])
    gains = [
        score_answer(compare_words, right, text) - score_answer(compare_words, right, "")
        for right, text in zip(encoded.split.target, found.answers[ANSWERS], strict=True)
    ]
    head.threshold.fill_(find_threshold(none_odds, np.array(gains)))
    silent = none_odds > float(head.threshold)
    texts = zip(found.answers[ANSWERS], silent, strict=True)
    answers = ["" if is_silent else text for text, is_silent in texts]
    return replace(found, answers={**found.answers, ANSWERS: answers})


def find_threshold(none_odds: NDArray[np.float64], gains: NDArray[np.float64]) -> float:
    """Return the threshold t at which the answers with odds of at most t gain most in all.

    It is halfway between two neighbouring odds, or 1 beyond the last one where it is best to answer
    always or never. Of equally good thresholds, the smallest.

    Args:
        none_odds: log p(none) - log p(answer) of each question, [N].
        gains: what answering gains over leaving the question unanswered, [N].
    """
    order = np.argsort(none_odds, kind="stable")
    odds = none_odds[order]
    total = np.concatenate([[0.0], np.cumsum(gains[order])])
    # between equal odds there is no place for a threshold
    total[1:-1][odds[1:] == odds[:-1]] = -np.inf
    best = int(total.argmax())
    if best == 0:
        return float(odds[0]) - 1.0
    if best == len(odds):
        return float(odds[-1]) + 1.0
    return float(odds[best - 1] + odds[best]) / 2


@torch.no_grad()
def score_split(
    model: GraphModel,
    encoded: EncodedSplit,
    begins: Sequence[int] = (0,),
    *,
    precision: str | None = None,
    rank: int = 0,
    count: int = 1,
) -> dict[str, list[np.ndarray]]:
    """Return by target each example's soft scores: [L], [T, L] of tags, or [] of a value.

    Args:
        encoded: the split; its labels are not read.
        begins: where each of its parts begins; a batch is of one part.
        precision: name of the type of 16 bits that the model computes in; None: its own.
        rank, count: which of how many processes this is; they take batches in turns, and the
            examples of the others are empty.
    """
    model.eval()
    dtype = None if precision is None else getattr(torch, precision)
    found: dict[str, list[np.ndarray]] = {}
    for rows in islice(_list_batches(encoded.lengths, begins), rank, None, count):
        with torch.autocast(model.device.type, dtype, enabled=dtype is not None):
            outputs = model(encoded.batch(rows).to(model.device))
        for name, (score, mask) in outputs.items():
            head = model.head(name)
            score = score if dtype is None else score.float()
            soft, own = head.soften(score, mask).cpu(), found.setdefault(head.target, [])
            own += [np.empty(0)] * (len(encoded.split) - len(own))
            lengths = mask.sum(1).tolist() if head.target == TAGS else [None] * len(rows)
            for row, item, length in zip(rows, soft.numpy(), lengths, strict=True):
                own[row] = item if length is None else item[:length]
    return found


def _list_batches(lengths: np.ndarray, begins: Sequence[int]) -> Iterator[np.ndarray]:
    for first, last in zip(begins, [*begins[1:], len(lengths)], strict=True):
        part = lengths[first:last]
        for rows in order_evaluation_batches(part, batch_size=EVALUATION_BATCH):
            yield rows + first
