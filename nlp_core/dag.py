"""Read the resolved stages of dvc.yaml, so that another engine can run the same DAG.

The only use of DVC's Python API. That API is not documented: DVC is pinned, and tests/test_dag.py
holds what is used here.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dvc.dependency.param import ParamsDependency
from dvc.exceptions import DvcException
from dvc.repo import Repo

from nlp_core.errors import ConfigError


@dataclass(frozen=True)
class Stage:
    """One stage of dvc.yaml, its templates filled in.

    Attributes:
        name: its address, such as `finetune@sample_answer_cnn`.
        command: what it runs from the project's root.
        inputs: paths it reads; a folder that gathers other stages' outputs is given as those.
        outputs: paths it writes.
    """

    name: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def rule_name(self) -> str:
        """Return the name as an identifier: `finetune__sample_answer_cnn`."""
        return self.name.replace("@", "__").replace("-", "_")


def load_stages(root: Path) -> list[Stage]:
    """Return every stage of `root`/dvc.yaml, in the file's order.

    Args:
        root: the project's root, with .dvc in it.

    Raises:
        ConfigError: dvc.yaml, params.yaml or grid/ cannot be resolved.
    """
    with _open_repo(root) as repo:
        found = list(repo.index.stages)
        outputs = {stage.addressing: _list_paths(stage.outs) for stage in found}
        written = [path for paths in outputs.values() for path in paths]
        return [_read_stage(stage, outputs[stage.addressing], written) for stage in found]


def find_stale(root: Path) -> frozenset[str]:
    """Return the names of the stages whose inputs, params or outputs are not as DVC recorded.

    A stage that is only downstream of a stale one is not named.

    Args:
        root: the project's root, with .dvc in it.

    Raises:
        ConfigError: dvc.yaml, params.yaml or grid/ cannot be resolved, or another run holds the
            project.
    """
    with _open_repo(root) as repo:
        return frozenset(repo.status())


def record_built(root: Path, stages: Iterable[Stage], since: Path) -> None:
    """Tell DVC of stages that another engine ran: those with all outputs written after `since`.

    Args:
        root: the project's root, with .dvc in it.
        stages: the stages that may have been run.
        since: a file written when the run began.
    """
    begun = since.stat().st_mtime_ns
    root = root.resolve()
    with _open_repo(root) as repo:
        for stage in stages:
            if all(_find_mtime(root / path) >= begun for path in stage.outputs):
                repo.commit(stage.name, force=True)


def mark_start(path: Path) -> None:
    """Write a file newer than every output that is there, with content no earlier run wrote."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{time.time_ns()}\n", encoding="ascii")


def is_folder(path: str) -> bool:
    """Say whether an output is a folder, which by convention has no dot in its last part."""
    return "." not in PurePosixPath(path).name


@contextmanager
def _open_repo(root: Path) -> Iterator[Any]:  # DVC has no types.
    """Open the project, from its root: elsewhere DVC gives a stage another address."""
    try:
        with chdir(root), Repo() as repo:
            yield repo
    except DvcException as error:
        raise ConfigError(
            f"{root}/dvc.yaml: {error}. Expected stages that params.yaml and grid/ can fill in and "
            f"no other run in this project; `dvc stage list` and `dvc status` show the same."
        ) from error


def _read_stage(stage: Any, outputs: tuple[str, ...], written: list[str]) -> Stage:
    files = [dep for dep in stage.deps if not isinstance(dep, ParamsDependency)]
    inputs = [found for path in _list_paths(files) for found in _resolve_input(path, written)]
    return Stage(
        name=stage.addressing,
        command=stage.cmd,
        inputs=tuple(dict.fromkeys(inputs)),
        outputs=outputs,
    )


def _list_paths(items: Iterable[Any]) -> tuple[str, ...]:
    return tuple(PurePosixPath(item.def_path).as_posix() for item in items)


def _resolve_input(path: str, written: list[str]) -> list[str]:
    """Give the outputs that lie in `path` or hold it, or `path` itself when there are none."""
    related = [
        output
        for output in written
        if PurePosixPath(output).is_relative_to(path) or PurePosixPath(path).is_relative_to(output)
    ]
    return related or [path]


def _find_mtime(path: Path) -> int:
    """Find when an output was last written; a folder by the mark that Snakemake leaves in it."""
    mark = path / ".snakemake_timestamp"
    for candidate in (mark, path):
        if candidate.exists():
            return candidate.stat().st_mtime_ns
    return 0
