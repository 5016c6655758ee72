"""`reglue train`: train a model file on a data file.

Examples:
    reglue train reviews.json --train reviews.tsv -o artifacts/reviews
    reglue train reviews.json --train reviews.tsv --dev dev.tsv --epochs 5 --lr 0.001
"""

import argparse
from pathlib import Path

from nlp_core.cli.output import print_json, show_log, show_metrics
from nlp_core.cli.training_files import add_inputs, add_output, read_inputs
from nlp_core.training.control import add_control, read_control
from nlp_core.training.user_model import read_user_run
from nlp_core.training.user_run import check_output, train_user_run

DEFAULT_FOLDER = Path("artifacts/train")

GROUP = "train on your own file"
PLACE = 2
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="FILE.json", help="model file")
    add("--train", type=Path, required=True, help="training data")
    add_output(parser, DEFAULT_FOLDER, "overwrite a trained model")
    add_inputs(parser)
    add_control(parser)


def run(options: argparse.Namespace) -> None:
    show_log()
    control = read_control(options)
    output = options.output or DEFAULT_FOLDER / options.model.stem
    check_output(output, force=options.force)
    inputs = read_inputs(options, options.model)
    user_run = read_user_run(inputs.where, inputs.model, inputs.files, output, **inputs.rest)
    done = train_user_run(user_run, control)
    if not done:
        return
    if options.json:
        print_json(done["metrics"] | {"best_epoch": done["best_epoch"]})
        return
    show_metrics(done["metrics"])
    print(f"\n{output}: the weights of epoch {done['best_epoch']:g}.")
    is_searched = user_run.task.kind.is_searched
    print(f"Next: reglue {'index' if is_searched else 'predict'} {output}")
