"""Measure the cells of a table: artifacts/cells/<table>/ -> results/<table>.json.

Trained cells are measured by the predictions that training wrote, and the teachers of students too,
whatever their table. Pretrained cells have what their run measured; exports are timed now.
"""

import logging
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nlp_core.config.base import CELLS, SEED, check_known, name_predictions
from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import EAGER, GRID, CellConfig, ExperimentConfig, Params, read_params
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import check_digest, write_json
from nlp_core.kinds import KINDS
from nlp_core.metrics import has_metric, measure
from nlp_core.report.cell import (
    CellTask,
    TrainedCell,
    find_difference,
    find_folder,
    match_cells,
    name_command,
    name_way,
    read_predictions,
    read_trained,
)
from nlp_core.report.example_writing import write_examples
from nlp_core.report.examples import find_examples
from nlp_core.report.results import (
    FIRST_SCORE,
    MEAN_SPLIT,
    CellResult,
    Results,
    Score,
    find_results,
    read_results,
    summarise,
)
from nlp_core.training.history import read_history

log = logging.getLogger(__name__)

Metrics = dict[str, float]
MEGABYTE = 1e6


class ExportTimes(Protocol):
    """The times of an export: on what hardware, and each metric over the runs, by way of running.

    The ways are the trained model and its bundles; see `measure_ways` of export/timing.py.
    """

    @property
    def hardware(self) -> str: ...
    @property
    def metrics(self) -> Mapping[str, Mapping[str, Sequence[float]]]: ...


Curves = dict[str, list[tuple[int, float]]]
"""Lines of step and value, by name."""
TimeExport = Callable[[str, Params, Path], ExportTimes]
"""Times an export of the grid; exports are on the same floor as reports."""


def evaluate_table(
    table: str, root: Path, *, only: Sequence[str] = (), time_export: TimeExport | None = None
) -> None:
    """Measure the cells that the grid has in a table and write results/<table>.json.

    Args:
        only: the cells to measure; the file keeps the others. If empty, all are measured, of
            optional cells those that are trained here.
        time_export: what times exports; None: the table has none.

    Raises:
        ConfigError: params.yaml or grid/ is wrong, or there is no such table, or no such cell.
        DataError: a cell is not finished, or the grid now describes another one.
    """
    params = read_params(root / "params.yaml")
    trained = {path.name for path in (root / CELLS / table).glob("*")}
    names = only or [*params.list_cells(table, trained)]
    known = params.list_cells(table, only)
    for name in only:
        check_known(f"{GRID}/{table}.yaml", "cell", name, known, ConfigError)
    _check_metrics(table, params)
    kept = read_kept(table, only, params, root) if only else Results(table=table, cells={})
    items = params.list_cells(table, {*kept.cells, *names})
    cells, curves = kept.cells, kept.curves
    for name in names:
        log.info("evaluate cell=%s", name)
        item = items[name]
        cell = read_trained(name, item, params, root)
        if isinstance(item, ExperimentConfig | EnsembleConfig):
            further = params.metrics.get(table, [])
            cells[name] = evaluate_cell(name, params, root, further_metrics=further)
            if isinstance(item, ExperimentConfig):
                curves[name] = _read_learning(find_folder(name, item, root), cell)
            continue
        if isinstance(item, ExportConfig):
            assert time_export is not None, name
            cells |= _time(name, cell, time_export, params, root)
        else:
            metrics = {key: summarise(values) for key, values in sorted(cell.metrics.items())}
            cells[name] = _build_result(cell, metrics)
            curves[name] = _read_perplexity(find_folder(name, item, root))
    _write_examples(table, items, names, params, root)
    results = Results(table=table, cells=dict(sorted(cells.items())), curves=curves)
    write_json(find_results(table, root), results.model_dump(exclude_defaults=True))


def read_kept(table: str, only: Sequence[str], params: Params, root: Path) -> Results:
    """Return the earlier results of all but some cells of a table.

    Raises:
        DataError: the grid now describes another cell.
    """
    former = read_results(table, root, allow_missing=True)
    items = params.list_cells(table, former.cells)
    others = {name: item for name, item in items.items() if name not in only}
    curves = {name: lines for name, lines in former.curves.items() if name in others}
    return Results(table=table, cells=_select_kept(former, others, params, root), curves=curves)


def _check_metrics(table: str, params: Params) -> None:
    for metric in params.metrics.get(table, []):
        if not any(has_metric(kind, metric) for kind in KINDS.names()):
            raise ConfigError(
                f"{GRID}/{table}.yaml: metrics: found '{metric}', which no kind of task is "
                "measured by."
            )


def _write_examples(
    table: str, items: Mapping[str, CellConfig], names: Sequence[str], params: Params, root: Path
) -> None:
    """Write the predictions of some cells of a table, and remove those of its former cells."""
    folder = find_examples(table, "cell", root).parent
    # DVC expects the folder even of a table whose answers are not kept
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for name in sorted({*items}.intersection(names)):
        item = items[name]
        trained, cell_folder = read_trained(name, item, params, root), find_folder(name, item, root)
        if isinstance(item, ExportConfig):
            if item.task is not None:
                own = {"tasks": {item.task: trained.tasks[item.task]}}
                trained = trained.model_copy(update=own)
            for way in trained.list_measured():
                path = find_examples(table, name_way(name, way), root)
                write_examples(path, cell_folder, trained, way=way)
                written.add(path)
            continue
        path = find_examples(table, name, root)
        kept = item.kept_splits if isinstance(item, ExperimentConfig) else ()
        write_examples(path, cell_folder, trained, kept)
        written.add(path)
    found = {path.stem: path for path in folder.glob("*.parquet")}
    written |= {
        found[cell] for cell, name in match_cells(found, items).items() if name not in names
    }
    for path in {*found.values()} - written:
        path.unlink()


def evaluate_cell(
    name: str, params: Params, root: Path, *, further_metrics: Sequence[str] = ()
) -> CellResult:
    """Measure one trained cell, or an ensemble, over its seeds.

    Args:
        further_metrics: measured in addition to those of a task if its kind has them.

    Raises:
        DataError: the cell is not finished, or the grid now describes another one.
    """
    item = params.experiments.get(name) or params.ensembles[name]
    cell = _add_metrics(read_trained(name, item, params, root), further_metrics)
    folder, command = find_folder(name, item, root), name_command(name, item, params, again=True)
    for seed in cell.seeds:
        for task, digest in cell.runs[str(seed)].predictions.items():
            path = folder / f"{SEED}{seed}" / name_predictions(task)
            check_digest(path, digest, remedy=f"run `{command}`")
    runs = [measure_seed(folder / f"seed-{seed}", cell, command) for seed in cell.seeds]
    selections = sorted({key for run in cell.runs.values() for key in run.epochs})
    epochs = {key: [cell.runs[str(seed)].epochs[key] for seed in cell.seeds] for key in selections}
    return _build_result(cell, _summarise(runs, folder, command), epochs)


def _time(
    name: str, cell: TrainedCell, time_export: TimeExport, params: Params, root: Path
) -> dict[str, CellResult]:
    found = time_export(name, params, root)
    fingerprint = {**cell.fingerprint, "processor": found.hardware}
    cell = cell.model_copy(update={"fingerprint": fingerprint, "runs": {}})
    cells = {}
    for way, values in found.metrics.items():
        metrics = {key: summarise(of_runs) for key, of_runs in sorted(values.items())}
        metrics |= _describe_bundle(way, cell.bundles)
        cells[name_way(name, way)] = _build_result(cell, metrics)
    return cells


def _describe_bundle(way: str, bundles: Mapping[str, Mapping[str, Any]]) -> dict[str, Score]:
    """Return the size of a bundle and the first metric of its task, as far as they are known."""
    found = {}
    if way in bundles:
        found["size.megabytes"] = bundles[way]["bytes"] / MEGABYTE
        if "exported" in bundles[way]:
            found[FIRST_SCORE] = bundles[way]["exported"]
    elif way == EAGER:
        trained = [note["trained"] for note in bundles.values() if "trained" in note]
        found |= {FIRST_SCORE: trained[0]} if trained else {}
    return {key: summarise([value]) for key, value in found.items()}


def _read_perplexity(folder: Path) -> Curves:
    """Return the held-out perplexity of each text of a pretrained cell, by step; first seed."""
    curves: Curves = {}
    for event in _read_validations(folder):
        point = (event["step"], event["metrics"]["perplexity"])
        curves.setdefault(event["split"], []).append(point)
    return curves


def _read_learning(folder: Path, cell: TrainedCell) -> Curves:
    """Return the first metric on the split that chooses the epoch, by step, of each seed."""
    curves: Curves = {}
    for seed in cell.seeds:
        for event in _read_validations(folder / f"seed-{seed}"):
            name = event.get("task", next(iter(cell.tasks)))
            task, of_task = cell.tasks[name], f"{name} " if len(cell.tasks) > 1 else ""
            if event["split"] == task.select_split:
                line = f"{of_task}{task.metrics[0]}, seed {seed}"
                point = (event["step"], event["metrics"][task.metrics[0]])
                curves.setdefault(line, []).append(point)
    return curves


def _read_validations(folder: Path) -> Iterator[Mapping[str, Any]]:
    return (event for event in read_history(folder) if event["event"] == "validate")


def _build_result(
    cell: TrainedCell, metrics: dict[str, Score], epochs: Mapping[str, list[float]] | None = None
) -> CellResult:
    """Return what was measured of a cell, with what the cell was made of.

    Args:
        epochs: the chosen epoch of each seed, by the way of choosing.
    """
    facts = cell.model_dump() | {
        "metrics": metrics,
        "epochs": epochs or {},
        "footnotes": sorted({note for task in cell.tasks.values() for note in task.footnotes}),
        "runs": {seed: run.model_dump() for seed, run in cell.runs.items() if run.weights},
    }
    return CellResult.model_validate(facts)


def _select_kept(
    former: Results, items: Mapping[str, CellConfig], params: Params, root: Path
) -> dict[str, CellResult]:
    """Return the earlier results of cells, current or of an older `numerics`.

    The report names the older ones: they stay until they are retrained. Cells that were never
    measured are left out, and the report says so.
    """
    measured = former.cells | _find_retrained_teachers(former, items, root)
    names = match_cells(measured, items)
    if absent := sorted({*items} - {*names.values()}):
        log.warning("evaluate left out cells that were never measured: %s", ", ".join(absent))
    older = [name for name in names if measured[name].numerics < params.numerics]
    if older:
        log.warning("evaluate kept cells of older numerics: %s", ", ".join(older))
    for name in (name for name in names if name not in older):
        item = items[names[name]]
        if difference := find_difference(measured[name], item, params):
            where, remedy = find_results(former.table, root), f"with `--cell {name}`"
            if name in params.optional:
                remedy = f"with `{name_command(name, item, params)}`"
            raise DataError(
                f"{where}: {name}: {difference}; train the cell as it is "
                f"described now and measure it as well, {remedy}."
            )
    return {name: measured[name] for name in names}


def _find_retrained_teachers(
    former: Results, items: Mapping[str, CellConfig], root: Path
) -> dict[str, CellResult]:
    """Return the teachers whose own table has results of newer `numerics` than this one.

    They lack the metrics that only this table adds.
    """
    found = {}
    for name, item in items.items():
        if item.table == former.table or name not in former.cells:
            continue
        own = read_results(item.table, root, allow_missing=True).cells.get(name)
        if own is not None and own.numerics > former.cells[name].numerics:
            found[name] = own
    return found


def _add_metrics(cell: TrainedCell, further: Sequence[str]) -> TrainedCell:
    tasks = {}
    for name, task in cell.tasks.items():
        fitting = [metric for metric in further if has_metric(task.kind, metric)]
        metrics = list(dict.fromkeys([*task.metrics, *fitting]))
        tasks[name] = task.model_copy(update={"metrics": metrics})
    return cell.model_copy(update={"tasks": tasks})


def _summarise(runs: Sequence[Metrics], folder: Path, command: str) -> dict[str, Score]:
    for run in runs:
        if set(run) != set(runs[0]):
            raise DataError(
                f"{folder}: the seeds do not have the same metrics: found {sorted(run)} and "
                f"{sorted(runs[0])}; make the cell again with `{command}`."
            )
    return {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}


def measure_seed(folder: Path, cell: TrainedCell, command: str) -> Metrics:
    """Return the metrics of one seed from its predictions; errors name the command to run."""
    metrics: Metrics = {}
    for name, task in sorted(cell.tasks.items()):
        path = folder / name_predictions(name)
        found = _measure_task(path, task, command)
        prefix = f"{name}." if len(cell.tasks) > 1 else ""
        metrics |= {f"{prefix}{key}": value for key, value in found.items()}
    return metrics


def list_first(cell: TrainedCell) -> list[str]:
    """Return the names of the first metric of each task, on each reported split."""
    return [
        f"{name}.{split}.{task.metrics[0]}" if len(cell.tasks) > 1 else f"{split}.{task.metrics[0]}"
        for name, task in sorted(cell.tasks.items())
        for split in task.report_splits
    ]


def _measure_task(path: Path, task: CellTask, command: str) -> Metrics:
    metrics: Metrics = {}
    for item in read_predictions(path, task, command):
        suffix = "" if item.selection == "honest" else f".{item.selection}"
        found = measure(task.kind, task.metrics, item.predictions)
        metrics |= {f"{item.split}.{name}{suffix}": value for name, value in found.items()}
    for split in task.report_splits:
        if f"{split}.{task.metrics[0]}" not in metrics:
            raise DataError(
                f"{path}: found no honest predictions of the split '{split}', which the table "
                f"reports; run `{command}`."
            )
    return metrics | (_average(metrics, task.report_splits) if task.further_report_splits else {})


def _average(metrics: Metrics, splits: Sequence[str]) -> Metrics:
    """Return the means over the reported splits, as the metrics of MEAN_SPLIT."""
    values: dict[str, list[float]] = {}
    for key, value in metrics.items():
        split, _, name = key.partition(".")
        if split in splits:
            values.setdefault(f"{MEAN_SPLIT}.{name}", []).append(value)
    return {key: statistics.fmean(found) for key, found in values.items()}
