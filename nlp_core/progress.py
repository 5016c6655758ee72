"""Progress bars on a terminal, with the rate and the time left."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

SETTING = "REGLUE_PROGRESS"
"""Environment variable; with 0 this process and its children draw no bars."""


class Rate(ProgressColumn):
    """Steps or rows per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.{int(speed < 10)}f}/s")


class Bar(NamedTuple):
    """The bar of one task."""

    drawing: Progress
    task: TaskID

    def reach(self, done: float) -> None:
        self.drawing.update(self.task, completed=done)

    def advance(self, number: float) -> None:
        self.drawing.advance(self.task, number)


def has_progress() -> bool:
    """Return whether bars are drawn: standard error is a terminal, and nothing hides them."""
    return sys.stderr.isatty() and os.environ.get(SETTING) != "0"


@contextmanager
def show_progress(
    title: str, total: int | None, *, is_bytes: bool = False, shown: bool = True
) -> Iterator[Bar]:
    """Yield a bar, which disappears at the end.

    Args:
        shown: whether it is drawn at all; only the first of several processes draws one.
        total: None if it is unknown; then there is no time left.
    """
    counts = (
        (DownloadColumn(), TransferSpeedColumn()) if is_bytes else (MofNCompleteColumn(), Rate())
    )
    drawing = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counts,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not (shown and has_progress()),
    )
    with drawing:
        yield Bar(drawing, drawing.add_task(title, total=total))


@contextmanager
def hide_progress() -> Iterator[None]:
    """Draw no bars, in this process and those that it starts."""
    before = os.environ.get(SETTING)
    os.environ[SETTING] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SETTING]
        else:
            os.environ[SETTING] = before
