"""Train a cell: every seed of an experiment, resumable, into one folder.

A finished seed is kept in a work folder whose name is the digest of all that the cell depends on.
So a killed cell resumes at its seed, and within the seed at the last checkpoint; a cell that is
given one seed more trains that one alone. The cell's own folder appears whole, at the end.
"""

import fcntl
import logging
import platform
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.config.params import ExperimentConfig, Params, RecipeConfig
from nlp_core.data.batching import Ragged
from nlp_core.data.gazetteer import require_file
from nlp_core.data.task import NEXT_WORD, Task, list_footnotes, read_task
from nlp_core.data.vocabulary import UNKNOWN
from nlp_core.errors import ConfigError, DataError, TrainingError, suggest
from nlp_core.files import (
    digest_file,
    digest_json,
    format_line,
    replacing_folder,
    write_json,
    write_text,
)
from nlp_core.metrics import check_metrics, check_selecting_metric
from nlp_core.models.features import EncodedSplit, Featurizer, list_files
from nlp_core.models.graph import GraphModel, build_model, count_parameters
from nlp_core.models.plan import ModelPlan, read_plan
from nlp_core.models.saving import WEIGHTS, save_model
from nlp_core.training.checkpoint import Progress
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.loop import Trained, Trainer, count_batches, load_weights
from nlp_core.training.prediction import predict, write_predictions
from nlp_core.training.progress import show_progress

log = logging.getLogger(__name__)

HONEST = "honest"
PAPER = "paper"


@dataclass(frozen=True)
class Cell:
    """All that a cell is made of, checked.

    Attributes:
        name: key of the experiment.
        experiment: table, model, data, init, recipe's name, seeds.
        recipe: how to train.
        numerics: of params.yaml.
        plan: the model.
        task: the processed task.
        init: folder of the vectors.
    """

    name: str
    experiment: ExperimentConfig
    recipe: RecipeConfig
    numerics: int
    plan: ModelPlan
    task: Task
    init: Path

    @property
    def key(self) -> str:
        """Digest of what the weights of a seed depend on."""
        files = {str(path): digest_file(path) for path in list_files(self.plan)}
        return digest_json(
            {
                "numerics": self.numerics,
                "model": read_mapping(Path(self.experiment.model)),
                "recipe": self.recipe.describe(),
                "data": self.task.digest,
                "init": self.init_digest,
                "machine": describe_machine(),
            }
            | ({"files": files} if files else {})
        )

    @property
    def init_digest(self) -> str:
        """Digest of the vector tables that the model starts from."""
        return digest_json(read_mapping(self.init / "manifest.json")["tables"])


def read_cell(name: str, params: Params) -> Cell:
    """Read and check all that a cell is made of, before any work starts.

    Raises:
        ConfigError: no experiment has that name; the model file is wrong.
        DataError: the task or the vectors are not processed yet, or a file that a layer names is
            missing.
    """
    if name not in params.experiments:
        raise ConfigError(
            f"params.yaml: experiments: unknown cell '{name}'. {suggest(name, params.experiments)}"
        )
    experiment = params.experiments[name]
    init = Path(experiment.init)
    if not (init / "manifest.json").exists():
        raise DataError(
            f"{init / 'manifest.json'}: there is no such file, so '{init}', the init of cell "
            f"'{name}', is not made yet; run `dvc repro preprocess@{init.name}`."
        )
    kind = read_mapping(init / "manifest.json")["kind"]
    if kind != "vectors":
        raise ConfigError(
            f"params.yaml: experiments.{name}.init: found '{init}', which holds {kind} data, "
            "expected word vectors, such as data/processed/glove."
        )
    task = read_task(Path("data/processed") / experiment.data)
    where = str(task.folder / "manifest.json")
    check_metrics(task.kind, task.metrics, labels=task.labels, where=where)
    check_selecting_metric(task.metrics[0], where=where)
    plan = read_plan(Path(experiment.model))
    for path in list_files(plan):
        require_file(path)
    return Cell(
        name=name,
        experiment=experiment,
        recipe=params.recipes[experiment.recipe],
        numerics=params.numerics,
        plan=plan,
        task=task,
        init=init,
    )


def train_cell(cell: Cell) -> Path:
    """Train all seeds of a cell and return its folder.

    Raises:
        TrainingError: a loss is not finite, or another process trains this cell.
    """
    place = f"{cell.experiment.table}/{cell.name}"
    work = Path("artifacts/work") / place / cell.key[:16]
    with locked(work, "cell"):
        finished = {seed: _train_seed(cell, seed, work) for seed in cell.experiment.seeds}
        target = Path("artifacts/finetune") / place
        with replacing_folder(target) as folder:
            for seed, done in finished.items():
                shutil.copytree(done, folder / f"seed-{seed}")
            write_json(folder / "cell.json", _describe(cell, finished))
        for other in work.parent.iterdir():
            if other != work:
                shutil.rmtree(other)
    log.info("finetune done cell=%s seeds=%s", cell.name, cell.experiment.seeds)
    return target


def _train_seed(cell: Cell, seed: int, work: Path) -> Path:
    """Train one seed unless it is finished, and return the folder that holds it."""
    done = work / f"seed-{seed}"
    if done.exists():
        log.info("finetune kept cell=%s seed=%d", cell.name, seed)
        return done
    started = time.time()
    seed_everything(seed)
    model, featurizer, splits = _prepare(cell)
    checkpoint = work / f"seed-{seed}.safetensors"
    steps = count_batches(model, splits["train"], cell.recipe.batch_size) * cell.recipe.epochs
    with show_progress(f"{cell.name} seed {seed}", steps) as on_step:
        trained = Trainer(
            model,
            cell.task,
            train=splits["train"],
            selections=_selections(cell.task, splits),
            recipe=cell.recipe,
            seed=seed,
            checkpoint=checkpoint,
            on_step=on_step,
        ).run()
    with replacing_folder(done) as folder:
        save_model(folder, trained.states[HONEST], featurizer)
        _write_history(folder, trained.progress)
        _write_predictions(cell, model, trained, splits, folder)
        write_json(folder / "seed.json", _describe_seed(folder, model, trained))
    checkpoint.unlink(missing_ok=True)
    _write_run(cell, seed, started)
    return done


def _prepare(cell: Cell) -> tuple[GraphModel, Featurizer, dict[str, EncodedSplit]]:
    train = cell.task.read_split("train")
    featurizer = Featurizer.build(cell.plan, cell.task, train, cell.init)
    model = build_model(cell.plan, featurizer, kind=cell.task.kind)
    names = (cell.task.select_split, cell.task.report_split)
    splits = {name: featurizer.encode(cell.task.read_split(name)) for name in names}
    splits = {"train": featurizer.encode(train), **splits}
    _log_words(featurizer, splits)
    return model, featurizer, splits


def _log_words(featurizer: Featurizer, splits: dict[str, EncodedSplit]) -> None:
    """Say how large the vocabularies are, and how much of what is to be predicted is unknown."""
    for layer, vocabulary in featurizer.vocabularies.items():
        log.info("finetune vocabulary layer=%s size=%d", layer, len(vocabulary))
    for name, encoded in splits.items():
        words = encoded.targets.get(NEXT_WORD)
        if isinstance(words, Ragged):
            share = float((words.values == UNKNOWN).sum() / (words.values >= 0).sum())
            log.info("finetune next words split=%s unknown=%.4f", name, share)


def _selections(task: Task, splits: dict[str, EncodedSplit]) -> dict[str, EncodedSplit]:
    """Return what each way of choosing the epoch looks at.

    Where a part of the training split chooses, the paper chose on the reported split itself; the
    cell then has both numbers.
    """
    selections = {HONEST: splits[task.select_split]}
    if task.select_split == "held_out":
        selections[PAPER] = splits[task.report_split]
    return selections


def _write_predictions(
    cell: Cell,
    model: GraphModel,
    trained: Trained,
    splits: dict[str, EncodedSplit],
    folder: Path,
) -> None:
    task = cell.task
    predictions = {}
    for selection in sorted(trained.states):
        load_weights(model, trained.states[selection])
        names = [task.select_split, task.report_split] if selection == HONEST else []
        names = names or [task.report_split]
        predictions[selection] = [predict(model, splits[name], task.targets) for name in names]
    write_predictions(folder / "predictions" / f"{task.name}.parquet", task, predictions)


def _write_history(folder: Path, progress: Progress) -> None:
    lines = "".join(format_line(event) for event in progress.events)
    write_text(folder / "history.jsonl", lines)


def _describe_seed(folder: Path, model: GraphModel, trained: Trained) -> dict[str, Any]:
    return {
        "weights": f"sha256:{digest_file(folder / WEIGHTS)}",
        "epochs": {name: best.epoch for name, best in trained.progress.best.items()},
        "parameters": count_parameters(model),
    }


def _describe(cell: Cell, finished: dict[int, Path]) -> dict[str, Any]:
    """Return cell.json: what the cell is, without times, hosts or paths of this machine."""
    seeds = {str(seed): read_mapping(path / "seed.json") for seed, path in finished.items()}
    task, experiment = cell.task, cell.experiment
    return {
        "table": experiment.table,
        "cell": cell.name,
        "model": experiment.model,
        "recipe": experiment.recipe,
        "seeds": experiment.seeds,
        "numerics": cell.numerics,
        "data": {task.name: f"sha256:{task.digest}"},
        "init": {
            "path": experiment.init,
            "sha256": f"sha256:{cell.init_digest}",
        },
        "fingerprint": describe_machine(),
        "parameters": next(iter(seeds.values()))["parameters"],
        "tasks": {
            task.name: {
                "kind": task.kind,
                "labels": task.labels,
                "metrics": task.metrics,
                "select_split": task.select_split,
                "report_split": task.report_split,
                "scheme": task.scheme,
                "footnotes": [*task.footnotes, *_init_footnotes(cell.init)],
            }
        },
        "runs": {seed: {k: note[k] for k in ("weights", "epochs")} for seed, note in seeds.items()},
    }


def _init_footnotes(init: Path) -> list[str]:
    return list_footnotes(read_mapping(init / "manifest.json").get("source", {}))


def _write_run(cell: Cell, seed: int, started: float) -> None:
    """Write the facts that must not be part of a result: time, host, versions."""
    path = Path("runs") / cell.experiment.table / cell.name / f"seed-{seed}.json"
    note = {
        "started": started,
        "seconds": time.time() - started,
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
    }
    write_json(path, note)


@contextmanager
def locked(work: Path, what: str) -> Iterator[None]:
    """Hold a work folder for this process alone; it is made when it is not there.

    Args:
        work: the folder.
        what: is trained there, for the error message.

    Raises:
        TrainingError: another process holds it.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise TrainingError(
                f"{work}: another process trains this {what}; wait for it to end, or stop it."
            ) from err
        yield
