"""Train a model on the user's files, into a folder that holds all that prediction needs.

The folder appears whole, at the end. The checkpoint of a killed run is kept in `<folder>.work`,
under a digest of all that the weights depend on, and the same call goes on from it.
"""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.config.model import ModelConfig, parse_model
from nlp_core.config.model_file import format_model
from nlp_core.config.reader import TEXTS, WHOLE_TEXTS
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.data.user_task import read_user_task
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError
from nlp_core.files import (
    digest_file,
    digest_json,
    write_json,
    write_text,
)
from nlp_core.metrics import check_metrics, check_selecting_metric
from nlp_core.models.features import list_piece_columns
from nlp_core.models.graph import count_parameters
from nlp_core.models.plan import ModelPlan, plan_model
from nlp_core.models.plugin import Plugin
from nlp_core.prediction.split_prediction import score_predictions
from nlp_core.prediction.trained_model import FORMAT_VERSION, MODEL, RUN, VECTORS
from nlp_core.training.determinism import describe_machine
from nlp_core.training.processes import Processes
from nlp_core.training.run import FinishedSeed, Run
from nlp_core.training.seed_run import train_run
from nlp_core.training.start import Start
from nlp_core.training.task_run import HONEST
from nlp_core.training.work import locked

log = logging.getLogger(__name__)

METRICS = "metrics.json"


@dataclass(frozen=True, kw_only=True)
class UserRun(Run):
    """A model to train on the user's files.

    Attributes:
        model: the whole content of the model file, as it will be saved; it has a `data` section.
        files: "train", and where they are given "dev", which chooses the epoch (else a part of
            train is held out), and "test", which is measured once, at the end.
        output: the folder to make.
        vectors: folder of what words and texts are read with; None: the model keeps all of that.
        plugins: what was loaded.
        seed: of weights, order and the part that is held out.
    """

    model: dict[str, Any]
    files: dict[str, Path]
    output: Path
    vectors: Path | None
    plugins: list[Plugin]
    seed: int

    @property
    def key(self) -> str:
        """Digest of what the weights depend on."""
        files = {name: digest_file(path) for name, path in self.files.items() if name != "test"}
        is_given = self.vectors is not None and self.start is None
        return digest_json(
            {
                "model": self.model,
                "files": files,
                "vectors": digest_init(self.init) if is_given else None,
                "plugins": [plugin.sha256 for plugin in self.plugins],
                "seed": self.seed,
                "machine": describe_machine(),
            }
            | ({"start": self.start.digest(self.seed)} if self.start else {})
        )

    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        """Write metrics.json, and what the model is opened with: run.json last."""
        write_text(folder / MODEL, format_model(self.model))
        if self.vectors is not None and not list_piece_columns(self.plan):
            _keep_vectors(self.vectors, self.plan, folder / VECTORS)
        metrics = {
            found.split.name: score_predictions(self.task, found)
            for found in finished.predictions[self.task.name][HONEST]
        }
        best = finished.progress.best[HONEST].epoch
        note = {"best_epoch": best, "metrics": metrics}
        note["parameters"] = count_parameters(finished.model)
        write_json(folder / METRICS, note)
        write_json(folder / RUN, _describe(self))


def read_user_run(
    name: str,
    model: dict[str, Any],
    files: dict[str, Path],
    output: Path,
    *,
    init: Path | None,
    start: Start | None,
    plugins: list[Plugin],
    seed: int,
) -> UserRun:
    """Check a model and read the files that it is trained on, before any work starts.

    Args:
        name: of the model file, for error messages.
        model: its whole content.
        files: "train", and where they are given "dev" and "test".
        output: the folder to make.
        init: folder of word vectors, or of a pretrained encoder; None: none.
        start: the trained model to go on with; None: none.
        plugins: what was loaded.
        seed: of the run.

    Raises:
        ConfigError: the model does not fit the kind of data.
        DataError: a file is missing or malformed.
    """
    config = parse_model(model, name)
    plan = check_model(config, name, init, start)
    assert config.data is not None, name
    pieces = list_piece_columns(plan)
    task = read_user_task(files, config.data, pieces, name=output.name, seed=seed)
    where = f"{name}: data.metrics"
    check_metrics(task.kind.name, task.metrics, labels=task.labels, where=where)
    training = config.training or TrainingConfig()
    vectors = start.init if start else init
    return UserRun(
        name=output.name,
        plan=plan,
        recipe=training,
        tasks=[task],
        init=vectors or Path(VECTORS),
        start=start,
        max_steps=training.max_steps,
        model=model,
        files=files,
        output=output,
        vectors=vectors,
        plugins=plugins,
        seed=seed,
    )


def train_user_run(run: UserRun) -> dict[str, Any]:
    """Train, and return the best epoch and the metrics of each split that was measured.

    Raises:
        TrainingError: a loss is not finite, or another process trains into the folder.
    """
    work = run.output.with_name(f"{run.output.name}.work")
    with locked(work, "model"):
        try:
            train_run(run, run.seed, run.output, _find_checkpoint(run, work), Processes())
        finally:
            if not list(work.glob("*.safetensors")):
                shutil.rmtree(work, ignore_errors=True)
    found = read_mapping(run.output / METRICS)
    measured = found["metrics"].items()
    # in the order of the task, which a file does not keep
    metrics = {split: {name: item[name] for name in run.task.metrics} for split, item in measured}
    return found | {"metrics": metrics}


def digest_init(init: Path) -> str:
    """Return the digest of a folder of vectors or of an encoder."""
    if (init / ENCODER_FILES[0]).exists():
        return digest_json({name: digest_file(init / name) for name in ENCODER_FILES})
    return digest_file(init / "manifest.json")


def check_model(
    config: ModelConfig, where: str, init: Path | None, start: Start | None = None
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
        is_given = init is not None or (start is not None and start.has_layer(layer))
        if layer.options.get("vectors") and not is_given:
            raise ConfigError(
                f"{where}: layer '{layer.name}': starts from the vector table "
                f"'{layer.options['vectors']}', and no vectors were given. Give --vectors FILE, or "
                f"start from random ones: --set layers.{layer.owner}.vectors=null."
            )
    return plan


def _check_encoder(
    plan: ModelPlan, data: DataConfig, init: Path | None, start: Start | None
) -> None:
    """Refuse an encoder that a model has not, or has and was not given."""
    encoders = [layer for layer in plan.layers if issubclass(layer.block, PretrainedEncoder)]
    layers = [layer.name for layer in encoders]
    is_given = init is not None and (init / ENCODER_FILES[0]).exists()
    lacking = [item.name for item in encoders if not (start is not None and start.has_layer(item))]
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


def _describe(run: UserRun) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "kind": run.task.kind.name,
        "targets": run.task.targets,
        "plugins": [plugin._asdict() for plugin in run.plugins],
        "seed": run.seed,
        "files": {name: digest_file(path) for name, path in run.files.items()},
        "fingerprint": describe_machine(),
        **({"start": run.start.digest(run.seed)} if run.start else {}),
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
