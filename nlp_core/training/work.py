"""What surrounds a training: a locked work folder and a note of its time and memory."""

import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nlp_core.errors import TrainingError
from nlp_core.files import check_writable, digest_file, write_json
from nlp_core.models.saving import WEIGHTS
from nlp_core.processor import measure_peak, name_processor
from nlp_core.training.determinism import find_device
from nlp_core.training.processes import Processes, find_processes


@contextmanager
def locked(work: Path, what: str) -> Iterator[None]:
    """Hold a work folder for this process only; it is made if it is missing.

    Args:
        what: is trained there, for the error message.

    Raises:
        TrainingError: another process holds it.
    """
    check_writable(work, is_folder=True)
    work.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(work / "lock", blocking=False).acquire()
    except Timeout as err:
        raise TrainingError(
            f"{work}: another process trains this {what}; wait for it to end, or stop it."
        ) from err
    with held:
        yield


def remove_others(work: Path) -> None:
    """Remove the other work folders of a finished cell, except those in use."""
    for other in work.parent.iterdir():
        if other == work or not other.is_dir():
            continue
        with suppress(TrainingError), locked(other, "cell"):
            shutil.rmtree(other)


@contextmanager
def join_training(work: Path, what: str) -> Iterator[Processes]:
    """Yield the processes that train together, the first of which holds the work folder."""
    processes = find_processes()
    with locked(work, what) if processes.is_first else nullcontext():
        yield processes


def train_once(
    train: Callable[[], None],
    done: Path,
    checkpoint: Path,
    processes: Processes,
    note: Path | None,
) -> bool:
    """Run a training unless the folder that it makes is there, and return whether it ran.

    Args:
        done: that folder.
        checkpoint: from which the training resumes, if it exists.
        note: file for what must not be part of a result: time, memory, host and versions of the
            run; if it resumed, of its last part. None: they are not kept.
    """
    processes.wait()  # so that all of them find the folder, or none
    if done.exists():
        return False
    is_resumed = checkpoint.exists()
    started, computed = time.time(), time.process_time()
    train()
    if note is not None and processes.is_first:
        values = {
            "weights": f"sha256:{digest_file(done / WEIGHTS)}",
            "started": started,  # in seconds since the epoch
            "seconds": time.time() - started,
            "cpu_seconds": time.process_time() - computed,
            "is_resumed": is_resumed,
            "peak_bytes": measure_peak(),
            "processes": processes.count,
            "device": find_device().type,
            "processor": name_processor(),
            "cores": os.cpu_count(),
            "host": socket.gethostname(),
            "python": platform.python_version(),
        }
        write_json(note, values)
    return True
