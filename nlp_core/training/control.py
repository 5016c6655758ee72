"""How a command runs a training, which never changes the result: time limit, profile, curves."""

import argparse
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from nlp_core.errors import UsageError
from nlp_core.files import write_text
from nlp_core.training.board import check_board, show_events
from nlp_core.training.history import Event

log = logging.getLogger(__name__)

WAIT, WARM_UP, MEASURED = 2, 3, 20
"""Steps that a profile leaves out, those in which the profiler starts, and those it measures."""
PART = "step/"
"""The prefix of the names of a step's parts in a profile."""
LARGEST = 25
"""Operations in the report of a profile."""
PROFILE, TRACE = "profile.txt", "trace.json"


@dataclass(frozen=True)
class RunControl:
    """Settings of a run that change no result, so they are options and not part of a recipe.

    Attributes:
        deadline: when training stops at a checkpoint, on the clock of `time.monotonic`; None: it
            runs to its end.
        profile: folder for the timing of some steps; None: they are not timed.
        board: folder for TensorBoard, with a folder for each seed; None: no curves.
        watch: gets the number of each validation, from 1, and its score, of which more is better;
            what it raises ends the run.
    """

    deadline: float | None = None
    profile: Path | None = None
    board: Path | None = None
    watch: Callable[[int, float], None] = lambda number, score: None

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


def add_control(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="MINUTES",
        help="stop at a checkpoint after MINUTES, with exit code 75; the same command resumes the "
        "run",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FOLDER",
        help=f"write where the time of {MEASURED} steps goes to FOLDER/{PROFILE}, and a trace",
    )
    parser.add_argument(
        "--tensorboard",
        type=Path,
        metavar="FOLDER",
        help="write loss, learning rate and metrics for TensorBoard into FOLDER/seed-N while the "
        "training runs",
    )


def read_control(arguments: argparse.Namespace) -> RunControl:
    """Return the options of `add_control`; the time limit counts from now.

    Raises:
        UsageError: the time limit is not a duration, or a file is where a folder is to be.
        ConfigError: a library is missing.
    """
    minutes, board = arguments.time_limit, arguments.tensorboard
    for option, folder in (("profile", arguments.profile), ("tensorboard", board)):
        parents = () if folder is None else (folder, *folder.parents)
        place = next((item for item in parents if item.exists()), Path())
        if not place.is_dir():
            raise UsageError(
                f"--{option}: found the file '{place}', expected a folder, which may be new; "
                "choose another name."
            )
    if board is not None:
        check_board()
    if minutes is None:
        return RunControl(None, arguments.profile, board)
    if not 0 < minutes < float("inf"):
        raise UsageError(f"--time-limit: found {minutes:g}, expected minutes above 0.")
    return RunControl(time.monotonic() + 60 * minutes, arguments.profile, board)


@contextmanager
def watch_steps(
    control: RunControl, seed: int, events: Sequence[Event]
) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step: the profile and the curves of a run."""
    board = None if control.board is None else control.board / f"seed-{seed}"
    with profile_steps(control.profile) as profiled, show_events(board, events) as write:

        def watch() -> None:
            profiled()
            write()

        yield watch


@contextmanager
def profile_steps(folder: Path | None) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step; some steps are timed if there is a folder."""
    if folder is None:
        yield lambda: None
        return
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)

    is_written = False

    def write(timed: profile) -> None:
        nonlocal is_written
        is_written = True
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / PROFILE, format_profile(timed))
        timed.export_chrome_trace(str(folder / TRACE))

    steps = schedule(wait=WAIT, warmup=WARM_UP, active=MEASURED, repeat=1)
    with profile(activities=activities, schedule=steps, on_trace_ready=write) as timed:
        yield timed.step
    if not is_written:
        log.warning("%s: no profile, since it starts after %d steps", folder, WAIT + WARM_UP)


def format_profile(timed: profile) -> str:
    """Return the time of each part of a step, and the operations that take most of it."""
    averages = timed.key_averages()
    parts = [item for item in averages if item.key.startswith(PART)]
    whole = sum(item.cpu_time_total for item in parts) or 1.0
    rows = [
        f"{item.key.removeprefix(PART):<12} {item.cpu_time_total / item.count / 1000:10.3f} ms"
        f" {item.cpu_time_total / whole:7.1%}"
        for item in sorted(parts, key=lambda item: -item.cpu_time_total)
    ]
    operations = [item for item in averages if not item.key.startswith(PART)]
    table = type(averages)(operations).table(sort_by="self_cpu_time_total", row_limit=LARGEST)
    return "\n".join(["Parts of a step, mean of each", *rows, "", "Operations", table, ""])
