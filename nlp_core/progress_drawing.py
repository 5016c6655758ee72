"""How a progress bar is drawn."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text


class Rate(ProgressColumn):
    """Steps or rows per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.{int(speed < 10)}f}/s")


def build_drawing(*, is_bytes: bool) -> Progress:
    """Return bars on standard error, which disappear at the end."""
    counts = (
        (DownloadColumn(), TransferSpeedColumn()) if is_bytes else (MofNCompleteColumn(), Rate())
    )
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *counts,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
