"""The facts of a run that must not be part of a result: time, memory, host, versions."""

import os
import platform
import resource
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

from nlp_core.files import write_json
from nlp_core.processor import name_processor
from nlp_core.training.determinism import find_device


class RunStart(NamedTuple):
    """When a run started.

    Attributes:
        time: in seconds since the epoch.
        cpu_seconds: what this process had computed before.
        is_resumed: whether a checkpoint goes on, so that the times are of the last part only.
    """

    time: float
    cpu_seconds: float
    is_resumed: bool


def start_run(checkpoint: Path) -> RunStart:
    """Return the start of a run that begins now.

    Args:
        checkpoint: from which a killed run goes on.
    """
    return RunStart(time.time(), time.process_time(), checkpoint.exists())


def write_run_note(path: Path, start: RunStart, *, num_processes: int = 1) -> None:
    """Write when, for how long and on what a run that ends now ran.

    Args:
        path: the file.
        start: of the run.
        num_processes: how many trained together; time and memory are those of this one.
    """
    note = {
        "started": start.time,
        "seconds": time.time() - start.time,
        "cpu_seconds": time.process_time() - start.cpu_seconds,
        "is_resumed": start.is_resumed,
        "peak_bytes": _find_peak_bytes(),
        "processes": num_processes,
        "device": find_device().type,
        "processor": name_processor(),
        "cores": os.cpu_count(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
    }
    write_json(path, note)


def _find_peak_bytes() -> int:
    """Return the most memory that this process has held; its earlier runs count too."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
