"""What the commands share that read a trained model."""

import argparse
from pathlib import Path
from typing import Literal

from nlp_core.cli.output import add_plugin
from nlp_core.config.base import parse_config
from nlp_core.config.model import set_value
from nlp_core.config.user_data import DataConfig
from nlp_core.errors import UsageError
from nlp_core.kinds import Kind
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel


def add_trained(
    parser: argparse.ArgumentParser,
    what: str = "a folder that `reglue train` wrote, or a trained cell",
) -> None:
    """Add the arguments that name a trained model."""
    add = parser.add_argument
    add("folder", type=Path, help=what)
    add("--task", help="task of a multi-task cell")
    add("--seed", type=int, help="seed of a cell (default: the first)")
    add_plugin(parser)


def open_predictor(
    options: argparse.Namespace, abstain_below: float | Literal["auto"] | None = None
) -> Predictor:
    """Return the model that the arguments name, which reads files as they say.

    Args:
        abstain_below: see `Predictor`.

    Raises:
        ConfigError: a plug-in, a task or a seed is missing, or an override is wrong.
        DataError: the folder is not a trained model, or not a whole one.
    """
    trained = TrainedModel.open(
        options.folder, seed=options.seed, task=options.task, plugins=options.plugin
    )
    return build_predictor(trained, options, abstain_below)


def build_predictor(
    trained: TrainedModel,
    options: argparse.Namespace,
    abstain_below: float | Literal["auto"] | None = None,
) -> Predictor:
    """Return a predictor that reads files as `--set data...` says.

    Raises:
        ConfigError: an override is wrong, or asks for another kind of data.
        DataError: the file is missing or empty.
    """
    usual = trained.describe_data(options.data)
    if not options.set:
        return Predictor(trained, usual, abstain_below=abstain_below)
    read = {"data": usual.model_dump(mode="json")}
    for assignment in options.set:
        if not assignment.startswith("data."):
            raise UsageError(
                f"--set {assignment}: the model is trained; only data, which says how files are "
                "read, can still be changed."
            )
        set_value(read, assignment)
    data = parse_config(read["data"], DataConfig, where=f"{options.folder} with --set: data")
    if _list_shape(data) != _list_shape(usual):
        raise UsageError(
            "--set: found another kind of data than the model was trained for, expected only "
            "changes of columns and format, such as data.label or data.separator."
        )
    return Predictor(trained, data, abstain_below=abstain_below)


def _list_shape(data: DataConfig) -> tuple[Kind, int, bool, list[str]]:
    """Return what a trained model cannot do without: the kind, and the columns that it reads."""
    return data.kind, len(data.texts), data.choices is None, sorted(data.extras)
