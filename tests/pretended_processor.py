"""Commands that see another processor than this machine's: by CPUID faulting, or emulated."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("fakecpu.c")
EMULATED = {
    "milan": "EPYC-Milan",
    "genoa": "EPYC-Genoa",
    "skylake": "Skylake-Client",
    "icelake": "Icelake-Server",
}
"""By the names that fakecpu.c knows, QEMU's names of the same processors."""
EMULATOR = "qemu-x86_64"
OLDEST_EMULATOR = 10  # 7.2 crashes in oneDNN's LSTM


class Disguise(NamedTuple):
    """How to show a command another processor: what goes before it and into its environment."""

    prefix: list[str]
    environment: dict[str, str]


def find_disguise(name: str, folder: Path) -> Disguise | None:
    """Return a way to show a processor, or None where this machine has none.

    Args:
        name: a key of EMULATED.
        folder: where the library for CPUID faulting is built.
    """
    compiler = shutil.which("cc")
    if compiler is not None and _has_cpuid_faulting():
        library = folder / "fakecpu.so"
        if not library.exists():
            command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
            subprocess.run(command, check=True)
        return Disguise([], {"LD_PRELOAD": str(library), "FAKECPU": name})
    emulator = shutil.which(EMULATOR)
    if emulator is not None and _read_version(emulator) >= OLDEST_EMULATOR:
        return Disguise([emulator, "-cpu", EMULATED[name]], {})
    return None


def run_python(arguments: list[str], disguise: Disguise | None) -> str:
    """Run Python with arguments, disguised or not, and return what it prints."""
    found = disguise or Disguise([], {})
    done = subprocess.run(
        [*found.prefix, sys.executable, *arguments],
        env=os.environ | found.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _has_cpuid_faulting() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and "cpuid_fault" in info.read_text(encoding="utf-8").split()


def _read_version(emulator: str) -> int:
    done = subprocess.run([emulator, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"version (\d+)", done.stdout)
    assert match is not None, done.stdout
    return int(match[1])
