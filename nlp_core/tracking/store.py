"""Import finished cells from the files that stages wrote into an MLflow database.

MLflow takes seconds to import, so it is imported when a store is opened.
"""

import json
import logging
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import yaml
from filelock import FileLock

from nlp_core.config.base import CELL, HISTORY
from nlp_core.config.params import GRID, read_params
from nlp_core.errors import DataError, UsageError
from nlp_core.files import digest_file, digest_json, name_database
from nlp_core.tracking.database import check_database
from nlp_core.training.history import Event, list_values, read_history

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

log = logging.getLogger(__name__)

# MLflow reads these when it is imported: it must not report to anybody.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
BATCH = 500  # MLflow takes up to 1000 metrics in one call
KEY_TAG, CELL_TAG, LEVEL_TAG, SEED_TAG = "reglue.key", "reglue.cell", "reglue.level", "reglue.seed"
PARENT = "mlflow.parentRunId"

Change = Literal["kept", "added", "replaced"]
Plain = dict[str, Any]  # Any: JSON holds anything


class Point(NamedTuple):
    name: str
    step: int
    value: float


@dataclass(frozen=True)
class TrackedSeed:
    """One seed of a cell.

    Attributes:
        points: curves of training and validation.
        tags: digests, host, versions.
        started: seconds since 1970; None without a run file.
        seconds: duration; None without a run file.
    """

    seed: int
    metrics: dict[str, float]
    points: list[Point]
    tags: dict[str, str]
    started: float | None
    seconds: float | None


@dataclass(frozen=True)
class TrackedCell:
    """A cell with its seeds.

    Attributes:
        params: model, data and recipe, with dotted keys.
        metrics: mean and spread over the seeds.
        tags: digests of its files and of its dependencies.
    """

    table: str
    cell: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    seeds: list[TrackedSeed]

    @property
    def key(self) -> str:
        return digest_json(asdict(self))


def import_runs(root: Path, database: Path) -> Counter[str]:
    """Import the runs of a project and return how many cells were added, replaced and kept.

    A cell is one run with one nested run a seed, in an experiment named like its table.
    If the files of a cell have changed, its new runs replace the older ones, which MLflow keeps as
    deleted.

    Args:
        database: MLflow's SQLite file, created if missing.
    """
    counts: Counter[str] = Counter()
    cells = [*collect_cells(root)]
    with open_store(database) as store:
        for cell in cells:
            change = store.put(cell)
            counts[change] += 1
            log.info(
                "track %s table=%s cell=%s seeds=%d", change, cell.table, cell.cell, len(cell.seeds)
            )
    log.info("track done added=%(added)d replaced=%(replaced)d kept=%(kept)d", counts)
    return counts


class Store:
    def __init__(self, client: "MlflowClient") -> None:
        self._client = client

    def put(self, cell: TrackedCell) -> Change:
        """Add a cell, unless the same content with all seeds is there.

        Older runs of the cell are deleted softly. The parent gets its key last: a cell without a
        key was interrupted, and is added again.
        """
        experiment = self._find_experiment(cell.table)
        runs = self._client.search_runs([experiment], f"tags.`{CELL_TAG}` = '{cell.cell}'")
        if any(self._is_whole(run, runs, cell) for run in runs):
            return "kept"
        for run in runs:
            self._client.delete_run(run.info.run_id)
        self._add(experiment, cell)
        return "replaced" if runs else "added"

    @staticmethod
    def _is_whole(run: "Run", runs: Sequence["Run"], cell: TrackedCell) -> bool:
        seeds = [item for item in runs if item.data.tags.get(PARENT) == run.info.run_id]
        return run.data.tags.get(KEY_TAG) == cell.key and len(seeds) == len(cell.seeds)

    def _find_experiment(self, table: str) -> str:
        found = self._client.get_experiment_by_name(table)
        if found is None:
            return str(self._client.create_experiment(table))
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _add(self, experiment: str, cell: TrackedCell) -> None:
        begin = min((_begin(seed) for seed in cell.seeds), default=_now())
        end = max((_end(seed) for seed in cell.seeds), default=_now())
        tags = {CELL_TAG: cell.cell, LEVEL_TAG: "cell", **cell.tags}
        parent = self._create(experiment, cell.cell, begin, tags)
        self._log(parent, cell.params, _final(cell.metrics, end))
        for seed in cell.seeds:
            name = f"{cell.cell} seed {seed.seed}"
            tags = {CELL_TAG: cell.cell, LEVEL_TAG: "seed", SEED_TAG: str(seed.seed), **seed.tags}
            run = self._create(experiment, name, _begin(seed), tags | {PARENT: parent})
            points = _build_metrics(seed.points, _begin(seed)) + _final(seed.metrics, _end(seed))
            self._log(run, cell.params | {"seed": str(seed.seed)}, points)
            self._client.set_terminated(run, "FINISHED", _end(seed))
        self._client.set_tag(parent, KEY_TAG, cell.key)
        self._client.set_terminated(parent, "FINISHED", end)

    def _create(self, experiment: str, name: str, begin: int, tags: Mapping[str, str]) -> str:
        run = self._client.create_run(experiment, start_time=begin, tags=dict(tags), run_name=name)
        return str(run.info.run_id)

    def _log(self, run: str, params: Mapping[str, str], metrics: Sequence["Metric"]) -> None:
        from mlflow.entities import Param

        self._client.log_batch(run, params=[Param(key, value) for key, value in params.items()])
        for start in range(0, len(metrics), BATCH):
            self._client.log_batch(run, metrics=metrics[start : start + BATCH])


@contextmanager
def open_store(database: Path) -> Iterator[Store]:
    """Open an MLflow database, created if missing, and upgrade its schema.

    The file is locked while it is open: two processes that both find no database would both create
    its tables, and one would fail.

    Raises:
        UsageError: the path is that of something else or has a `?`, or another version of MLflow
            wrote it.
    """
    uri = name_database(database)
    check_database(database)
    os.environ.update(QUIET)
    from alembic.util import CommandError
    from mlflow import MlflowClient
    from mlflow.db import upgrade

    with FileLock(database.with_name(f"{database.name}.lock")):
        try:
            upgrade.main(args=[uri], standalone_mode=False)
        except CommandError as error:
            raise UsageError(
                f"{database}: found a database of another version of MLflow ({error}); install "
                "that version, or name a new file with --database."
            ) from error
        yield Store(MlflowClient(tracking_uri=uri))


def _build_metrics(points: Iterable[Point], timestamp: int) -> "list[Metric]":
    from mlflow.entities import Metric

    return [Metric(spell(name), value, timestamp, step) for name, step, value in points]


def _final(metrics: Mapping[str, float], timestamp: int) -> "list[Metric]":
    return _build_metrics((Point(key, 0, value) for key, value in metrics.items()), timestamp)


def spell(metric: str) -> str:
    """Return a metric's name in MLflow's character set: `auc@a+` is `auc:a-2b-`."""
    name = metric.replace("@", ":")
    return re.sub(r"[^\w\-./ :]", lambda found: f"-{ord(found[0]):x}-", name)


def _begin(seed: TrackedSeed) -> int:
    return _now() if seed.started is None else int(seed.started * 1000)


def _end(seed: TrackedSeed) -> int:
    return _begin(seed) + int((seed.seconds or 0.0) * 1000)


def _now() -> int:
    return int(time.time() * 1000)


def collect_cells(root: Path) -> Iterator[TrackedCell]:
    """Yield every finished cell that was trained or pretrained, sorted by path.

    Missing files leave a gap, no error: this is a view of what stages wrote.

    Raises:
        DataError: a file is damaged.
    """
    lock = _read_lock(root / "dvc.lock")
    params = read_params(root / "params.yaml")
    for path in sorted(root.glob("artifacts/cells/*/*/cell.json")):
        note = _read_json(path)
        if "bundles" in note:
            continue  # an export: it is not a run
        is_encoder = "metrics" in note
        sort = "encoders" if is_encoder else "recipes"
        sort_of_stage = "pretrain@" if is_encoder else "finetune@"
        if note["cell"] in params.ensembles:
            sort_of_stage = "ensemble@"
        stage = lock.get(f"{sort_of_stage}{note['cell']}", {})
        recorded = stage.get("params", {}).get(f"{GRID}/{note['table']}.yaml", {})
        recipe = recorded.get(f"{sort}.{note['recipe']}")
        known = getattr(params, sort)
        if recipe is None and note["recipe"] in known:
            recipe = known[note["recipe"]].model_dump(mode="json")
        results = _read_json(root / "results" / f"{note['table']}.json").get("cells", {})
        result = results.get(note["cell"])
        if is_encoder:
            scores = {key: _summarise(values) for key, values in note["metrics"].items()}
            result = {"metrics": scores, "seeds": note["seeds"]}
        yield _build_cell(root, path.parent, note, stage=stage, recipe=recipe or {}, result=result)


def _summarise(values: Sequence[float]) -> Plain:
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "sd": sd, "values": values}


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, str]:  # Any: JSON holds anything
    """Return nested mappings as one, keys joined by dots, values as text, None left out."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, name)
        elif value is not None:
            flat[name] = str(value)
    return flat


def _build_cell(
    root: Path, folder: Path, note: Plain, *, stage: Plain, recipe: Plain, result: Plain | None
) -> TrackedCell:
    found = result["metrics"] if result else {}
    measured = result["seeds"] if result else []
    values = {
        seed: {key: score["values"][idx] for key, score in found.items()}
        for idx, seed in enumerate(measured)
    }
    # means over other seeds are from an earlier training of the cell
    scores = found if measured == note["seeds"] else {}
    seeds = [
        _build_seed(root, folder, note, seed=seed, values=values.get(seed, {}))
        for seed in note["seeds"]
    ]
    return TrackedCell(
        table=note["table"],
        cell=note["cell"],
        params={
            "model": note["model"],
            "recipe": note["recipe"],
            "seeds": ", ".join(map(str, note["seeds"])),
            "numerics": str(note["numerics"]),
            **flatten(note["parameters"], "parameters"),
            **flatten(note["data"], "data"),
            **flatten(note["init"] or {}, "init"),
            **flatten(recipe, "recipe"),
        },
        metrics={
            name: value
            for key, score in scores.items()
            for name, value in ((key, score["mean"]), (f"{key}.sd", score["sd"]))
        },
        tags={
            "cell.sha256": digest_file(folder / CELL),
            **flatten(note["fingerprint"], "fingerprint"),
            **_list_digests(stage),
        },
        seeds=seeds,
    )


def _build_seed(
    root: Path, folder: Path, note: Plain, *, seed: int, values: dict[str, float]
) -> TrackedSeed:
    # the history of an encoder's first seed is in the cell's own folder, with its weights
    is_first_of_encoder = "metrics" in note and seed == note["seeds"][0]
    place = folder if is_first_of_encoder else folder / f"seed-{seed}"
    run = _read_json(root / "runs" / note["table"] / note["cell"] / f"seed-{seed}.json")
    started, seconds = run.pop("started", None), run.pop("seconds", None)
    outcome = note["runs"][str(seed)]
    tags = {"weights": outcome["weights"], **flatten(outcome["epochs"], "epoch")}
    events = list[Event]()
    if (place / HISTORY).exists():
        tags["history.sha256"] = digest_file(place / HISTORY)
        events = read_history(place)
    return TrackedSeed(
        seed=seed,
        metrics=values,
        points=[
            Point(name, event.get("step", 0), value)
            for event in events
            for name, value in list_values(event).items()
        ],
        tags=tags | flatten(run, "run"),
        started=started,
        seconds=seconds,
    )


def _list_digests(stage: Plain) -> dict[str, str]:
    """Return DVC's digests of a stage's dependencies and outputs."""
    return {
        f"dvc.{sort}.{item['path']}": item["md5"]
        for sort in ("deps", "outs")
        for item in stage.get(sort, [])
        if "md5" in item
    }


def _read_lock(path: Path) -> dict[str, Plain]:
    if not path.exists():
        log.warning("track: no %s: runs will have no digests of DVC", path)
        return {}
    remedy = "run `dvc repro`, or take it from Git"
    try:
        lock = yaml.safe_load(path.read_bytes()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not valid YAML; {remedy}.") from error
    if not isinstance(lock, dict):
        raise DataError(f"{path}: not valid: found no mapping of stages; {remedy}.")
    return lock.get("stages") or {}


def _read_json(path: Path) -> Plain:
    return _parse(path.read_bytes(), path) if path.exists() else {}


def _parse(content: bytes, path: Path) -> Plain:
    remedy = "so the file is damaged; make it again, or take it from Git"
    try:
        found: Plain = json.loads(content.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not valid JSON, {remedy}.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: not valid: found no JSON object, {remedy}.")
    return found
