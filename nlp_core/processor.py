"""The name of this machine's processor, and the memory of this process."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
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


def measure_peak() -> int:
    """Return the most memory that this process has held, in bytes."""
    if sys.platform == "win32":
        import psutil

        return psutil.Process().memory_info().peak_wset
    # not ru_maxrss, which begins with that of the process that started this one
    if found := _read(Path("/proc/self/status"), "VmHWM"):
        return 1024 * int(found.removesuffix("kB"))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def find_version(package: str) -> str | None:
    """Return the version of an installed package; None: it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
