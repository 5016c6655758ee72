"""A progress bar on a terminal; in a log the plain lines of the loop are enough."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


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
