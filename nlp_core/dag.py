"""Read the resolved stages of dvc.yaml, so that another engine can run the same DAG.

DVC's Python API is used only here. It is not documented: DVC is pinned, and tests/test_dag.py tests
what is used.
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
    """A stage of dvc.yaml such as `finetune@sample_answer_cnn`, with its templates filled in."""

    name: str
    command: str
    inputs: tuple[str, ...]
    """Paths that it reads; a folder of other stages' outputs is given as those outputs."""
    outputs: tuple[str, ...]

    @property
    def rule_name(self) -> str:
        """The name as an identifier: `finetune__sample_answer_cnn`."""
        return self.name.replace("@", "__").replace("-", "_")


def load_stages(root: Path) -> list[Stage]:
    """Return every stage of `root`/dvc.yaml, in the file's order.

    Raises:
        ConfigError: dvc.yaml, params.yaml or grid/ cannot be resolved.
    """
    with _open_repo(root) as repo:
        found = list(repo.index.stages)
        outputs = {stage.addressing: _list_paths(stage.outs) for stage in found}
        written = [path for paths in outputs.values() for path in paths]
        return [_read_stage(stage, outputs[stage.addressing], written) for stage in found]


def find_stale(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the stages whose inputs, params or outputs differ from DVC's record, and how.

    A stage that is only downstream of a stale one is not among them.

    Raises:
        ConfigError: as `load_stages`, or another run locks the project.
    """
    with _open_repo(root) as repo:
        return {name: tuple(_list_reasons(items)) for name, items in repo.status().items()}


def record_built(root: Path, stages: Iterable[Stage], since: Path) -> None:
    """Record stages in DVC that another engine ran since its run wrote the file `since`.

    These are the stages whose outputs are all newer.
    """
    begun = since.stat().st_mtime_ns
    root = root.resolve()
    with _open_repo(root) as repo:
        for stage in stages:
            if all(_find_mtime(root / path) >= begun for path in stage.outputs):
                repo.commit(stage.name, force=True)


def mark_start(path: Path) -> None:
    """Write a file that is newer than every output and has new content in every run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{time.time_ns()}\n", encoding="ascii")


def is_folder(path: str) -> bool:
    """Return whether an output is a folder, which by convention has no dot in its name."""
    return "." not in PurePosixPath(path).name


@contextmanager
def _open_repo(root: Path) -> Iterator[Any]:  # DVC has no types.
    """Open the project from its root; from elsewhere DVC changes the addresses of stages."""
    try:
        with chdir(root), Repo() as repo:
            yield repo
    except DvcException as error:
        raise ConfigError(
            f"{root}/dvc.yaml: {error}. Expected stages that params.yaml and grid/ resolve, and no "
            "other run in this project; see `dvc stage list` and `dvc status`."
        ) from error


STATES = {"modified": "changed", "new": "not recorded", "deleted": "not there"}
"""DVC's words for the state of a file or a value, in ours."""
ABSENT = ("deleted", "not in cache")


def _list_reasons(changes: list[Any]) -> Iterator[str]:  # DVC has no types.
    """Yield what differs from DVC's record: outputs, the command, inputs, values of params."""
    words = [change for change in changes if isinstance(change, str)]  # `changed command`
    found = {
        key: items for change in changes if change not in words for key, items in change.items()
    }
    outputs, inputs = found.get("changed outs", {}), found.get("changed deps", {})
    if any(state in ABSENT for state in outputs.values()):
        yield "not built here"
    yield from (f"{path} changed" for path, state in outputs.items() if state not in ABSENT)
    yield from words
    for path, state in inputs.items():
        if isinstance(state, str):
            yield f"{path} {STATES.get(state, state)}"
        else:
            yield from (f"{path}: {key} {STATES.get(item, item)}" for key, item in state.items())


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
    """Return the outputs inside `path` or around it, or `path` if there are none."""
    related = [
        output
        for output in written
        if PurePosixPath(output).is_relative_to(path) or PurePosixPath(path).is_relative_to(output)
    ]
    return related or [path]


def _find_mtime(path: Path) -> int:
    """Return when an output was written; a folder has the mark that Snakemake leaves in it."""
    mark = path / ".snakemake_timestamp"
    for candidate in (mark, path):
        if candidate.exists():
            return candidate.stat().st_mtime_ns
    return 0
