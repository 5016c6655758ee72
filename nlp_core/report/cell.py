"""What training left of a cell: cell.json and the predictions of each seed."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from nlp_core.config.base import CELL, name_folder
from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import EAGER, CellConfig, ExperimentConfig, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.task import Task
from nlp_core.errors import DataError
from nlp_core.files import digest_json, name_local
from nlp_core.metrics import Predictions
from nlp_core.report.results import CellResult, Provenance, RunDigests, TaskSplits, read_record


class Place(NamedTuple):
    """A seed of a cell of a table."""

    table: str
    cell: str
    seed: int

    def __str__(self) -> str:
        """Return `table/cell seed k`."""
        return f"{self.table}/{self.cell} seed {self.seed}"


class CellTask(TaskSplits):
    """What is measured of a task and how."""

    labels: list[str]
    metrics: list[str]
    scheme: str | None
    footnotes: list[str]


class CellRun(RunDigests):
    """One seed of a cell."""

    epochs: dict[str, float]
    """The chosen epoch, by the way of choosing: honest, paper."""


class TrainedCell(Provenance):
    """The content of cell.json, which training writes last."""

    table: str
    cell: str
    tasks: dict[str, CellTask]
    runs: dict[str, CellRun]
    metrics: dict[str, list[float]] = Field(default_factory=dict)
    """What pretraining measured, a value for each seed."""
    bundles: dict[str, dict[str, Any]] = Field(default_factory=dict)  # Any: numbers, flags, names
    """By variant of an export: what its check measured, and its bytes."""

    def list_measured(self) -> list[str]:
        """Return the ways of running an export whose predictions are kept, sorted."""
        variants = {name for name, note in self.bundles.items() if "exported" in note}
        return sorted(variants | {EAGER} if variants else variants)


class PredictedSplit(NamedTuple):
    """The predictions for one split, by the weights of one way of choosing the epoch."""

    split: str
    selection: str
    predictions: Predictions


def read_trained(name: str, item: CellConfig, params: Params, root: Path) -> TrainedCell:
    """Read the cell.json of a finished cell and check that the grid still describes it.

    Raises:
        DataError: the cell is not finished, or the grid now describes another one.
    """
    path = find_folder(name, item, root) / CELL
    command = name_command(name, item, params)
    if not path.exists():
        raise DataError(
            f"{path}: no such file, so the cell '{name}' is not trained yet, or not to "
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
    """Return how a cell differs from what the grid says of it now, or None."""
    if isinstance(item, EncoderConfig | EnsembleConfig):
        if isinstance(item, EnsembleConfig):
            described = item.describe(params.list_members(item.cells).values())
        else:
            described = item.describe()
        is_same = cell.recipe_digest == digest_json(described)
        if isinstance(item, EncoderConfig) and cell.seeds != item.seeds:
            return f"seeds: found {cell.seeds}, but the grid says {item.seeds}"
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


def find_folder(name: str, item: CellConfig, root: Path) -> Path:
    return root / name_folder(item.table, name)


def name_stage(name: str, item: CellConfig) -> str:
    """Return the DVC stage that makes a cell."""
    if isinstance(item, EncoderConfig):
        return f"pretrain@{name}"
    if isinstance(item, EnsembleConfig):
        return f"ensemble@{name}"
    return f"export@{name}" if isinstance(item, ExportConfig) else f"finetune@{name}"


def name_command(name: str, item: CellConfig, params: Params, *, again: bool = False) -> str:
    """Return the command that makes a cell; `again` also where DVC finds it up to date."""
    if isinstance(item, ExperimentConfig) and name in params.optional:
        return f"reglue run {item.table} {name}"
    return f"dvc repro {'--force ' if again else ''}{name_stage(name, item)}"


def name_way(export: str, way: str) -> str:
    """Return how results name a way of running an export: its trained model, or a bundle."""
    return f"{export}_{way}"


def match_cells(measured: Iterable[str], items: Mapping[str, CellConfig]) -> dict[str, str]:
    """Return the grid's name of each measured cell; an export is measured as `NAME_<way>`."""
    exports = sorted(
        (name for name, item in items.items() if isinstance(item, ExportConfig)), key=len
    )
    # the longest last: `student_64_int8` begins with both `student` and `student_64`
    timed = {
        cell: name for name in exports for cell in measured if cell.startswith(name_way(name, ""))
    }
    return timed | {name: name for name in measured if name in items and name not in exports}


def read_predictions(path: Path, task: CellTask | Task, command: str) -> Iterator[PredictedSplit]:
    """Read the predictions of one seed for one task, split by split.

    Args:
        command: what writes the file again, for messages; empty for a user's model.

    Raises:
        DataError: the file is missing or damaged, or lacks a column.
    """
    remedy = f"run `{command}`" if command else "train the model again"
    if not path.exists():
        raise DataError(f"{path}: no such file; {remedy}.")
    try:
        table = pq.read_table(name_local(path))
    except (pa.ArrowInvalid, OSError) as error:  # Arrow raises both for bytes that are not its own
        found = "found no readable parquet file; it is damaged"
        raise DataError(f"{path}: {found}; {remedy}.") from error
    needed = ("split", "selection", "target", "prediction")
    if missing := [name for name in needed if name not in table.column_names]:
        raise DataError(
            f"{path}: found no column '{missing[0]}' among {table.column_names}; the file is not "
            f"what training writes: {remedy}."
        )
    pairs = table.select(["split", "selection"]).group_by(["split", "selection"]).aggregate([])
    for split, selection in sorted(tuple(pair.values()) for pair in pairs.to_pylist()):
        is_chosen = (pc.field("split") == split) & (pc.field("selection") == selection)
        yield PredictedSplit(split, selection, _build_predictions(table.filter(is_chosen), task))


def _build_predictions(rows: pa.Table, task: CellTask | Task) -> Predictions:
    names = rows.column_names
    has_score = "score" in names
    return Predictions(
        labels=task.labels,
        target=rows["target"].to_pylist(),
        prediction=rows["prediction"].to_pylist(),
        score=np.asarray(rows["score"].to_pylist(), np.float64) if has_score else None,
        group=rows["group"].to_numpy() if "group" in names else None,
        scheme=task.scheme,
    )
