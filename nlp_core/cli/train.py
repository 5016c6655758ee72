"""`reglue train`: train on a data file, with the best default model or with a model file.

Train on a data file. Without --train, FILE is the data: its columns are guessed, and the best model
for them is chosen. With --train, FILE is a model file.

Examples:
    reglue train reviews.csv
    reglue train reviews.json --train reviews.tsv --dev dev.tsv --epochs 5
"""

import argparse
from pathlib import Path

from nlp_core.cli.default_model import (
    add_default,
    check_default,
    choose_model,
    print_next,
    show_calibration,
    write_page,
)
from nlp_core.cli.output import print_json, show_log, show_metrics
from nlp_core.cli.repetition import Summary, check_repetition, repeat, show_summaries
from nlp_core.cli.training_files import (
    Content,
    add_inputs,
    add_output,
    read_inputs,
    read_own_model,
)
from nlp_core.data.archive import open_data
from nlp_core.data.user_task import Cut
from nlp_core.training.control import add_control, read_control
from nlp_core.training.label_weight import balance_labels
from nlp_core.training.user_model import read_user_run
from nlp_core.training.user_run import UserRun, check_output, train_user_run

DEFAULT_FOLDER = Path("artifacts/train")

GROUP = "train on your own file"
PLACE = 2
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=open_data, metavar="FILE", help="training data; with --train, a model file")
    add_default(parser)
    add_output(parser, DEFAULT_FOLDER, "overwrite a trained model")
    add_inputs(parser)
    folds = "cross-validate: train a model for each of N folds too, and measure it on that fold"
    add("--folds", type=int, metavar="N", help=folds)
    seeds = "train N seeds, measure all of them, and keep the first"
    add("--seeds", type=int, metavar="N", help=seeds)
    balance = "let rare labels weigh more in the loss, so that all labels count the same"
    add("--balance", action="store_true", help=balance)
    add_control(parser)


def run(options: argparse.Namespace) -> None:
    show_log()
    control = read_control(options)
    output = options.output or DEFAULT_FOLDER / options.file.stem
    check_default(options)
    check_output(output, force=options.force)
    check_repetition(options.folds, options.seeds, options.test)
    inputs = read_inputs(options, str(options.file), _read_model)

    def make(folder: Path, seed: int, cut: Cut | None = None) -> UserRun:
        arguments = inputs.rest | {"seed": seed, "cut": cut}
        found = read_user_run(inputs.where, inputs.model, inputs.files, folder, **arguments)
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


def _read_model(options: argparse.Namespace) -> Content:
    if options.train is None:
        return choose_model(options)
    return read_own_model(options.file, options.train)
