"""What surrounds a training: a locked work folder and a note of its time and memory."""

import os
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from nlp_core.errors import TrainingError
from nlp_core.files import digest_file, write_json
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
    work.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(work / "lock", blocking=False).acquire()
    except Timeout as err:
        raise TrainingError(
            f"{work}: another process trains this {what}; wait for it to end, or stop it."
        ) from err
    with held:
        yield


@contextmanager
def join_training(work: Path, what: str) -> Iterator[Processes]:
    """Yield the processes that train together, the first of which holds the work folder."""
    processes = find_processes()
    with locked(work, what) if processes.is_first else nullcontext():
        yield processes


class RunStart(NamedTuple):
    """When a run started.

    Attributes:
        time: in seconds since the epoch.
        cpu_seconds: what this process had computed before.
        is_resumed: whether the run resumed from a checkpoint; the times are then of the last part.
    """

    time: float
    cpu_seconds: float
    is_resumed: bool


def start_run(checkpoint: Path) -> RunStart:
    """Return the start of a run that begins now, from the checkpoint if there is one."""
    return RunStart(time.time(), time.process_time(), checkpoint.exists())


def write_run_note(path: Path, start: RunStart, weights: Path, *, num_processes: int = 1) -> None:
    """Write what must not be part of a result: time, memory, host and versions of a run.

    Args:
        weights: the file that it trained.
        num_processes: how many trained together; time and memory are those of this one.
    """
    note = {
        "weights": f"sha256:{digest_file(weights)}",
        "started": start.time,
        "seconds": time.time() - start.time,
        "cpu_seconds": time.process_time() - start.cpu_seconds,
        "is_resumed": start.is_resumed,
        "peak_bytes": measure_peak(),
        "processes": num_processes,
        "device": find_device().type,
        "processor": name_processor(),
        "cores": os.cpu_count(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
    }
    write_json(path, note)
