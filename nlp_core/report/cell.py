"""What training left of a cell: cell.json and the predictions of each seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from nlp_core.config.base import name_folder
from nlp_core.config.params import CellConfig, ExperimentConfig, ExportConfig, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import DataError
from nlp_core.files import digest_json
from nlp_core.metrics import Predictions
from nlp_core.report.results import CellResult, Record, RunDigests, read_record


class CellTask(Record):
    """What is measured of a task and how."""

    kind: str
    labels: list[str]
    metrics: list[str]
    select_split: str
    report_split: str
    further_report_splits: list[str] = Field(default_factory=list)
    scheme: str | None
    footnotes: list[str]


class CellRun(RunDigests):
    """One seed of a cell."""

    epochs: dict[str, float]
    """The epoch that was chosen, for each way of choosing: honest, paper."""


class TrainedCell(Record):
    """The content of cell.json, which training writes last."""

    table: str
    cell: str
    model: str
    recipe: str
    recipe_digest: str | None = None
    """Of the recipe's values; null of a cell from before there was one."""
    seeds: list[int]
    data: dict[str, str]
    init: dict[str, str] | None
    numerics: int
    fingerprint: dict[str, str]
    parameters: dict[str, int]
    tasks: dict[str, CellTask]
    runs: dict[str, CellRun]
    metrics: dict[str, float] = Field(default_factory=dict)
    """What pre-training measured."""
    bundles: dict[str, dict[str, Any]] = Field(default_factory=dict)  # Any: numbers, flags, names
    """Of an export by variant what its check measured, and its bytes."""


class PredictedSplit(NamedTuple):
    """The predictions of one split, by the weights of one way of choosing the epoch."""

    split: str
    selection: str
    predictions: Predictions


def read_cell(name: str, item: CellConfig, params: Params, root: Path) -> TrainedCell:
    """Read the cell.json of a finished cell and check that the grid still describes it.

    Raises:
        DataError: the cell is not finished, or was made otherwise than the grid says.
    """
    path = find_folder(name, item, root) / "cell.json"
    command = f"dvc repro {name_stage(name, item)}"
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so the cell '{name}' is not trained yet, or not to "
            f"its end; run `{command}`."
        )
    cell = read_record(path, TrainedCell, command=command)
    difference = find_difference(cell, item, params)
    if not difference and sorted(cell.runs) != sorted(str(seed) for seed in cell.seeds):
        difference = f"runs: found {sorted(cell.runs)}, but the grid says {cell.seeds}"
    if difference:
        raise DataError(
            f"{path}: {difference}; make the cell as it is described now with `{command}`."
        )
    return cell


def find_difference(cell: TrainedCell | CellResult, item: CellConfig, params: Params) -> str | None:
    """Return how a cell differs from what the grid says of it now, or None.

    Args:
        cell: what training left, or what was measured of that.
    """
    if isinstance(item, EncoderConfig):
        is_same = cell.recipe_digest == digest_json(item.describe())
        if is_same and cell.numerics == params.numerics:
            return None
        return "numerics or values: found others than the grid says"
    experiment, seeds = item, None
    if isinstance(item, ExportConfig):
        experiment, seeds = params.experiments[Path(item.cell).name], [item.seed]
    assert isinstance(experiment, ExperimentConfig), experiment
    found = {
        "seeds": (cell.seeds, seeds or experiment.seeds),
        "model": (cell.model, experiment.model),
        "recipe": (cell.recipe, experiment.recipe),
        "tasks": (sorted(cell.tasks), sorted(params.list_tasks(experiment.data))),
        "numerics": (cell.numerics, params.numerics),
    }
    if cell.init is not None:
        found["init"] = (cell.init["path"], experiment.init)
    if cell.recipe_digest is not None:
        values = digest_json(params.recipes[experiment.recipe].describe())
        found["values of the recipe"] = (cell.recipe_digest[:8], values[:8])
    for key, (was, expected) in found.items():
        if was != expected:
            return f"{key}: found {was}, but the grid says {expected}"
    return None


def check_finished(name: str, params: Params, root: Path) -> None:
    """Refuse a cell that is not trained, or otherwise than the grid says.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than the grid says.
    """
    read_cell(name, params.experiments[name], params, root)


def find_folder(name: str, item: CellConfig, root: Path) -> Path:
    """Return the folder of a cell of the grid."""
    return root / name_folder(item.table, name)


def name_stage(name: str, item: CellConfig) -> str:
    """Return the DVC stage that makes a cell."""
    if isinstance(item, EncoderConfig):
        return f"pretrain@{name}"
    return f"export@{name}" if isinstance(item, ExportConfig) else f"finetune@{name}"


def read_predictions(path: Path, task: CellTask, stage: str) -> Iterator[PredictedSplit]:
    """Read the predictions of one seed for one task, split by split.

    Args:
        stage: the DVC stage that writes the file.

    Raises:
        DataError: the file is missing, or lacks a column.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file; run `dvc repro --force {stage}`.")
    table = pq.read_table(path)
    missing = [
        name
        for name in ("split", "selection", "target", "prediction")
        if name not in table.column_names
    ]
    if missing:
        raise DataError(
            f"{path}: found no column '{missing[0]}' among {table.column_names}; the file is not "
            f"what training writes: run `dvc repro --force {stage}`."
        )
    split = np.asarray(table["split"].to_pylist(), dtype=np.str_)
    selection = np.asarray(table["selection"].to_pylist(), dtype=np.str_)
    for which in sorted(set(zip(split.tolist(), selection.tolist(), strict=True))):
        rows = table.filter((split == which[0]) & (selection == which[1]))
        yield PredictedSplit(which[0], which[1], _build_predictions(rows, task))


def _build_predictions(rows: pa.Table, task: CellTask) -> Predictions:
    names = rows.column_names
    score: NDArray[np.float64] | None = None
    if "score" in names:
        score = np.asarray(rows["score"].to_pylist(), dtype=np.float64)
    return Predictions(
        labels=task.labels,
        target=rows["target"].to_pylist(),
        prediction=rows["prediction"].to_pylist(),
        score=score,
        group=rows["group"].to_numpy() if "group" in names else None,
        scheme=task.scheme,
    )
