"""Measure the cells of a table: artifacts/cells/<table>/ -> results/<table>.json.

Trained cells by the predictions that training wrote down, which go to results/examples/<table>/ in
a small form; of students also their teachers, of whatever table. Pretrained cells by what their run
measured, and exports by times that are taken now.
"""

import logging
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlp_core.config.params import (
    GRID,
    CellConfig,
    ExperimentConfig,
    ExportConfig,
    Params,
    read_params,
)
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import write_json
from nlp_core.kinds import KINDS
from nlp_core.metrics import has_metric, measure
from nlp_core.report.cell import (
    CellTask,
    TrainedCell,
    find_difference,
    find_folder,
    read_cell,
    read_predictions,
)
from nlp_core.report.examples import find_examples, write_examples
from nlp_core.report.latency import TimeExport, measure_export
from nlp_core.report.pretraining import read_curves
from nlp_core.report.results import (
    CellResult,
    Results,
    RunDigests,
    Score,
    TaskSplits,
    read_results,
    summarise,
)

log = logging.getLogger(__name__)

Metrics = dict[str, float]
REPORTED = "reported"
"""Instead of a split, where a task reports on several: their mean."""


def evaluate_table(
    table: str, root: Path, *, only: Sequence[str] = (), time_export: TimeExport | None = None
) -> None:
    """Measure the cells that the grid has in a table and write results/<table>.json.

    Args:
        table: a file of grid/, without its suffix.
        only: the cells to measure; the file keeps the others; all if empty.
        time_export: what times exports; None: there are none.

    Raises:
        ConfigError: params.yaml or grid/ is wrong, or there is no such table, or no such cell.
        DataError: a cell is not finished, or was made or measured otherwise than the grid says.
    """
    params = read_params(root / "params.yaml")
    if table not in params.tables:
        hint = suggest(table, params.tables)
        raise ConfigError(f"{GRID}/: there is no table '{table}'. {hint}")
    _check_metrics(table, params)
    items = params.list_cells(table)
    for name in only:
        if name not in items or isinstance(items[name], ExportConfig):
            raise ConfigError(
                f"{GRID}/{table}.yaml: the table '{table}' has no cell '{name}'. "
                f"{suggest(name, items)}"
            )
    path = root / "results" / f"{table}.json"
    kept = {name: item for name, item in items.items() if name not in only}
    cells = _read_kept(path, kept, params) if only else {}
    curves = {}
    for name in only or items:
        log.info("evaluate cell=%s", name)
        item = items[name]
        if isinstance(item, ExperimentConfig):
            further = params.metrics.get(table, [])
            cells[name] = evaluate_cell(name, params, root, further_metrics=further)
            continue
        cell = read_cell(name, item, params, root)
        if isinstance(item, ExportConfig):
            assert time_export is not None, name
            cells |= _time(name, cell, time_export, params, root)
        else:
            metrics = {key: summarise([value]) for key, value in sorted(cell.metrics.items())}
            cells[name] = build_result(cell, metrics, {})
            curves[name] = read_curves(find_folder(name, item, root))
    _write_examples(table, only or [*items], params, root)
    results = Results(table=table, cells=dict(sorted(cells.items())), curves=curves)
    write_json(path, results.model_dump(exclude_defaults=True))


def _check_metrics(table: str, params: Params) -> None:
    for metric in params.metrics.get(table, []):
        if not any(has_metric(kind, metric) for kind in KINDS.names()):
            raise ConfigError(
                f"{GRID}/{table}.yaml: metrics: found '{metric}', which no kind of task is "
                "measured by."
            )


def _write_examples(table: str, names: Sequence[str], params: Params, root: Path) -> None:
    """Write the predictions of some cells of a table, and remove those of cells it has no more."""
    own = {name: cell for name, cell in params.experiments.items() if cell.table == table}
    # DVC expects the folder even of a table whose answers are not kept
    find_examples(table, "cell", root).parent.mkdir(parents=True, exist_ok=True)
    for name in sorted({*own}.intersection(names)):
        trained = read_cell(name, own[name], params, root)
        folder = find_folder(name, own[name], root)
        write_examples(find_examples(table, name, root), folder, trained)
    for path in find_examples(table, "cell", root).parent.glob("*.parquet"):
        if path.stem not in own:
            path.unlink()


def evaluate_cell(
    name: str, params: Params, root: Path, *, further_metrics: Sequence[str] = ()
) -> CellResult:
    """Measure one trained cell over its seeds.

    Args:
        further_metrics: measured in addition to those of a task where its kind has them.

    Raises:
        DataError: the cell is not finished, or was trained otherwise than the grid says.
    """
    item = params.experiments[name]
    cell = _add_metrics(read_cell(name, item, params, root), further_metrics)
    folder = find_folder(name, item, root)
    runs = [measure_seed(folder / f"seed-{seed}", cell) for seed in cell.seeds]
    selections = sorted({key for run in cell.runs.values() for key in run.epochs})
    epochs = {key: [cell.runs[str(seed)].epochs[key] for seed in cell.seeds] for key in selections}
    return build_result(cell, _summarise(runs, folder), epochs)


def _time(
    name: str, cell: TrainedCell, time_export: TimeExport, params: Params, root: Path
) -> dict[str, CellResult]:
    """Return what was measured of each way of running an export."""
    found = time_export(name, params, root)
    described = build_result(cell, {}, {})
    fingerprint = {**cell.fingerprint, "processor": found.hardware}
    described = described.model_copy(update={"fingerprint": fingerprint, "runs": {}})
    return {
        f"{name}_{way}": described.model_copy(update={"metrics": metrics})
        for way, metrics in measure_export(found.runs, cell.bundles).items()
    }


def build_result(
    cell: TrainedCell, metrics: dict[str, Score], epochs: dict[str, list[float]]
) -> CellResult:
    """Return what was measured of a cell, with what the cell was made of.

    Args:
        cell: what training left.
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
                kind=facts.kind,
                select_split=facts.select_split,
                report_split=facts.report_split,
                further_report_splits=facts.further_report_splits,
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


def _read_kept(
    path: Path, items: Mapping[str, CellConfig], params: Params
) -> dict[str, CellResult]:
    """Return what was measured of cells before, current or of an older `numerics`.

    The report names the older ones: they stay until they are retrained.
    """
    measured = read_results(path).cells if items else {}
    older = [n for n in items if n in measured and measured[n].numerics < params.numerics]
    if older:
        log.warning("evaluate kept cells of older numerics: %s", ", ".join(older))
    for name in (name for name in items if name not in older):
        difference = (
            find_difference(measured[name], items[name], params)
            if name in measured
            else "found nothing of this cell, which the grid has"
        )
        if difference:
            raise DataError(
                f"{path}: {name}: {difference}; train the cell as it is described now and measure "
                f"it as well, with `--cell {name}`."
            )
    return {name: measured[name] for name in items}


def _add_metrics(cell: TrainedCell, further: Sequence[str]) -> TrainedCell:
    tasks = {}
    for name, task in cell.tasks.items():
        fitting = [metric for metric in further if has_metric(task.kind, metric)]
        metrics = list(dict.fromkeys([*task.metrics, *fitting]))
        tasks[name] = task.model_copy(update={"metrics": metrics})
    return cell.model_copy(update={"tasks": tasks})


def _summarise(runs: Sequence[Metrics], folder: Path) -> dict[str, Score]:
    for run in runs:
        if set(run) != set(runs[0]):
            raise DataError(
                f"{folder}: the seeds do not have the same metrics: found {sorted(run)} and "
                f"{sorted(runs[0])}; train the cell again with `dvc repro --force "
                f"finetune@{folder.name}`."
            )
    return {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}


def measure_seed(folder: Path, cell: TrainedCell) -> Metrics:
    """Return the metrics of one seed from its predictions, rounded as results are.

    Raises:
        DataError: predictions are missing.
    """
    metrics: Metrics = {}
    for name, task in sorted(cell.tasks.items()):
        path = folder / "predictions" / f"{name}.parquet"
        found = _measure_task(path, task, f"finetune@{folder.parent.name}")
        prefix = f"{name}." if len(cell.tasks) > 1 else ""
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    return metrics


def _measure_task(path: Path, task: CellTask, stage: str) -> Metrics:
    metrics: Metrics = {}
    for item in read_predictions(path, task, stage):
        suffix = "" if item.selection == "honest" else f".{item.selection}"
        found: Mapping[str, float] = measure(task.kind, task.metrics, item.predictions)
        metrics |= {f"{item.split}.{name}{suffix}": value for name, value in found.items()}
    reported = [task.report_split, *task.further_report_splits]
    for split in reported:
        if f"{split}.{task.metrics[0]}" not in metrics:
            raise DataError(
                f"{path}: found no honest predictions of the split '{split}', which the table "
                f"reports; run `dvc repro --force {stage}`."
            )
    return metrics | (_average(metrics, reported) if task.further_report_splits else {})


def _average(metrics: Metrics, splits: Sequence[str]) -> Metrics:
    """Return the means over the reported splits, as the metrics of a split `reported`."""
    values: dict[str, list[float]] = {}
    for key, value in metrics.items():
        split, _, name = key.partition(".")
        if split in splits:
            values.setdefault(f"{REPORTED}.{name}", []).append(value)
    return {key: statistics.fmean(found) for key, found in values.items()}
