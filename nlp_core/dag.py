"""Read the resolved stages of dvc.yaml, so that another engine can run the same DAG; share outputs.

DVC's Python API is used only here. It is not documented: DVC is pinned, and tests/test_dag.py tests
what is used.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from dvc.config import NoRemoteError
from dvc.dependency.param import ParamsDependency
from dvc.exceptions import CheckoutError, DownloadError, DvcException, UploadError
from dvc.repo import Repo
from dvc.scm import SCMError
from dvc_objects.errors import ObjectFormatError
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from nlp_core.errors import ConfigError


class Resources(BaseModel):
    """What one run of a stage may need, as `meta` in dvc.yaml gives it.

    Attributes:
        minutes: the longest run; a scheduler ends the job after them.
        gpu: whether the stage can train on a GPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_mb: PositiveInt
    minutes: PositiveInt
    gpu: bool = False

    def count_memory(self, _wildcards: object, attempt: int) -> int:
        """Return the megabytes for Snakemake's attempt number `attempt`; retries get more."""
        return self.memory_mb * attempt


@dataclass(frozen=True)
class Stage:
    """A stage of dvc.yaml such as `finetune@sample_answer_cnn`, with its templates filled in."""

    name: str
    command: str
    inputs: tuple[str, ...]
    """Paths that it reads; a folder of other stages' outputs is given as those outputs."""
    outputs: tuple[str, ...]
    resources: Resources

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
        return _list_stages(repo)


def find_stale(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the stages whose inputs, params or outputs differ from DVC's record, and how.

    A stage that is only downstream of a stale one is not among them.

    Raises:
        ConfigError: as `load_stages`, or another run locks the project.
    """
    with _open_repo(root) as repo:
        return _list_stale(repo)


def load_status(root: Path) -> tuple[list[Stage], dict[str, tuple[str, ...]]]:
    """Return what `load_stages` and `find_stale` return, and read the project once.

    Raises:
        ConfigError: as `find_stale`.
    """
    with _open_repo(root) as repo:
        # before the stages: locking the project makes DVC read it again
        stale = _list_stale(repo)
        return _list_stages(repo), stale


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


class Shared(NamedTuple):
    """What a transfer to or from the remote left.

    Attributes:
        num_files: files that were not there before.
        missing: stages whose recorded outputs are neither here nor in the remote.
        damaged: stages with a file in the remote that does not have the recorded digest.
        kept: stages with an output here that is not recorded, and that no cache has.
    """

    num_files: int
    missing: list[str]
    damaged: list[str]
    kept: list[str]


def fetch(root: Path, names: Sequence[str]) -> Shared:
    """Copy recorded outputs of stages from the remote into the project, checked by their digests.

    Raises:
        ConfigError: no remote is configured, or it cannot be reached.
    """
    with _open_repo(root) as repo:
        missing = _find_missing(repo, names, _open_remote(repo))
        damaged, kept, num_files = [], [], 0
        for name in names:
            if name in missing:
                continue
            try:
                num_files += repo.fetch([name])
                _check_cache(repo, name)
                repo.checkout([name])
            except (CheckoutError, DownloadError, ObjectFormatError):
                damaged.append(name)
            except DvcException as error:
                if type(error) is not DvcException:
                    raise
                kept.append(name)  # it would delete what it could not restore
        return Shared(num_files, missing, damaged, kept)


def push(root: Path, names: Sequence[str]) -> Shared:
    """Copy the outputs of stages from DVC's cache to the remote.

    Raises:
        ConfigError: as `fetch`, or the remote takes no files.
    """
    with _open_repo(root) as repo:
        missing = _find_missing(repo, names, _open_remote(repo))
        found = [name for name in names if name not in missing]
        try:
            num_files = repo.push(targets=found) if found else 0
        except UploadError as error:
            raise ConfigError(
                f".dvc/config: the remote did not take {error.amount} files, expected one that "
                "can be reached and written. The same command copies what is missing."
            ) from error
        return Shared(num_files, missing, [], [])


def find_shared(root: Path, names: Sequence[str]) -> list[str]:
    """Return the stages whose recorded outputs are in the remote; none if there is no remote."""
    with _open_repo(root) as repo:
        if not repo.config["core"].get("remote"):
            return []
        remote = _open_remote(repo)
        return [name for name in names if _has_outputs(repo, name, [remote])]


def _open_remote(repo: Any) -> Any:  # DVC has no types.
    try:
        return repo.cloud.get_remote_odb()
    except NoRemoteError as error:
        raise ConfigError(
            ".dvc/config: found no default remote, expected a place to share trained cells, such "
            "as a folder. Add one: `dvc remote add --default shared /path/to/folder`."
        ) from error
    except ImportError as error:
        raise ConfigError(f".dvc/config: the remote: {error} with `pip install`.") from error


def _check_cache(repo: Any, name: str) -> None:
    """Compare files in DVC's cache with their digests, which a transfer does not; drop wrong ones.

    Raises:
        ObjectFormatError: a file is damaged.
    """
    store, digests, wrong = repo.cache.local, set(), []
    for output in _list_cached(repo, name):
        tree = output.get_obj()
        digests |= {digest.value for _, _, digest in tree} if output.hash_info.isdir else set()
        digests.add(output.hash_info.value)
    for digest in sorted(digests):
        path = Path(store.oid_to_path(digest))
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != digest.removesuffix(".dir"):
            path.unlink()
            wrong.append(str(path))
    if wrong:
        raise ObjectFormatError(f"damaged: {', '.join(wrong)}")


def _find_missing(repo: Any, names: Sequence[str], remote: Any) -> list[str]:
    return [name for name in names if not _has_outputs(repo, name, [repo.cache.local, remote])]


def _has_outputs(repo: Any, name: str, stores: Sequence[Any]) -> bool:
    """Return whether all that `dvc.lock` records of a stage is in one of the stores."""
    return all(
        output.hash_info and any(store.exists(output.hash_info.value) for store in stores)
        for output in _list_cached(repo, name)
    )


def _list_cached(repo: Any, name: str) -> list[Any]:
    """Return a stage's outputs that are in DVC's cache and not in Git."""
    (stage,) = repo.stage.collect(name)
    return [output for output in stage.outs if output.use_cache]


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
    except (DvcException, NotImplementedError) as error:  # a kill can cut a hash's name in dvc.lock
        if isinstance(error, SCMError):
            raise ConfigError(
                f"{root}: {str(error).rstrip('.')}. DVC expects one; without Git, run `dvc config "
                "--local core.no_scm true`."
            ) from error
        found = str(error).rstrip(".") or "cannot read dvc.lock"
        raise ConfigError(
            f"{root}/dvc.yaml: {found}. Expected stages that "
            "params.yaml and grid/ resolve, and no other run in this project; see `dvc stage list` "
            "and `dvc status`. `reglue doctor --mend` mends what a killed run left."
        ) from error


def _list_stages(repo: Any) -> list[Stage]:
    found = list(repo.index.stages)
    outputs = {stage.addressing: _list_paths(stage.outs) for stage in found}
    written = [path for paths in outputs.values() for path in paths]
    return [_read_stage(stage, outputs[stage.addressing], written) for stage in found]


def _list_stale(repo: Any) -> dict[str, tuple[str, ...]]:
    return {name: tuple(_list_reasons(items)) for name, items in repo.status().items()}


NOT_BUILT = "not built here"
STATES = {"modified": "changed", "new": "not recorded", "deleted": "not there"}
"""DVC's words for the state of a file or a value, in ours."""
ABSENT = ("deleted", "not in cache")


def is_absent(reasons: Sequence[str]) -> bool:
    """Return whether a stage is stale only because files are not here; a remote may have them."""
    return NOT_BUILT in reasons and all(
        reason == NOT_BUILT or reason.endswith(STATES["deleted"]) for reason in reasons
    )


def _list_reasons(changes: list[Any]) -> Iterator[str]:  # DVC has no types.
    """Yield what differs from DVC's record: outputs, the command, inputs, values of params."""
    words = [change for change in changes if isinstance(change, str)]  # `changed command`
    found = {
        key: items for change in changes if change not in words for key, items in change.items()
    }
    outputs, inputs = found.get("changed outs", {}), found.get("changed deps", {})
    if any(state in ABSENT for state in outputs.values()):
        yield NOT_BUILT
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
        resources=_read_resources(stage),
    )


def _read_resources(stage: Any) -> Resources:
    try:
        return Resources.model_validate(stage.meta)
    except ValidationError as error:
        raise ConfigError(
            f"dvc.yaml: stages.{stage.addressing}.meta: found {stage.meta}. Expected memory_mb and "
            "minutes, whole numbers, and gpu if the stage can train on one."
        ) from error


def _list_paths(items: Iterable[Any]) -> tuple[str, ...]:
    return tuple(PurePosixPath(item.def_path).as_posix() for item in items)


def _resolve_input(path: str, written: list[str]) -> list[str]:
    """Return the outputs inside `path` or around it, or `path` if there are none."""
    folder = f"{path}/"  # texts, since a large grid has some 100,000 pairs
    related = [
        output
        for output in written
        if f"{output}/".startswith(folder) or folder.startswith(f"{output}/")
    ]
    return related or [path]


def _find_mtime(path: Path) -> int:
    """Return when an output was written; a folder has the mark that Snakemake leaves in it."""
    mark = path / ".snakemake_timestamp"
    for candidate in (mark, path):
        if candidate.exists():
            return candidate.stat().st_mtime_ns
    return 0
