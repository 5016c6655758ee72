"""`reglue train`: train on a data file, with the best default model or with a model file.

Train on a data file. Without --train, FILE is the data: its columns are guessed, and the best model
for them is chosen. With --train, FILE is a model file.

Examples:
    reglue train reviews.csv
    reglue train reviews.json --train reviews.tsv --dev dev.tsv --epochs 5
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nlp_core.cli.default_model import add_default, check_default, choose_model
from nlp_core.cli.next_command import print_next, show_calibration, write_page
from nlp_core.cli.output import print_json, show_log, show_metrics
from nlp_core.cli.repetition import (
    Summary,
    check_repetition,
    make_folds,
    make_seeds,
    show_summaries,
    summarise_folds,
    summarise_seeds,
    train_parts,
)
from nlp_core.cli.training_files import (
    Content,
    Inputs,
    add_inputs,
    add_output,
    read_inputs,
    read_own_model,
)
from nlp_core.data.archive import open_data
from nlp_core.data.user_task import Cut
from nlp_core.errors import UsageError
from nlp_core.training.control import RunControl, add_control, read_control
from nlp_core.training.determinism import CPU, find_device
from nlp_core.training.label_weight import balance_labels
from nlp_core.training.processes import is_launched, start_processes
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
    processes = "train in N processes, at most training.shards, with the same bytes "
    processes += "(default: one for each core, at most as many)"
    add("--processes", type=int, metavar="N", help=processes)
    add_control(parser)


@dataclass(frozen=True)
class _Training:
    """What the trainings of one command share."""

    options: argparse.Namespace
    inputs: Inputs
    control: RunControl

    def make(self, folder: Path, seed: int, cut: Cut | None = None) -> UserRun:
        """Return the run into a folder."""
        inputs = self.inputs
        arguments = inputs.rest | {"seed": seed, "cut": cut}
        found = read_user_run(inputs.where, inputs.model, inputs.files, folder, **arguments)
        return balance_labels(found) if self.options.balance else found

    def train(self, run: UserRun) -> dict[str, Any]:
        """Train in as many processes as the options and the model say; see `train_user_run`."""
        count = _count_processes(self.options.processes, run.recipe.shards)
        inputs = self.inputs
        place = inputs.where, inputs.model, run.output, run.seed, run.cut, self.control.deadline
        with start_processes(count, _take_part, self.options, *place):
            return train_user_run(run, self._find_control(run))

    def _find_control(self, run: UserRun) -> RunControl:
        """Return the control of a run; a fold or a further seed keeps the files of the first."""
        if run.cut is None:
            return self.control
        _, fold, _ = run.cut
        board = self.control.board
        if board is not None and fold is not None:
            board = board / f"fold-{fold}"
        return replace(self.control, profile=None, board=board)


def run(options: argparse.Namespace) -> None:
    show_log()
    control = read_control(options)
    output = options.output or DEFAULT_FOLDER / options.file.stem
    check_default(options)
    check_output(output, force=options.force)
    check_repetition(options)
    training = _Training(options, read_inputs(options, str(options.file), _read_model), control)
    user_run = training.make(output, options.seed)
    parts: list[UserRun] = []
    if options.folds is not None:
        parts = make_folds(training.make, output, options.seed, options.folds)
    elif options.seeds is not None:
        parts = make_seeds(training.make, output, options.seed, options.seeds)
    train_parts(training.train, parts)  # before the output appears, which says that all is done
    done = training.train(user_run)
    if not done:
        return
    again: dict[str, Summary] = {}
    if options.folds is not None:
        again = summarise_folds(parts, output)
    elif options.seeds is not None:
        again = summarise_seeds(user_run, parts)
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
    return read_own_model(options.file, options)


def _count_processes(asked: int | None, shards: int | None) -> int:
    """Return how many processes train together.

    Raises:
        UsageError: the model cannot be trained by as many processes as were asked for.
    """
    from joblib import cpu_count  # of this process and its container, not of the machine

    most = 1 if is_launched() or find_device().type != CPU else shards or 1
    if asked is None:
        return min(most, int(cpu_count()))
    if not 1 <= asked <= most:
        raise UsageError(
            f"--processes: found {asked}, expected 1 to {most}, one for each shard of a batch on a "
            f"CPU; --set training.shards={max(asked, 2)} splits a batch into that many."
        )
    return asked


def _take_part(
    options: argparse.Namespace,
    where: str,
    model: Content,
    output: Path,
    seed: int,
    cut: Cut | None,
    deadline: float | None,
) -> None:
    """Train as one of several processes that are not the first.

    All have the same deadline, since they agree after each step on whether it has passed.
    """
    inputs = read_inputs(options, where, lambda _: model)
    training = _Training(options, inputs, RunControl(deadline=deadline))
    train_user_run(training.make(output, seed, cut), training.control)
