"""A work folder that only one process may use."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nlp_core.errors import TrainingError


@contextmanager
def locked(work: Path, what: str) -> Iterator[None]:
    """Hold a work folder for this process only; it is made if it is missing.

    Args:
        work: the folder.
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
