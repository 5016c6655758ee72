"""Measure the cells of a table from their predictions: artifacts/finetune -> results/<table>.json.

The predictions themselves go to results/examples/<table>/ in a small form.

No model is needed: training wrote down what each seed predicted. A table of students has those of
artifacts/distill too, and their teachers, of whatever table; all are measured by further metrics.
"""

import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlp_core.config.params import GRID, Params, StudentConfig, read_params
from nlp_core.data.soft_labels import refuse_other_teachers
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import write_json
from nlp_core.kinds import KINDS
from nlp_core.metrics import has_metric, measure
from nlp_core.report.cell import (
    Cell,
    CellTask,
    find_difference,
    find_folder,
    name_stage,
    read_cell,
    read_predictions,
)
from nlp_core.report.examples import find_examples, write_examples
from nlp_core.report.results import CellResult, Results, RunDigests, Score, TaskSplits, read_results

log = logging.getLogger(__name__)

Metrics = dict[str, float]


def evaluate_table(table: str, root: Path, *, only: Sequence[str] = ()) -> None:
    """Measure the cells that the grid has in a table and write results/<table>.json.

    Args:
        table: a name among params.yaml's tables.
        root: the project's root.
        only: measure these cells alone, and keep what the file has of the others; all if empty.

    Raises:
        ConfigError: params.yaml is wrong, or has no such table, or not those cells there.
        DataError: a cell is not finished, or was trained or measured otherwise than params.yaml
            says; a set has soft labels of a teacher that is no longer there.
    """
    params = read_params(root / "params.yaml")
    if table not in params.all_tables:
        hint = suggest(table, params.all_tables)
        raise ConfigError(f"params.yaml: tables: there is no table '{table}'. {hint}")
    distilled = params.distilled_tables.get(table)
    metrics = distilled.metrics if distilled else []
    for metric in metrics:
        if not any(has_metric(kind, metric) for kind in KINDS.names()):
            raise ConfigError(
                f"params.yaml: distilled_tables.{table}.metrics: found '{metric}', which no kind "
                "of task is measured by."
            )
    names = list_cells(table, params)
    for name in only:
        if name not in names:
            raise ConfigError(
                f"{GRID}/{table}.yaml: experiments: the table '{table}' has no cell '{name}'. "
                f"{suggest(name, names)}"
            )
    path = root / "results" / f"{table}.json"
    for name in names:
        student = params.cells[name]
        if isinstance(student, StudentConfig):
            refuse_other_teachers(root / student.soft_labels, params.list_teachers(student))
    cells = _read_kept(path, [name for name in names if name not in only], params) if only else {}
    for name in only or names:
        folder = find_folder(name, params)
        cell = evaluate_cell(root / folder, name, params, further_metrics=metrics)
        cells[name] = cell.model_copy(update={"folder": str(folder) if distilled else None})
    _write_examples(table, only or names, params, root)
    found = Results(table=table, cells=cells).model_dump(exclude_defaults=True)
    write_json(path, found)


def _write_examples(table: str, names: Sequence[str], params: Params, root: Path) -> None:
    """Write the predictions of some cells of a table, and remove those of cells it has no more."""
    own = {name for name, cell in params.cells.items() if cell.table == table}
    # DVC expects the folder even of a table whose answers are not kept
    find_examples(table, "cell", root).parent.mkdir(parents=True, exist_ok=True)
    for name in sorted(own.intersection(names)):
        folder = root / find_folder(name, params)
        trained = read_cell(folder, name, params)
        write_examples(find_examples(table, name, root), folder, trained)
    for path in find_examples(table, "cell", root).parent.glob("*.parquet"):
        if path.stem not in own:
            path.unlink()


def list_cells(table: str, params: Params) -> list[str]:
    """Return the cells that are measured for a table, sorted: its own, and teachers of those."""
    own = {name: cell for name, cell in params.cells.items() if cell.table == table}
    teachers = {
        teacher.cell.rpartition("/")[2]
        for student in own.values()
        if isinstance(student, StudentConfig)
        for teacher in params.list_teachers(student).values()
    }
    return sorted({*own, *teachers})


def evaluate_cell(
    folder: Path, name: str, params: Params, *, further_metrics: Sequence[str] = ()
) -> CellResult:
    """Measure one cell over its seeds.

    Args:
        folder: artifacts/finetune/<table>/<cell>.
        name: the cell.
        params: params.yaml.
        further_metrics: measured beside those of a task where its kind has them.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than the grid says.
    """
    cell = _add_metrics(read_cell(folder, name, params), further_metrics)
    runs = [measure_seed(folder / f"seed-{seed}", cell) for seed in cell.seeds]
    selections = sorted({key for run in cell.runs.values() for key in run.epochs})
    log.info("evaluate cell=%s seeds=%d metrics=%d", name, len(runs), len(runs[0]))
    epochs = {key: [cell.runs[str(seed)].epochs[key] for seed in cell.seeds] for key in selections}
    return build_result(cell, _summarise(runs, folder), epochs)


def build_result(
    cell: Cell, metrics: dict[str, Score], epochs: dict[str, list[float]]
) -> CellResult:
    """Return what was measured of a cell, with what the cell was made of.

    Args:
        cell: what training left.
        metrics: what was measured.
        epochs: the epoch that was chosen, by seed, for each way of choosing.
    """
    return CellResult(
        metrics=metrics,
        seeds=cell.seeds,
        epochs=epochs,
        model=cell.model,
        recipe=cell.recipe,
        recipe_digest=cell.recipe_digest,
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
        runs={
            seed: RunDigests(**run.model_dump(include=set(RunDigests.model_fields)))
            for seed, run in cell.runs.items()
            if run.weights
        },
    )


def _read_kept(path: Path, names: Sequence[str], params: Params) -> dict[str, CellResult]:
    """Return what was measured of cells before, current or of an older `numerics`.

    The report names the older ones: they stay until they are retrained.
    """
    measured = read_results(path).cells if names else {}
    older = [n for n in names if n in measured and measured[n].numerics < params.numerics]
    if older:
        log.warning("evaluate kept cells of older numerics: %s", ", ".join(older))
    for name in (name for name in names if name not in older):
        difference = (
            find_difference(measured[name], name, params)
            if name in measured
            else "found nothing of this cell, which the grid has"
        )
        if difference:
            raise DataError(
                f"{path}: {name}: {difference}; train the cell as it is described now and measure "
                f"it as well, with `--cell {name}`."
            )
    return {name: measured[name] for name in names}


def _add_metrics(cell: Cell, further: Sequence[str]) -> Cell:
    tasks = {}
    for name, task in cell.tasks.items():
        fitting = [metric for metric in further if has_metric(task.kind, metric)]
        metrics = list(dict.fromkeys([*task.metrics, *fitting]))
        tasks[name] = task.model_copy(update={"metrics": metrics})
    return cell.model_copy(update={"tasks": tasks})


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
                f"{name_stage(folder)}`."
            )
    return {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}


def measure_seed(folder: Path, cell: Cell) -> Metrics:
    """Return the metrics of one seed from its predictions, rounded as results are.

    Raises:
        DataError: predictions are missing.
    """
    metrics: Metrics = {}
    for name, task in sorted(cell.tasks.items()):
        path = folder / "predictions" / f"{name}.parquet"
        found = _measure_task(path, task, name_stage(folder.parent))
        prefix = f"{name}." if len(cell.tasks) > 1 else ""
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    return metrics


def _measure_task(path: Path, task: CellTask, stage: str) -> Metrics:
    metrics: Metrics = {}
    for item in read_predictions(path, task, stage):
        suffix = "" if item.selection == "honest" else f".{item.selection}"
        found: Mapping[str, float] = measure(task.kind, task.metrics, item.predictions)
        metrics |= {f"{item.split}.{name}{suffix}": value for name, value in found.items()}
    expected = f"{task.report_split}.{task.metrics[0]}"
    if expected not in metrics:
        raise DataError(
            f"{path}: found no honest predictions of the split '{task.report_split}', which the "
            f"table reports; run `dvc repro --force {stage}`."
        )
    return metrics
