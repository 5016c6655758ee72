"""Check the user's model against its data and what it starts from, before any work starts."""

from pathlib import Path
from typing import Any

from nlp_core.config.column import TEXTS, WHOLE_TEXTS
from nlp_core.config.model import ModelConfig, parse_model
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.data.user_task import Cut, check_tokenizer, read_user_task
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError
from nlp_core.metrics import check_metrics, check_selecting_metric
from nlp_core.models.features import list_piece_columns
from nlp_core.models.plan import ModelPlan, plan_model
from nlp_core.models.plugin import Plugin
from nlp_core.prediction.trained_folder import VECTORS
from nlp_core.training.few_shot import FewShotTrainer
from nlp_core.training.start import Start, scale_numbers
from nlp_core.training.user_run import UserRun


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
    cut: Cut | None = None,
) -> UserRun:
    """Check a model and read the files that it is trained on, before any work starts.

    Args:
        name: of the model file, for error messages; `model` is its content.
        files: "train", and where they are given "dev" and "test".
        init: folder of word vectors or of a pretrained encoder, if any.
        start: the trained model to start from, if any.
        cut: how rows are held out; None: by `seed`.

    Raises:
        ConfigError: the model does not fit the kind of data.
        DataError: a file is missing or malformed.
    """
    config = parse_model(model, name)
    plan = check_model(config, name, init, start)
    assert config.data is not None, name
    pieces = list_piece_columns(plan)
    task = read_user_task(files, config.data, pieces, name=output.name, cut=cut or Cut(seed))
    where = f"{name}: data.metrics"
    check_metrics(task.kind.name, task.metrics, labels=task.labels, where=where)
    if task.kind.is_number:
        model = scale_numbers(model, plan, task, start)
        plan = plan_model(parse_model(model, name), where=name)
    vectors = start.init if start else init
    return UserRun(
        name=output.name,
        plan=plan,
        **read_training(config),
        tasks=[task],
        init=vectors or Path(VECTORS),
        start=start,
        model=model,
        files=files,
        output=output,
        vectors=vectors,
        plugins=plugins,
        seed=seed,
        cut=cut,
    )


def read_training(config: ModelConfig) -> dict[str, Any]:
    """Return the fields of a run that come from a model's `training` section."""
    training = config.training or TrainingConfig()
    return {
        "recipe": training,
        "max_steps": training.max_steps,
        "trainer": FewShotTrainer if training.few_shot else None,
        "is_calibrated": training.calibration is not None,
    }


def check_model(
    config: ModelConfig, where: str, init: Path | None, start: Start | None = None
) -> ModelPlan:
    """Plan a model and check that it fits its `data` section, before any file is read.

    Args:
        where: the model's name, for error messages.
        init: folder of vectors or of an encoder that it starts from, if any.
        start: the trained model that it starts from, if any.

    Raises:
        ConfigError: a layer is wrong, a head or an input serves another kind of data, a layer
            starts from vectors and there are none, or the trained model has other layers.
    """
    plan = plan_model(config, where=where)
    data = config.data
    if data is None:
        raise ConfigError(f"{where}: data: found nothing, expected how the files are read.")
    check_tokenizer(data, where)
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
        if not has_texts and not {column, column.partition(".")[0]} & {*data.read_names}:
            raise ConfigError(
                f"{where}: inputs: '{name}' reads '{column}'; data of kind {data.kind} has "
                f"{' and '.join(data.read_names)}."
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
    """Raise if the model needs an encoder that was not given, or does not use the given one."""
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
            f"{plan.where}: layers: found no layer of the block pretrained_encoder, so that the "
            f"encoder {init} would not be read; leave --init out, or see reglue new --encoder."
        )
    if {*WHOLE_TEXTS} & {*plan.inputs.values()} and data.max_tokens is not None:
        raise ConfigError(
            f"{plan.where}: data.max_tokens: found {data.max_tokens}, but the encoder reads the "
            f"texts whole; set layers.{layers[0]}.max_length, in pieces."
        )
