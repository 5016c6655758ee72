"""The facts of a run that must not be part of a result: time, host, versions."""

import platform
import socket
import time
from pathlib import Path

from nlp_core.files import write_json


def write_run_note(path: Path, started: float) -> None:
    """Write when, for how long and on what a run that ends now ran.

    Args:
        path: the file.
        started: in seconds since the epoch.
    """
    note = {
        "started": started,
        "seconds": time.time() - started,
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
    }
    write_json(path, note)
