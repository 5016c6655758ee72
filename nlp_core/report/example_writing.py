"""Write what each seed of a cell predicted, in the form that `examples` reads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nlp_core.config.base import HISTORY, SEED, name_predictions
from nlp_core.errors import DataError
from nlp_core.files import name_local, replacing
from nlp_core.kinds import KINDS
from nlp_core.metrics import Predictions
from nlp_core.metrics.ranking import ALMOST_SURE
from nlp_core.report.cell import CellTask, TrainedCell
from nlp_core.report.examples import FACTS, SUMS, TaskFacts, stores_sums
from nlp_core.statistics import list_terms
from nlp_core.training.history import read_history

LARGE_SEED = 2**15  # smaller ones are 16 bits in files, as they always were


def write_examples(
    path: Path,
    folder: Path,
    cell: TrainedCell,
    kept_splits: Sequence[str] = (),
    *,
    way: str | None = None,
) -> None:
    """Write what all seeds of a cell predicted.

    Args:
        kept_splits: those besides the reported ones.
        way: of running an export; None: the cell is trained or pretrained.

    Raises:
        DataError: no task has predictions of a kept split, an export has none, or the history of
            an encoder lacks the sums.
    """
    tables = [
        _read_sums(folder if seed == cell.seeds[0] else folder / f"{SEED}{seed}", seed, name)
        if cell.metrics
        else _read_seed(
            folder / (name_predictions(way) if way else f"{SEED}{seed}/{name_predictions(name)}"),
            seed,
            name,
            task,
            [*task.report_splits, *kept_splits],
        )
        for seed in cell.seeds
        for name, task in sorted(cell.tasks.items())
    ]
    whole = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    if missing := sorted({*kept_splits} - {*whole["split"].unique().to_pylist()}):
        raise DataError(
            f"{folder}: kept_splits: found no predictions of the split '{missing[0]}'; name a "
            "split that chooses the epoch or that a task reports."
        )
    facts = {
        name: TaskFacts(**task.model_dump()).model_dump()
        for name, task in sorted(cell.tasks.items())
    }
    whole = whole.replace_schema_metadata({FACTS: json.dumps(facts, sort_keys=True)})
    with replacing(path) as temporary:
        pq.write_table(whole, name_local(temporary), compression="zstd", compression_level=19)


def _list_seeds(seed: int, size: int) -> pa.Array:
    return pa.array([seed] * size, pa.int16() if seed < LARGE_SEED else pa.int64())


def _read_seed(path: Path, seed: int, name: str, task: CellTask, splits: Sequence[str]) -> pa.Table:
    if not path.exists():  # earlier code kept no predictions of exports
        raise DataError(f"{path}: no such file; make the cell again.")
    table = pq.read_table(name_local(path))
    table = table.filter(pc.is_in(table["split"], pa.array(splits)))
    size = len(table)
    columns: dict[str, pa.Array] = {
        "seed": _list_seeds(seed, size),
        "task": pa.array([name] * size, pa.string()),
        "split": table["split"],
        "selection": table["selection"],
        "id": table["id"].cast(pa.int32()),
        **{key: _list_labels(table[key], task) for key in ("target", "prediction")},
        "number": _list_numbers(table, task),
        "group": table["group"].cast(pa.int32())
        if "group" in table.column_names
        else pa.nulls(size, pa.int32()),
        "score": _list_scores(table, task),
    }
    return pa.table(columns | (_list_sums(table, task) if stores_sums(task) else {}))


def _read_sums(folder: Path, seed: int, name: str) -> pa.Table:
    """Return what a pretrained seed measured of each text, a row for each document."""
    tables = []
    for event in (event for event in read_history(folder) if "sums" in event):
        sums, size = event["sums"], len(event["documents"])
        facts = {"task": name, "split": event["split"], "selection": event["at"]}
        tables.append(
            pa.table(
                {
                    "seed": _list_seeds(seed, size),
                    **{key: [value] * size for key, value in facts.items()},
                    "id": pa.array(event["documents"], pa.int32()),
                    **{f"{SUMS}{metric}": terms for metric, terms in sorted(sums.items())},
                }
            )
        )
    if not tables:
        raise DataError(
            f"{folder / HISTORY}: found no sums of documents, which earlier code did not keep; "
            "pretrain the encoder again."
        )
    return pa.concat_tables(tables, promote_options="permissive")


def _list_sums(table: pa.Table, task: CellTask) -> dict[str, pa.Array]:
    """Return a column of what each metric sums; a metric that sums nothing has none."""
    answers = (table[name].to_pylist() for name in ("target", "prediction"))
    predictions = Predictions(task.labels, *answers)
    rows = np.arange(len(table))
    found = {metric: list_terms(task.kind, metric, predictions, rows) for metric in task.metrics}
    return {
        f"{SUMS}{metric}": pa.array(list(terms), pa.list_(pa.float64()))
        for metric, terms in found.items()
        if terms is not None
    }


def _list_labels(column: pa.ChunkedArray, task: CellTask) -> pa.Array:
    """Return the labels of each example as a list: one, several, or an intent and its tags.

    The rank of a passage is a label too, a text is none.
    """
    kind, texts = column.type, pa.list_(pa.string())
    if stores_sums(task):
        return pa.nulls(len(column), texts)
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        return pa.array([[str(value)] for value in column.to_pylist()], texts)
    if pa.types.is_struct(kind):
        return pa.array([[row["label"], *row["tags"]] for row in column.to_pylist()], texts)
    return column.cast(texts) if pa.types.is_list(kind) else pa.nulls(len(column), texts)


def _list_numbers(table: pa.Table, task: CellTask) -> pa.Array:
    """Return right and predicted number of each example.

    Those of a regression have 32 bits; a perplexity shows the rounding of its logarithms.
    """
    columns = [table[name] for name in ("target", "prediction")]
    form = pa.float32() if KINDS.get(task.kind).is_number else pa.float64()
    if not all(pa.types.is_floating(column.type) for column in columns):
        return pa.nulls(len(table), pa.list_(pa.float32()))
    pairs = np.stack([column.to_numpy() for column in columns], 1)
    return pa.array(list(pairs.astype(form.to_pandas_dtype())), pa.list_(form))


def _list_scores(table: pa.Table, task: CellTask) -> pa.Array:
    """Return the probabilities of the labels; of two that exclude each other only the second.

    Both are kept whole if 32 bits of the second lose the order of candidates: almost sure ones
    differ only in the first one, and a right and a wrong one may become equal.
    """
    floats = pa.list_(pa.float32())
    if "score" not in table.column_names or not len(table):
        return pa.nulls(len(table), floats)
    exact, kind = np.asarray(table["score"].to_pylist(), dtype=np.float64), KINDS.get(task.kind)
    if kind.is_grouped and _loses_order(exact[:, -1], table["target"].to_numpy(), task.labels[-1]):
        return pa.array(list(exact), pa.list_(pa.float64()))
    score = exact.astype(np.float32)
    is_pair = score.shape[1] == 2 and not kind.has_several_labels
    return pa.array(list(score[:, 1:] if is_pair else score), floats)


def _loses_order(score_N: NDArray[np.float64], target_N: NDArray[Any], right_label: str) -> bool:
    """Return whether 32 bits rank a right and a wrong candidate in another way than 64."""
    is_right_N = target_N.astype(np.str_) == right_label
    right, wrong = score_N[is_right_N], score_N[~is_right_N]
    tied = np.intersect1d(right.astype(np.float32), wrong.astype(np.float32))
    known = np.intersect1d(right, wrong).astype(np.float32)
    return bool((score_N > ALMOST_SURE).any() or not np.isin(tied, known).all())
