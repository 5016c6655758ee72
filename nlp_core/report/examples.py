"""What each seed of a cell predicted on the splits of its report, small enough to commit.

`results/examples/<table>/<cell>.parquet` has a row for each example, seed and way of choosing the
epoch: right and predicted labels, and the probabilities of the labels. So a clone can compute
scores, intervals and tests between cells without training. No text is stored: for answers that are
texts, a row has for each metric what the metric sums over examples. A row of a pretrained encoder
has what each metric sums over the masked pieces of a document.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nlp_core.config.pretraining import BEFORE, FRESH
from nlp_core.errors import DataError
from nlp_core.files import name_local
from nlp_core.kinds import KINDS, LABEL, TAGS
from nlp_core.metrics import Predictions, has_metric, measure
from nlp_core.report.cell import CellTask
from nlp_core.report.results import FIRST_SCORE, Record
from nlp_core.statistics import WeightedScore, build_score, score_terms

FACTS = b"tasks"
SUMS = "sums of "
"""How the columns of what a metric sums begin."""


class TaskFacts(Record):
    """What measuring a task needs."""

    kind: str
    labels: list[str]
    metrics: list[str]
    report_split: str
    scheme: str | None


def find_examples(table: str, cell: str, root: Path) -> Path:
    return root / "results" / "examples" / table / f"{cell}.parquet"


@dataclass(frozen=True)
class Runs:
    """What the seeds of a cell predicted for a split of a task, the epoch chosen in one way.

    Attributes:
        split: of the examples.
        prefix: how the names of metrics in results begin: `rte.` for a task of a multi-task cell,
            `before.` for an encoder before it was pretrained.
        suffix: how they end: `.paper` if the reported split chose the epoch.
        ids: row number of each example in the official file.
        predictions: in the order of the seeds; empty if the answers are texts.
        summands: of each metric what it sums, [N, K] for each seed, if the answers are texts.
        name: of the task.
    """

    task: TaskFacts
    split: str
    prefix: str
    suffix: str
    ids: tuple[int, ...]
    predictions: list[Predictions]
    summands: dict[str, list[NDArray[np.floating]]] = field(default_factory=dict)
    name: str = ""

    def build_score(self, metric: str) -> WeightedScore | None:
        """Return a metric of the seeds, or None if it cannot be resampled quickly."""
        if not stores_sums(self.task):
            return build_score(self.task.kind, metric, self.predictions)
        if metric not in self.summands:
            return None
        return score_terms(self.task.kind, metric, np.stack(self.summands[metric]))

    @property
    def units(self) -> tuple[float, ...]:
        """What two rows have in common if they were measured on the same examples.

        The pieces of a document are those of an encoder's tokenizer.
        """
        if not KINDS.get(self.task.kind).is_auxiliary:
            return self.ids
        return (*self.ids, *self.summands["perplexity"][0][:, 1])

    def measure(self) -> Iterator[dict[str, float]]:
        """Yield the metrics of each seed."""
        for predictions in self.predictions:
            yield measure(self.task.kind, self.task.metrics, predictions)
        scores = {metric: self.build_score(metric) for metric in self.summands}
        columns = {metric: score.values for metric, score in scores.items() if score}
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, map(float, values), strict=True))

    def name_metric(self, metric: str) -> str:
        return f"{self.prefix}{self.split}.{metric}{self.suffix}"

    def find_metric(self, name: str) -> str | None:
        """Return the metric that has a name in results; None: these predictions have none."""
        if name == FIRST_SCORE:
            return self.task.metrics[0]
        start = f"{self.prefix}{self.split}."
        metric = name.removeprefix(start).removesuffix(self.suffix)
        known = metric in self.summands or has_metric(self.task.kind, metric)
        is_known = self.name_metric(metric) == name and known
        return metric if is_known else None


def read_runs(path: Path) -> list[Runs]:
    """Read what the seeds of a cell predicted, by task, way of choosing the epoch and split.

    Raises:
        DataError: the file is missing or damaged.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file; measure the cell again.")
    table = _read_table(path)
    facts = {
        name: TaskFacts.model_validate(note)
        for name, note in json.loads(table.schema.metadata[FACTS]).items()
    }
    found: dict[tuple[str, str, str], Runs] = {}
    for key, rows in _split_runs(table):
        name, selection, split = key
        task = facts[name]
        if key not in found:
            prefix = f"{name}." if len(facts) > 1 else ""
            suffix = f".{selection}" if selection == "paper" else ""
            prefix += f"{selection}." if selection in (FRESH, BEFORE) else ""
            ids = tuple(rows["id"].to_pylist())
            found[key] = Runs(task, split, prefix, suffix, ids, [], name=name)
        runs = found[key]
        sums = [name for name in rows.column_names if name.startswith(SUMS)]
        for column in sums if stores_sums(task) else []:
            if rows[column].null_count:
                continue  # of another split
            runs.summands.setdefault(column.removeprefix(SUMS), []).append(_stack(rows[column]))
        if not stores_sums(task):
            runs.predictions.append(_build(rows, task))
    return list(found.values())


def _read_table(path: Path) -> pa.Table:
    remedy = "take the committed file from Git again, or measure the cell again"
    try:
        table = pq.read_table(name_local(path))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: found no readable parquet file; it is damaged; {remedy}."
        ) from error
    if FACTS not in (table.schema.metadata or {}):
        found = "found no facts about its tasks, so it is not what the evaluate stage writes"
        raise DataError(f"{path}: {found}; {remedy}.")
    return table


def read_all_runs(table: str, root: Path) -> dict[str, list[Runs]]:
    """Read what the seeds of each cell of a table predicted, where that is committed."""
    folder = find_examples(table, "cell", root).parent
    return {path.stem: read_runs(path) for path in sorted(folder.glob("*.parquet"))}


def measure_examples(path: Path) -> dict[str, list[float]]:
    """Return the metrics of the kept splits, by the names of results, a value for each seed."""
    found: dict[str, list[float]] = {}
    for runs in read_runs(path):
        for measured in runs.measure():
            for metric, value in measured.items():
                found.setdefault(runs.name_metric(metric), []).append(value)
    return found


def stores_sums(task: TaskFacts | CellTask) -> bool:
    """Return whether only sums are stored: of answers that are texts, and of masked pieces."""
    kind = KINDS.get(task.kind)
    return kind.writes_text or kind.has_passages or kind.is_auxiliary


def _split_runs(table: pa.Table) -> Iterator[tuple[tuple[str, str, str], pa.Table]]:
    """Yield the rows of each run, which stand together, with its task, selection and split.

    Seeds are in the order of the file, which is that of the cell and of its scores.
    """
    keys = [table[name].combine_chunks() for name in ("seed", "task", "selection", "split")]
    ids = np.stack([key.dictionary_encode().indices.to_numpy() for key in keys])
    starts = np.flatnonzero(np.diff(ids, axis=1, prepend=-1).any(0))
    bounds = [*pairwise([*starts, len(table)])]
    found = [
        (ids[0, start], *(key[start].as_py() for key in keys[1:]), start, end)
        for start, end in bounds
    ]
    for _, *key, start, end in sorted(found):
        task, selection, split = key
        yield (task, selection, split), table.slice(start, end - start)


def _build(rows: pa.Table, task: TaskFacts) -> Predictions:
    score = None
    if rows["score"].null_count == 0:
        score = _stack(rows["score"])
        is_half = score.shape[1] == 1 and len(task.labels) == 2
        score = np.concatenate([1 - score, score], 1) if is_half else score
    target, prediction = _read_answers(rows, task)
    return Predictions(
        labels=task.labels,
        target=target,
        prediction=prediction,
        score=score,
        group=rows["group"].to_numpy() if rows["group"].null_count == 0 else None,
        scheme=task.scheme,
    )


def _read_answers(rows: pa.Table, task: TaskFacts) -> list[list[Any]]:
    """Return right and predicted answers in the form that metrics take."""
    if rows["number"].null_count == 0:
        return [column.tolist() for column in _stack(rows["number"]).T]
    kind, columns = (
        KINDS.get(task.kind),
        [_list_texts(rows[name]) for name in ("target", "prediction")],
    )
    if len(kind.targets) > 1:
        return [[{LABEL: row[0], TAGS: row[1:]} for row in column] for column in columns]
    if kind.targets[0].answer == "texts":
        return columns
    return [[row[0] for row in column] for column in columns]


def _stack(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return lists of equal length as the rows of a matrix."""
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = flat.astype(np.float64).reshape(len(column), -1)
    return found


def _list_texts(column: pa.ChunkedArray) -> list[list[str]]:
    """Return lists of labels; equal labels are one object, which makes them fast to compare."""
    lists = column.combine_chunks()
    encoded = lists.flatten().dictionary_encode()
    texts = np.asarray(encoded.dictionary.to_pylist(), object)[encoded.indices].tolist()
    ends = np.cumsum(lists.value_lengths()).tolist()
    return [texts[start:end] for start, end in pairwise([0, *ends])]
