"""`reglue train`: train on a data file, with the best default model or with a model file.

Train on a data file. Without --train, FILE is the data: its columns are guessed, and the best model
for them is chosen. With --train, FILE is a model file.

Examples:
    reglue train reviews.csv
    reglue train reviews.json --train reviews.tsv --dev dev.tsv --epochs 5
"""

import argparse
from functools import partial
from pathlib import Path

from nlp_core.cli.default_model import (
    add_default,
    check_default,
    choose_model,
    print_next,
    read_own_model,
    show_calibration,
    write_page,
)
from nlp_core.cli.output import add_plugin, add_set, print_json, show_log, show_metrics
from nlp_core.cli.repetition import Summary, check_repetition, repeat, show_summaries
from nlp_core.config.base import LAST_SEED
from nlp_core.config.model import parse_model, set_value
from nlp_core.data.archive import open_data
from nlp_core.data.user_task import Cut, list_words
from nlp_core.encoders.folder import find_encoder
from nlp_core.errors import UsageError
from nlp_core.models.plugin import load_plugins
from nlp_core.training.control import add_control, read_control
from nlp_core.training.label_weight import balance_labels
from nlp_core.training.start import find_start, start_from_vectors
from nlp_core.training.user_model import read_user_run
from nlp_core.training.user_run import UserRun, check_output, train_user_run

DEFAULT_FOLDER = Path("artifacts/train")
SHORTHANDS = {
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "lr": "training.optimizer.lr",
}

GROUP = "train on your own file"
PLACE = 2
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=open_data, metavar="FILE", help="training data; with --train, a model file")
    add("--train", type=open_data, metavar="DATA", help="training data for the model file")
    add_default(parser)
    add(
        "--dev",
        type=open_data,
        help="development data; it chooses the epoch (default: a part of the training data)",
    )
    add("--test", type=open_data, help="test data, measured once after training")
    add(
        "-o",
        "--output",
        type=Path,
        help=f"folder to write (default: {DEFAULT_FOLDER}/<name of FILE>)",
    )
    add("--force", action="store_true", help="overwrite a trained model")
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
    folds = "cross-validate: train a model for each of N folds too, and measure it on that fold"
    add("--folds", type=int, metavar="N", help=folds)
    seeds = "train N seeds, measure all of them, and keep the first"
    add("--seeds", type=int, metavar="N", help=seeds)
    balance = "let rare labels weigh more in the loss, so that all labels count the same"
    add("--balance", action="store_true", help=balance)
    add("--epochs", type=int, help="passes over the training data (default: the model file's)")
    add("--batch-size", type=int, help="examples per step (default: the model file's)")
    add("--lr", type=float, help="peak learning rate (default: the model file's)")
    add_control(parser)
    add_set(parser)
    add_plugin(parser)


def run(options: argparse.Namespace) -> None:
    show_log()
    control = read_control(options)
    output = options.output or DEFAULT_FOLDER / options.file.stem
    _check_options(options, output)
    plugins = load_plugins(options.plugin)
    where = str(options.file)
    model = choose_model(options) if options.train is None else read_own_model(options)
    values = {path: getattr(options, name) for name, path in SHORTHANDS.items()}
    shorthands = [f"{path}={value}" for path, value in values.items() if value is not None]
    for assignment in [*options.set, *shorthands]:
        set_value(model, assignment)
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
    read = partial(read_user_run, where, model, files, init=init, start=start, plugins=plugins)

    def make(folder: Path, seed: int, cut: Cut | None = None) -> UserRun:
        found = read(folder, seed=seed, cut=cut)
        return balance_labels(found) if options.balance else found

    user_run = make(output, options.seed)
    done = train_user_run(user_run, control)
    if not done:
        return
    again: dict[str, Summary] = {}
    if options.folds is not None or options.seeds is not None:
        again = repeat(options, make, user_run, control)
    write_page(user_run, options)
    if options.json:
        found = done["metrics"] | {"best_epoch": done["best_epoch"]}
        print_json(found | ({"repeated": again} if again else {}))
        return
    show_metrics(done["metrics"])
    if again:
        number = f"{options.folds} folds" if options.folds else f"{options.seeds} seeds"
        show_summaries(number, again)
    print(f"\n{output}: the weights of epoch {done['best_epoch']:g}.")
    show_calibration(output)
    print_next(user_run, output)


def _check_options(options: argparse.Namespace, output: Path) -> None:
    check_default(options)
    check_output(output, force=options.force)
    check_repetition(options.folds, options.seeds, options.test)
    if not 0 <= options.seed <= LAST_SEED:
        raise UsageError(f"--seed: found {options.seed}, expected 0 to {LAST_SEED}.")
    if options.max_vectors is not None and options.max_vectors < 1:
        raise UsageError(f"--max-vectors: found {options.max_vectors}, expected 1 or more.")
    if options.max_vectors is not None and (options.vectors is None or options.vectors.is_dir()):
        raise UsageError(
            "--max-vectors: found no file of vectors that it could cut; add --vectors."
        )
    if options.init and options.vectors:
        raise UsageError("train: found --init and --vectors, expected one of them.")
