"""All that a cell of the grid is made of, read and checked before any work starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.base import (
    PROCESSED,
    check_known,
    name_folder,
    name_predictions,
    read_mapping,
)
from nlp_core.config.params import GRID, ExperimentConfig, Params
from nlp_core.data.corpus import read_any_task
from nlp_core.data.gazetteer import require_gazetteer
from nlp_core.data.task import Task, list_footnotes
from nlp_core.errors import ConfigError
from nlp_core.files import MANIFEST, digest_file, digest_json, write_json
from nlp_core.metrics import check_metrics, check_selecting_metric
from nlp_core.models.plan import read_plan
from nlp_core.models.saving import WEIGHTS
from nlp_core.prediction.split_prediction import write_predictions
from nlp_core.training.determinism import describe_machine
from nlp_core.training.run import FinishedSeed, Run
from nlp_core.training.start import digest_init, read_init_kind, read_start

ENCODER = "encoder"
VECTORS = "vectors"


@dataclass(frozen=True, kw_only=True)
class Cell(Run):
    """All that a cell is made of, checked; its name is the key of the experiment."""

    experiment: ExperimentConfig
    numerics: int

    @property
    def key(self) -> str:
        """Digest of what the weights of a seed depend on."""
        model = read_mapping(Path(self.experiment.model))
        data = [task.digest for task in self.tasks]
        files = {str(path): digest_file(path) for path in self.plan.files}
        return digest_json(
            {
                "numerics": self.numerics,
                "model": {k: v for k, v in model.items() if k not in ("description", "source")},
                "recipe": self.recipe.describe(),
                "data": data if len(data) > 1 else data[0],
                "init": digest_init(self.init),
                "machine": describe_machine(),
            }
            | ({"files": files} if files else {})
            | ({"start": {"keep_heads": self.start.keep_heads}} if self.start else {})
        )

    @property
    def folder(self) -> Path:
        """The folder of its trained seeds."""
        return Path(name_folder(self.experiment.table, self.name))

    def name_seed(self, seed: int) -> str:
        """Return the name of a seed's work folder, with the weights that it starts from."""
        if self.start is None:
            return f"seed-{seed}"
        return f"seed-{seed}-{digest_file(self.start.find(seed) / WEIGHTS)[:16]}"

    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        for task in self.tasks:
            path = folder / name_predictions(task.name)
            write_predictions(path, task, finished.predictions[task.name])
        write_json(folder / "seed.json", _describe_seed(folder, finished, self.tasks))


def read_cell(name: str, params: Params) -> Cell:
    """Read and check all that a cell is made of, before any work starts.

    Raises:
        ConfigError: no experiment has that name; the model file is wrong.
        DataError: the task or the vectors are not processed yet, or a file that a layer names is
            missing.
    """
    check_known(f"{GRID}/: experiments", "cell", name, params.experiments, ConfigError)
    experiment = params.experiments[name]
    start = read_start(name, params)
    init = start.init if start else Path(experiment.init)
    found = read_init_kind(init, f"cell '{name}'")
    if found not in (VECTORS, ENCODER):
        raise ConfigError(
            f"{GRID}/{experiment.table}.yaml: experiments.{name}.init: found '{init}', which holds "
            f"{found} data, expected word vectors, such as data/processed/glove, or a pretrained "
            "encoder."
        )
    folders = params.list_members(f"{PROCESSED}/{experiment.data}")
    tasks = [read_any_task(Path(folder)) for folder in folders]
    for task in tasks:
        where = str(task.folder / MANIFEST)
        check_metrics(task.kind.name, task.metrics, labels=task.labels, where=where)
        check_selecting_metric(task.metrics[0], where=where)
    plan = read_plan(Path(experiment.model))
    names = sorted(task.name for task in tasks)
    if len(names) > 1 and not plan.tasks:
        raise ConfigError(
            f"{plan.where}: heads: found no task named, expected a head with `task` for each of "
            f"{', '.join(names)}."
        )
    for task_name in names:
        plan.for_task(task_name)
    if start is not None:
        start.check(plan)
    for path in plan.files:
        require_gazetteer(path)
    return Cell(
        name=name,
        experiment=experiment,
        recipe=params.recipes[experiment.recipe],
        numerics=params.numerics,
        plan=plan,
        tasks=tasks,
        init=init,
        start=start,
    )


def _describe_seed(folder: Path, finished: FinishedSeed, tasks: list[Task]) -> dict[str, Any]:
    progress = finished.progress
    return {
        "weights": f"sha256:{digest_file(folder / WEIGHTS)}",
        "predictions": {
            task.name: f"sha256:{digest_file(folder / name_predictions(task.name))}"
            for task in tasks
        },
        "validations": [item["digest"] for item in progress.events if item["event"] == "weights"],
        "epochs": {name: best.epoch for name, best in progress.best.items()},
        "parameters": finished.parameters,
    }


def describe_cell(cell: Cell, finished: Mapping[int, Path]) -> dict[str, Any]:
    """Return cell.json: what the cell is, without times, hosts or paths of this machine.

    Args:
        finished: the folder of each trained seed.
    """
    seeds = {str(seed): read_mapping(path / "seed.json") for seed, path in finished.items()}
    experiment, init = cell.experiment, digest_init(cell.init)
    if cell.start is not None:
        init = digest_json([cell.name_seed(seed) for seed in experiment.seeds])
    footnotes = list_footnotes(read_mapping(cell.init / MANIFEST).get("source", {}))
    return {
        "table": experiment.table,
        "cell": cell.name,
        "model": experiment.model,
        "recipe": experiment.recipe,
        "recipe_digest": digest_json(cell.recipe.describe()),
        "seeds": experiment.seeds,
        "numerics": cell.numerics,
        "data": {task.name: f"sha256:{task.digest}" for task in cell.tasks},
        "init": {"path": experiment.init, "sha256": f"sha256:{init}"},
        "fingerprint": describe_machine(),
        "parameters": next(iter(seeds.values()))["parameters"],
        "tasks": {
            task.name: {
                "kind": task.kind.name,
                "labels": task.labels,
                "metrics": task.metrics,
                "select_split": task.select_split,
                "report_split": task.report_split,
                "scheme": task.scheme,
                "footnotes": [*task.footnotes, *footnotes],
            }
            # left out of other tasks: their cell.json keeps its bytes
            | (
                {"further_report_splits": [*task.further_report_splits]}
                if task.further_report_splits
                else {}
            )
            for task in cell.tasks
        },
        "runs": {
            seed: {key: note[key] for key in ("weights", "predictions", "validations", "epochs")}
            for seed, note in seeds.items()
        },
    }
