"""What `reglue train` and `reglue search` read: a model file, the user's files, a start."""

import argparse
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.cli.output import add_plugin, add_set
from nlp_core.config.base import LAST_SEED, parse_config, read_mapping
from nlp_core.config.model import parse_model, set_value
from nlp_core.config.user_data import DataConfig
from nlp_core.data.archive import open_data
from nlp_core.data.guess import guess_data
from nlp_core.data.token_guess import Guess
from nlp_core.data.user_task import list_words
from nlp_core.encoders.folder import find_encoder
from nlp_core.errors import ConfigError, UsageError
from nlp_core.kinds import KINDS, list_user_kinds
from nlp_core.models.plan import plan_model
from nlp_core.models.plugin import Plugin, load_plugins
from nlp_core.training.start import Start, find_start, start_from_vectors

log = logging.getLogger(__name__)

Content = dict[str, Any]  # Any: JSON
SHORTHANDS = {
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "lr": "training.optimizer.lr",
    "out_of_scope": "data.out_of_scope",
}


def add_output(parser: argparse.ArgumentParser, folder: Path, force: str) -> None:
    """Add `--output` and `--force`, given the usual folder and the help of `--force`."""
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        help=f"folder to write (default: {folder}/<name of FILE>)",
    )
    add("--force", action="store_true", help=force)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add what a training reads besides the model file."""
    add = parser.add_argument
    add("--train", type=open_data, metavar="DATA", help="training data for the model file")
    add(
        "--dev",
        type=open_data,
        help="development data; it chooses the epoch (default: a part of the training data)",
    )
    add("--test", type=open_data, help="test data, measured once after training")
    add(
        "--vectors",
        type=Path,
        help="pretrained word vectors: a file of GloVe, word2vec or fastText, or a processed "
        "folder",
    )
    add(
        "--init",
        metavar="FOLDER",
        help="start from a pretrained encoder (a folder, or a name on the Hugging Face hub), or "
        "from a trained model with layers of the same names",
    )
    add("--max-vectors", type=int, help="read only the first N words of --vectors", metavar="N")
    add("--seed", type=int, default=1, help="seed of weights and data order")
    add("--epochs", type=int, help="passes over the training data (default: the model file's)")
    add("--batch-size", type=int, help="examples per step (default: the model file's)")
    outside = "label of the rows that belong to no class; the model answers it below a threshold, "
    outside += "which is fitted on the rows held out"
    add("--out-of-scope", metavar="LABEL", help=outside)
    add("--lr", type=float, help="peak learning rate (default: the model file's)")
    add_set(parser)
    add_plugin(parser)


def check_seed(seed: int) -> None:
    """Raise UsageError if no training can have the seed."""
    if not 0 <= seed <= LAST_SEED:
        raise UsageError(f"--seed: found {seed}, expected 0 to {LAST_SEED}.")


def list_assignments(options: argparse.Namespace) -> list[str]:
    """Return what the options change in a model file, as `--set` has it."""
    values = {path: getattr(options, name) for name, path in SHORTHANDS.items()}
    shorthands = [
        f"{path}={json.dumps(value)}" for path, value in values.items() if value is not None
    ]
    return [*options.set, *shorthands]


def list_paths(options: argparse.Namespace) -> set[str]:
    """Return the paths of the values that the options change in a model file."""
    return set(map(_name_path, list_assignments(options)))


def _name_path(assignment: str) -> str:
    return assignment.partition("=")[0].strip()


def change_model(model: Content, assignments: Iterable[str]) -> None:
    """Change the content of a model file by `--set PATH=VALUE`."""
    for assignment in assignments:
        set_value(model, assignment)


def change_guess(guess: Guess, assignments: Sequence[str], where: str) -> Guess:
    """Return a guess of how files are read with the values that the options give.

    Raises:
        ConfigError: there is no such key, or the value is wrong.
    """
    content: Content = {"data": guess.section}
    change_model(content, (item for item in assignments if item.startswith("data.")))
    paths = [_name_path(item).split(".") for item in assignments]
    given = {path[1] for path in paths if path[0] == "data" and len(path) > 1}
    return Guess(
        parse_config(content["data"], DataConfig, where=f"{where}: data"),
        guess.reasons | dict.fromkeys(given, "as given"),
        {key: doubt for key, doubt in guess.doubts.items() if key not in given},
        frozenset(given),
    )


class Inputs(NamedTuple):
    """What a training of the user's files reads.

    Attributes:
        where: the name of the model file; `model` is its content, with the options applied.
    """

    where: str
    model: Content
    files: dict[str, Path]
    init: Path | None
    start: Start | None
    plugins: list[Plugin]
    seed: int

    @property
    def rest(self) -> dict[str, Any]:
        """The named arguments of `read_user_run`."""
        names = ("init", "start", "plugins", "seed")
        return {name: getattr(self, name) for name in names}


def read_inputs(
    options: argparse.Namespace, where: str, read_model: Callable[[argparse.Namespace], Content]
) -> Inputs:
    """Read the model's content, apply the options, and read what the model starts from.

    Args:
        where: the name of the model file.
        read_model: returns its content; called after plug-ins are loaded. It may set options.
    """
    check_seed(options.seed)
    if options.max_vectors is not None and options.max_vectors < 1:
        raise UsageError(f"--max-vectors: found {options.max_vectors}, expected 1 or more.")
    if options.max_vectors is not None and (options.vectors is None or options.vectors.is_dir()):
        raise UsageError("--max-vectors: found without --vectors; add --vectors FILE.")
    if options.init and options.vectors:
        raise UsageError("found --init and --vectors, expected one of them.")
    plugins = load_plugins(options.plugin)
    model = read_model(options)
    change_model(model, list_assignments(options))
    start = find_start(options.init, options.plugin) if options.init else None
    init = find_encoder(options.init) if options.init and start is None else None
    files = {"train": options.train, "dev": options.dev, "test": options.test}
    files = {name: path for name, path in files.items() if path is not None}
    if options.vectors is not None:
        data = parse_model(model, where).data
        init = start_from_vectors(
            model,
            options.vectors,
            options.max_vectors,
            where=where,
            list_texts=lambda: list_words(files.values(), data) if data else (),
        )
    return Inputs(where, model, files, init, start, plugins, options.seed)


def read_own_model(path: Path, options: argparse.Namespace) -> Content:
    """Return the content of a model file, with a guessed `data` section, logged, if it has none."""
    model, where = read_mapping(path), str(path)
    if model.get("data") is not None:
        return model
    plan = plan_model(parse_model(model, where), where=where)
    if not plan.kinds:
        raise ConfigError(f"{where}: heads: found different kinds of task, expected one for all.")
    kinds = [name for name in plan.kinds if KINDS.get(name).user_file.formats]
    if not kinds:
        raise ConfigError(
            f"{where}: heads: found heads for {', '.join(plan.kinds)}, expected some for "
            f"{', '.join(list_user_kinds())}; a task of another kind is described in sources/ "
            "and trained as a cell of grid/."
        )
    change = partial(change_guess, assignments=list_assignments(options), where=where)
    guess = guess_data(options.train, KINDS.get(kinds[0]), change=change)
    model["data"] = guess.section
    for key, value in guess.section.items():
        reason = guess.explain(key)
        shown = json.dumps(value, ensure_ascii=False)
        log.info("data.%s = %s%s", key, shown, f"  ({reason})" if reason else "")
    return model
