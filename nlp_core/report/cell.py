"""What training left of a cell: cell.json and the predictions of each seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nlp_core.config.params import Params
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
    scheme: str | None
    footnotes: list[str]


class CellRun(RunDigests):
    """One seed of a cell."""

    epochs: dict[str, float]
    """The epoch that was chosen, for each way of choosing: honest, paper."""


class Cell(Record):
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


class PredictedSplit(NamedTuple):
    """The predictions of one split, by the weights of one way of choosing the epoch."""

    split: str
    selection: str
    predictions: Predictions


def read_cell(folder: Path, name: str, params: Params) -> Cell:
    """Read the cell.json of a finished cell and check that params.yaml still describes it.

    Args:
        folder: the cell's folder.
        name: the cell.
        params: params.yaml.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than the grid says.
    """
    experiment = params.cells[name]
    path = folder / "cell.json"
    command = f"dvc repro {experiment.stage}@{name}"
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so the cell '{name}' is not trained yet, or not to "
            f"its end; run `{command}`."
        )
    cell = read_record(path, Cell, command=command)
    difference = find_difference(cell, name, params)
    if not difference and sorted(cell.runs) != sorted(str(seed) for seed in cell.seeds):
        difference = f"runs: found {sorted(cell.runs)}, but the grid says {cell.seeds}"
    if difference:
        raise DataError(
            f"{path}: {difference}; train the cell as it is described now with `{command}`."
        )
    return cell


def find_difference(cell: Cell | CellResult, name: str, params: Params) -> str | None:
    """Return how a cell differs from what the grid says of it now, or None.

    Args:
        cell: what training left, or what was measured of that.
        name: the cell.
        params: params.yaml.
    """
    experiment = params.cells[name]
    found = {
        "seeds": (cell.seeds, experiment.seeds),
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

    Args:
        name: an experiment of the grid.
        params: params.yaml.
        root: the project's root.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than the grid says.
    """
    read_cell(root / find_folder(name, params), name, params)


def find_folder(name: str, params: Params) -> Path:
    """Return the folder of a cell of the grid, from the project's root."""
    cell = params.cells[name]
    return Path("artifacts") / cell.stage / cell.table / name


def name_stage(folder: Path) -> str:
    """Return the DVC stage that writes a cell's folder, artifacts/<stage>/<table>/<cell>."""
    return f"{folder.parent.parent.name}@{folder.name}"


def read_predictions(path: Path, task: CellTask, stage: str) -> Iterator[PredictedSplit]:
    """Read the predictions of one seed for one task, split by split.

    Args:
        path: a parquet file that training wrote.
        task: the task that was predicted.
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
