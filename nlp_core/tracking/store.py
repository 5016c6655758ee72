"""The MLflow database: the only module that imports MLflow.

MLflow takes seconds to import, so it is imported when a store is opened.
"""

import fcntl
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nlp_core.tracking.runs import TrackedCell, TrackedSeed, collect_cells

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

log = logging.getLogger(__name__)

# MLflow reads these when it is imported: it must not report to anybody.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
BATCH = 500  # MLflow takes up to 1000 metrics in one call
KEY, CELL, LEVEL, SEED = "reglue.key", "reglue.cell", "reglue.level", "reglue.seed"
PARENT = "mlflow.parentRunId"

Change = Literal["kept", "added", "replaced"]


def import_runs(root: Path, database: Path) -> Counter[str]:
    """Import the runs of a project and return how many cells were added, replaced and kept.

    A cell is one run with one nested run a seed, in an experiment named like its table; so is an
    encoder that was pretrained here. A cell whose files changed since
    replaces the older runs, which MLflow keeps as deleted.

    Args:
        database: MLflow's SQLite file; it is made when missing.

    Raises:
        ConfigError: params.yaml is wrong.
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
        runs = self._client.search_runs([experiment], f"tags.`{CELL}` = '{cell.cell}'")
        if any(self._is_whole(run, runs, cell) for run in runs):
            return "kept"
        for run in runs:
            self._client.delete_run(run.info.run_id)
        self._add(experiment, cell)
        return "replaced" if runs else "added"

    @staticmethod
    def _is_whole(run: "Run", runs: Sequence["Run"], cell: TrackedCell) -> bool:
        """Return whether a run is the current cell with all of its seeds."""
        seeds = [item for item in runs if item.data.tags.get(PARENT) == run.info.run_id]
        return run.data.tags.get(KEY) == cell.key and len(seeds) == len(cell.seeds)

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
        tags = {CELL: cell.cell, LEVEL: "cell", **cell.tags}
        parent = self._create(experiment, cell.cell, begin, tags)
        self._log(parent, cell.params, _final(cell.metrics, end))
        for seed in cell.seeds:
            name = f"{cell.cell} seed {seed.seed}"
            tags = {CELL: cell.cell, LEVEL: "seed", SEED: str(seed.seed), **seed.tags}
            run = self._create(experiment, name, _begin(seed), tags | {PARENT: parent})
            points = _curves(seed, _begin(seed)) + _final(seed.metrics, _end(seed))
            self._log(run, cell.params | {"seed": str(seed.seed)}, points)
            self._client.set_terminated(run, "FINISHED", _end(seed))
        self._client.set_tag(parent, KEY, cell.key)
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
    """
    os.environ.update(QUIET)
    from mlflow import MlflowClient
    from mlflow.db import upgrade

    uri = f"sqlite:///{database}"
    with database.with_name(f"{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        upgrade.main(args=[uri], standalone_mode=False)
        yield Store(MlflowClient(tracking_uri=uri))


def _final(metrics: Mapping[str, float], timestamp: int) -> "list[Metric]":
    from mlflow.entities import Metric

    return [Metric(spell(key), value, timestamp, 0) for key, value in metrics.items()]


def _curves(seed: TrackedSeed, begin: int) -> "list[Metric]":
    from mlflow.entities import Metric

    return [Metric(spell(point.name), point.value, begin, point.step) for point in seed.points]


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
