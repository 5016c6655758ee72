"""The name of this machine's processor."""

import platform
from pathlib import Path

INFO = Path("/proc/cpuinfo")


def name_processor(info: Path = INFO) -> str:
    """Return the processor's model, such as "AMD EPYC", or if unknown its architecture."""
    return _read(info, "model name") or platform.processor() or platform.machine()


def _read(info: Path, key: str) -> str | None:
    if not info.is_file():
        return None
    lines = (line.partition(":") for line in info.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), None)
