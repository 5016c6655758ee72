"""Train a model on one's own files, into a folder that holds all that prediction needs.

The folder appears whole, at the end. What was done when a run was killed lies beside it, in
`<folder>.work`, under a digest of all that the weights depend on, and the same call goes on there.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.model import ModelConfig
from nlp_core.config.model_file import format_model
from nlp_core.config.reader import PIECES, TEXTS, WHOLE_TEXTS
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.data.store import StoredSplit
from nlp_core.data.task import Split, Task
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.encoders import PretrainedEncoder
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.errors import ConfigError
from nlp_core.files import (
    digest_file,
    digest_json,
    format_line,
    replacing_folder,
    write_json,
    write_text,
)
from nlp_core.metrics import check_metrics, check_selecting_metric
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model, count_parameters
from nlp_core.models.plan import ModelPlan, plan_model
from nlp_core.models.plugin import Plugin
from nlp_core.models.saving import save_model
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.lock import locked
from nlp_core.training.loop import HONEST, Trainer
from nlp_core.training.prediction import predict, score_predictions
from nlp_core.training.progress import show_progress
from nlp_core.training.task_run import TaskRun
from nlp_core.training.user_folder import FORMAT_VERSION, MODEL, RUN, VECTORS
from nlp_core.training.user_splits import read_splits
from nlp_core.training.user_start import UserStart

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UserRun:
    """What to train, on what, into which folder.

    Attributes:
        name: of the model file, for error messages.
        model: its whole content, as it will be saved; it has a `data` section.
        files: "train", and where they are given "dev", which chooses the epoch (else a part of
            train is held out), and "test", which is measured once, at the end.
        output: the folder to make.
        init: folder of word vectors, or of a pretrained encoder; None: none.
        start: the trained model to go on with; None: none.
        plugins: what was loaded.
        seed: of weights, order and the part that is held out.
    """

    name: str
    model: dict[str, Any]
    files: dict[str, Path]
    output: Path
    init: Path | None
    start: UserStart | None
    plugins: list[Plugin]
    seed: int

    @property
    def key(self) -> str:
        """Digest of what the weights depend on."""
        files = {name: digest_file(path) for name, path in self.files.items() if name != "test"}
        return digest_json(
            {
                "model": self.model,
                "files": files,
                "vectors": digest_init(self.init) if self.init else None,
                "plugins": [plugin.sha256 for plugin in self.plugins],
                "seed": self.seed,
                "machine": describe_machine(),
            }
            | ({"start": self.start.digest} if self.start else {})
        )

    @property
    def vectors(self) -> Path | None:
        """Folder of what words and texts are read with, unless the model keeps all of that."""
        return self.start.init if self.start else self.init


def train_run(run: UserRun, config: ModelConfig) -> dict[str, Any]:
    """Train, and return the best epoch and the metrics of each split that was measured.

    Args:
        run: what to train.
        config: the checked form of `run.model`.

    Raises:
        ConfigError: the model does not fit the kind of data.
        DataError: a file is missing or malformed.
        TrainingError: a loss is not finite, or another process trains into the folder.
    """
    plan = check_model(config, run.name, run.init, run.start)
    assert config.data is not None, run.name
    splits, targets = read_splits(run.files, config.data, list_pieces(plan), run.seed)
    task = build_task(config.data, targets, run.output.name)
    where = f"{run.name}: data.metrics"
    check_metrics(task.kind.name, task.metrics, labels=task.labels, where=where)
    for name, split in splits.items():
        for target, labels in task.targets.items():
            split.encode_target(target, labels)
        log.info("train split name=%s rows=%d", name, len(split))
    work = run.output.with_name(f"{run.output.name}.work")
    with locked(work, "model"):
        try:
            return _train(run, plan, config.training or TrainingConfig(), task, splits, work)
        finally:
            if not list(work.glob("*.safetensors")):
                shutil.rmtree(work, ignore_errors=True)


def digest_init(init: Path) -> str:
    """Return the digest of a folder of vectors or of an encoder."""
    if (init / ENCODER_FILES[0]).exists():
        return digest_json({name: digest_file(init / name) for name in ENCODER_FILES})
    return digest_file(init / "manifest.json")


def list_pieces(plan: ModelPlan) -> list[str]:
    """Return the columns that a model cuts into pieces of its own."""
    columns = set(plan.inputs.values())
    return sorted(name for name in columns if name in WHOLE_TEXTS or name.endswith(PIECES))


def check_model(
    config: ModelConfig, where: str, init: Path | None, start: UserStart | None = None
) -> ModelPlan:
    """Plan a model and check that it fits its `data` section, before any file is read.

    Args:
        config: the model.
        where: its name, for error messages.
        init: folder of vectors or of an encoder that it starts from; None: none.
        start: the trained model that it starts from; None: none.

    Raises:
        ConfigError: a layer is wrong, a head or an input serves another kind of data, a layer
            starts from vectors and there are none, or the trained model has other layers.
    """
    plan = plan_model(config, where=where)
    data = config.data
    if data is None:
        raise ConfigError(f"{where}: data: found nothing, expected how the files are read.")
    try:
        (LOCATORS if data.kind.has_passages or data.has_spans else TOKENIZERS).get(data.tokens)
    except ConfigError as err:
        raise ConfigError(f"{where}: data.tokens: {err}") from err
    check_metrics(data.kind.name, data.metrics_or_usual, where=f"{where}: data.metrics")
    check_selecting_metric(data.metrics_or_usual[0], where=f"{where}: data")
    for head in plan.heads.values():
        if data.kind.name not in head.head.kinds:
            raise ConfigError(
                f"{where}: head '{head.name}': serves {', '.join(sorted(head.head.kinds))}, and "
                f"data.kind is {data.kind}; expected one that fits the other."
            )
    for name, column in plan.inputs.items():
        has_texts = bool(data.kind.texts) if column == TEXTS else column in data.kind.texts
        is_known = has_texts or column in data.extras
        if not is_known and column.partition(".")[0] not in data.text_names:
            raise ConfigError(
                f"{where}: inputs: '{name}' reads '{column}'; data of kind {data.kind} has "
                f"{' and '.join([*data.text_names, *data.extras])}."
            )
    if start is not None:
        start.check(plan)
    _check_encoder(plan, data, init, start)
    for layer in plan.layers:
        is_given = init is not None or (start is not None and start.has(layer))
        if layer.options.get("vectors") and not is_given:
            raise ConfigError(
                f"{where}: layer '{layer.name}': starts from the vector table "
                f"'{layer.options['vectors']}', and no vectors were given. Give --vectors FILE, or "
                f"start from random ones: --set layers.{layer.owner}.vectors=null."
            )
    return plan


def _check_encoder(
    plan: ModelPlan, data: DataConfig, init: Path | None, start: UserStart | None
) -> None:
    """Refuse an encoder that a model has not, or has and was not given."""
    encoders = [layer for layer in plan.layers if issubclass(layer.block, PretrainedEncoder)]
    layers = [layer.name for layer in encoders]
    is_given = init is not None and (init / ENCODER_FILES[0]).exists()
    lacking = [item.name for item in encoders if not (start is not None and start.has(item))]
    if lacking and not is_given:
        raise ConfigError(
            f"{plan.where}: layer '{lacking[0]}': is a pretrained encoder, and none was given. "
            "Give --init FOLDER, one with config.json, model.safetensors and tokenizer.json."
        )
    if is_given and not layers:
        raise ConfigError(
            f"{plan.where}: layers: found none of the block pretrained_encoder, so that the "
            f"encoder {init} would not be read; leave --init out, or see reglue new --encoder."
        )
    if {*WHOLE_TEXTS} & {*plan.inputs.values()} and data.max_tokens is not None:
        raise ConfigError(
            f"{plan.where}: data.max_tokens: found {data.max_tokens}, but the encoder reads the "
            f"texts whole; set layers.{layers[0]}.max_length, in pieces."
        )


def build_task(data: DataConfig, targets: dict[str, list[str]], name: str) -> Task:
    """Return the task that files of one's own set.

    Args:
        data: how they are read.
        targets: by target (label, labels, tags) all labels; none for values.
        name: what messages call it.
    """
    return Task(
        name=name,
        kind=data.kind,
        targets=targets,
        metrics=data.metrics_or_usual,
        select_split="dev",
        report_split="test",
        scheme=data.target_scheme,
        footnotes=[],
        digest="",
        folder=Path(),
    )


def _train(
    run: UserRun,
    plan: ModelPlan,
    training: TrainingConfig,
    task: Task,
    splits: Mapping[str, StoredSplit | Split],
    work: Path,
) -> dict[str, Any]:
    seed_everything(run.seed)
    known = run.start.recall(plan) if run.start else {}
    trained_on, vectors = [(task, splits["train"])], run.vectors or Path(VECTORS)
    featurizer = Featurizer.build_all(plan, trained_on, vectors, known)[task.name]
    model = build_model(plan, featurizer, kind=task.kind)
    if run.start is not None:
        run.start.give(model, featurizer)
    encoded = {name: featurizer.encode(split) for name, split in splits.items()}
    checkpoint = _find_checkpoint(run, work)
    trainer = Trainer(
        model,
        [TaskRun(task, model, encoded, {HONEST: "dev"})],
        recipe=training,
        seed=run.seed,
        checkpoint=checkpoint,
        max_steps=training.max_steps,
    )
    with show_progress(run.output.name, trainer.num_steps) as on_step:
        trained = trainer.run(on_step)
    model.load_state_dict(trained.states[HONEST])
    measured = {
        name: score_predictions(task, predict(model, encoded[name], task.targets))
        for name in ("dev", "test")
        if name in encoded
    }
    metrics = {"best_epoch": trained.progress.best[HONEST].epoch, "metrics": measured}
    with replacing_folder(run.output) as folder:
        save_model(folder, trained.states[HONEST], {task.name: featurizer})
        write_text(folder / MODEL, format_model(run.model))
        lines = "".join(format_line(event) for event in trained.progress.events)
        write_text(folder / "history.jsonl", lines)
        if run.vectors is not None and not list_pieces(plan):
            _keep_vectors(run.vectors, plan, folder / VECTORS)
        write_json(folder / "metrics.json", {**metrics, "parameters": count_parameters(model)})
        write_json(folder / RUN, _describe(run, task))
    checkpoint.unlink(missing_ok=True)
    return metrics


def _keep_vectors(init: Path, plan: ModelPlan, folder: Path) -> None:
    """Give the files of the vectors a second name, or copy them where that cannot be."""
    folder.mkdir()
    named = {layer.options.get("vectors") for layer in plan.layers}
    for table in sorted(str(name) for name in named if name):
        for ending in ("safetensors", "words.txt"):
            name = f"{table}.{ending}"
            try:
                os.link(init / name, folder / name)
            except OSError:
                shutil.copyfile(init / name, folder / name)


def _describe(run: UserRun, task: Task) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "kind": task.kind.name,
        "targets": task.targets,
        "plugins": [plugin._asdict() for plugin in run.plugins],
        "seed": run.seed,
        "files": {name: digest_file(path) for name, path in run.files.items()},
        "fingerprint": describe_machine(),
        **({"start": run.start.digest} if run.start else {}),
    }


def _find_checkpoint(run: UserRun, work: Path) -> Path:
    """Return the path of this run's checkpoint; those of other runs in the folder are removed."""
    path = work / f"{run.key[:16]}.safetensors"
    for other in work.glob("*.safetensors"):
        if other != path:
            log.info("train start afresh: the run that was killed here had other settings")
            other.unlink()
    if path.exists():
        log.info("train go on from the checkpoint of the run that was killed here")
    return path
