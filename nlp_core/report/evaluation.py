"""Measure the cells of a table from their predictions: artifacts/finetune -> results/<table>.json.

No model is needed: training wrote down what each seed predicted.
"""

import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlp_core.config.params import Params, read_params
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import write_json
from nlp_core.metrics import measure
from nlp_core.report.cell import Cell, CellTask, read_cell, read_predictions
from nlp_core.report.results import CellResult, Results, Score, TaskSplits

log = logging.getLogger(__name__)

Metrics = dict[str, float]


def evaluate_table(table: str, root: Path) -> None:
    """Measure every cell that params.yaml has in a table and write results/<table>.json.

    Args:
        table: a name among params.yaml's tables.
        root: the project's root.

    Raises:
        ConfigError: params.yaml is wrong, or has no such table.
        DataError: a cell is not finished, or was trained otherwise than params.yaml says.
    """
    params = read_params(root / "params.yaml")
    if table not in params.tables:
        hint = suggest(table, params.tables)
        raise ConfigError(f"params.yaml: tables: there is no table '{table}'. {hint}")
    folder = root / "artifacts" / "finetune" / table
    cells = {
        name: evaluate_cell(folder / name, name, params)
        for name, experiment in sorted(params.experiments.items())
        if experiment.table == table
    }
    write_json(root / "results" / f"{table}.json", Results(table=table, cells=cells).model_dump())


def evaluate_cell(folder: Path, name: str, params: Params) -> CellResult:
    """Measure one cell over its seeds.

    Args:
        folder: artifacts/finetune/<table>/<cell>.
        name: the cell.
        params: params.yaml.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than params.yaml says.
    """
    cell = read_cell(folder, name, params)
    runs = [_measure_seed(folder / f"seed-{seed}", cell) for seed in cell.seeds]
    selections = sorted({key for run in cell.runs.values() for key in run.epochs})
    log.info("evaluate cell=%s seeds=%d metrics=%d", name, len(runs), len(runs[0]))
    return CellResult(
        metrics=_summarise(runs, folder),
        seeds=cell.seeds,
        epochs={
            key: [cell.runs[str(seed)].epochs[key] for seed in cell.seeds] for key in selections
        },
        model=cell.model,
        recipe=cell.recipe,
        data=cell.data,
        init=cell.init,
        tasks={
            task: TaskSplits(
                kind=facts.kind, select_split=facts.select_split, report_split=facts.report_split
            )
            for task, facts in cell.tasks.items()
        },
        parameters=cell.parameters,
        footnotes=sorted({note for task in cell.tasks.values() for note in task.footnotes}),
        fingerprint=cell.fingerprint,
        numerics=cell.numerics,
    )


def summarise(values: Sequence[float]) -> Score:
    """Return mean and sample standard deviation (n - 1; 0 for one value) of a metric's values."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return Score(mean=statistics.fmean(values), sd=sd, n=len(values), values=list(values))


def _summarise(runs: Sequence[Metrics], folder: Path) -> dict[str, Score]:
    for run in runs:
        if set(run) != set(runs[0]):
            raise DataError(
                f"{folder}: the seeds do not have the same metrics: found {sorted(run)} and "
                f"{sorted(runs[0])}; train the cell again with `dvc repro --force "
                f"finetune@{folder.name}`."
            )
    return {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}


def _measure_seed(folder: Path, cell: Cell) -> Metrics:
    metrics: Metrics = {}
    for name, task in sorted(cell.tasks.items()):
        found = _measure_task(folder / "predictions" / f"{name}.parquet", task, cell.cell)
        prefix = f"{name}." if len(cell.tasks) > 1 else ""
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    return metrics


def _measure_task(path: Path, task: CellTask, cell: str) -> Metrics:
    metrics: Metrics = {}
    for item in read_predictions(path, task, f"finetune@{cell}"):
        suffix = "" if item.selection == "honest" else f".{item.selection}"
        found: Mapping[str, float] = measure(task.kind, task.metrics, item.predictions)
        metrics |= {f"{item.split}.{name}{suffix}": value for name, value in found.items()}
    expected = f"{task.report_split}.{task.metrics[0]}"
    if expected not in metrics:
        raise DataError(
            f"{path}: found no honest predictions of the split '{task.report_split}', which the "
            f"table reports; run `dvc repro --force finetune@{cell}`."
        )
    return metrics
