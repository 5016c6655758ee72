"""Run stages of the DAG from a command, and build what cells need and is not here yet."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from nlp_core.config.params import Params
from nlp_core.errors import DataError


def build_missing(list_missing: Callable[[], list[str]], params: Params, root: Path) -> None:
    """Build the missing data and starting weights of cells.

    Commands that run at the same time take turns, since DVC refuses to run twice.

    Args:
        list_missing: returns the stages that make what is missing when it is called.

    Raises:
        DataError: a stage failed.
    """
    lock = root / ".dvc/tmp/verify.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        missing = list_missing()
        sources = [name.removeprefix("preprocess@") for name in missing if "preprocess@" in name]
        # what only optional cells need has no stage in the DAG
        sources = [name for name in sources if name not in params.tasks]
        stages = [name for name in missing if name.removeprefix("preprocess@") not in sources]
        if stages:
            run_module("dvc", "repro", "--quiet", *stages)
        if sources:
            run_module("stages.preprocess", *sources)


def run_module(*arguments: str) -> None:
    """Run `python -m` with some arguments.

    Raises:
        SystemExit: a stage of ours failed, and has said why.
        DataError: DVC failed.
    """
    done = subprocess.run([sys.executable, "-m", *arguments])
    if done.returncode and arguments[0] != "dvc":
        raise SystemExit(done.returncode)
    if done.returncode:
        command = " ".join(word for word in arguments if word != "--quiet")
        raise DataError(
            f"`{command}` failed; its error is above. Without a network, REGLUE_MIRROR names a "
            "folder of archives."
        )
