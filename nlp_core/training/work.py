"""What surrounds a training: a locked work folder and a progress bar."""

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nlp_core.errors import TrainingError


@contextmanager
def locked(work: Path, what: str) -> Iterator[None]:
    """Hold a work folder for this process only; it is made if it is missing.

    Args:
        what: is trained there, for the error message.

    Raises:
        TrainingError: another process holds it.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise TrainingError(
                f"{work}: another process trains this {what}; wait for it to end, or stop it."
            ) from err
        yield


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the steps done.

    Args:
        title: what the bar is of.
        total: steps in all.
    """
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(title, total=total)
        yield lambda step: progress.update(bar, completed=step)
