"""Progress bars on a terminal, with the rate and the time left."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SETTING = "REGLUE_PROGRESS"
"""Environment variable; with 0 this process and its children draw no bars."""


class Bar(NamedTuple):
    """The bar of one task; without a drawing it does nothing."""

    drawing: "Progress | None" = None
    task: "TaskID | None" = None

    def reach(self, done: float) -> None:
        if self.drawing is not None and self.task is not None:
            self.drawing.update(self.task, completed=done)

    def advance(self, number: float) -> None:
        if self.drawing is not None and self.task is not None:
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
    if not (shown and has_progress()):
        yield Bar()
        return
    from nlp_core.progress_drawing import build_drawing  # rich, which delays each start

    with build_drawing(is_bytes=is_bytes) as drawing:
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
