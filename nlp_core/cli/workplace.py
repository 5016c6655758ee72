"""What surrounds a project's stages: libraries, locks, leftovers of killed runs, disk, mirror."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import psutil
import yaml

from nlp_core.config.base import CELLS, name_folder
from nlp_core.config.params import read_params
from nlp_core.data.cache import find_cache
from nlp_core.errors import ConfigError
from nlp_core.files import ask_git, write_text
from nlp_core.processor import find_version

State = Literal["ok", "warning", "stale"]
LOCK, PARAMS = "requirements.lock", "params.yaml"
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)
MIRROR = "REGLUE_MIRROR"
PART = re.compile(r"\..+\.part(\d+)")
"""Name of a file or a folder that a process writes; see nlp_core.files."""
WRITTEN = ("data", "artifacts", "results", "reports")
ENGINES = ("snakemake", "dvc")
REPORTER = "daemon"
"""The argument of the processes in which DVC sends its statistics; they hold no lock."""
RECORD = "dvc.lock"
ENTRY = re.compile(r"^  (\S[^\n]*):\n((?: {4}[^\n]*\n)+)", re.MULTILINE)
"""A stage in DVC's record: its name and what is recorded of it."""
LEAST_FREE = 5 << 30
"""Bytes that a table of pretrained encoders may need."""
SHOWN = 3


class Check(NamedTuple):
    """What was found of one thing.

    Attributes:
        paths: what is stale, and can be removed.
        restore: writes such a path again, which must not be removed.
    """

    name: str
    state: State
    found: str
    paths: tuple[Path, ...] = ()
    restore: Callable[[Path], None] | None = None

    @property
    def remedy(self) -> str:
        return "removed" if self.restore is None else "restored"


def check_workplace(root: Path) -> list[Check]:
    """Check a project's folder; nothing is changed."""
    return [
        check_libraries(root),
        check_dvc_lock(root),
        check_record(root),
        check_snakemake_lock(root),
        check_leftovers(root),
        check_cells(root),
        check_disk(root),
        check_mirror(),
    ]


def mend(checks: list[Check]) -> None:
    """Remove or restore what is stale."""
    for check in checks:
        for path in check.paths:
            if check.restore is not None:
                check.restore(path)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def check_libraries(root: Path) -> Check:
    """Compare the installed libraries with the lock."""
    path = root / LOCK
    if not path.is_file():
        return Check("libraries", "ok", f"no {LOCK} here to compare with")
    pins = PIN.findall(path.read_text(encoding="utf-8"))
    installed = {name: found for name, _ in pins if (found := find_version(name)) is not None}
    other = [
        f"{name} {installed[name]} instead of {pin}"
        for name, pin in pins
        if name in installed and installed[name] != pin
    ]
    if other:
        return Check("libraries", "warning", f"{_list(other)}; install {LOCK} for the same bytes")
    return Check("libraries", "ok", f"{len(installed)} have the versions of {LOCK}")


def check_dvc_lock(root: Path) -> Check:
    """Check DVC's list of paths in use, which a killed run may leave half-written."""
    path = root / ".dvc/tmp/rwlock"
    if not path.is_file():
        return Check("DVC's lock", "ok", "not held")
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        holders = {int(item["pid"]): item["cmd"] for item in _list_holders(note)}
    except (ValueError, LookupError, TypeError, AttributeError):
        if running := _list_engines(root):
            return Check("DVC's lock", "ok", f"being written by {_list(running)}")
        return Check("DVC's lock", "stale", f"{path} was cut by a kill", (path,))
    alive = [f"{pid} ({name})" for pid, name in sorted(holders.items()) if psutil.pid_exists(pid)]
    if alive and not _list_engines(root):
        others = f"held by {_list(alive)}, which no longer runs here"
        return Check("DVC's lock", "stale", others, (path,))
    return Check("DVC's lock", "ok", f"held by {_list(alive)}" if alive else "not held")


def _list_holders(note: dict[str, dict[str, object]]) -> Iterator[dict[str, str]]:
    for holders in [*note.get("read", {}).values(), *note.get("write", {}).values()]:
        yield from holders if isinstance(holders, list) else [holders]  # type: ignore[misc]


def check_record(root: Path) -> Check:
    """Check DVC's record of what was built, which a kill may cut: it takes a second to write."""
    path = root / RECORD
    if not path.is_file():
        return Check("DVC's record", "ok", "nothing was built here")
    text = path.read_text(encoding="utf-8", errors="replace")
    names = [name for name, _ in ENTRY.findall(text)]
    committed = [name for name, _ in _read_committed(path)]
    is_short = len(names) < len(committed) and names == committed[: len(names)]
    if _is_whole(text) and not is_short:
        return Check("DVC's record", "ok", f"{len(names)} stages")
    if running := _list_engines(root):
        return Check("DVC's record", "ok", f"being written by {_list(running)}")
    return Check("DVC's record", "stale", f"{path} was cut by a kill", (path,), restore_record)


def _is_whole(text: str) -> bool:
    try:
        stages = yaml.load(text, yaml.CSafeLoader)["stages"].values()
        outputs = [item for stage in stages for item in stage.get("outs", [])]
        return text.endswith("\n") and all(item["md5"] and item["size"] >= 0 for item in outputs)
    except (yaml.YAMLError, LookupError, TypeError, AttributeError):
        return False


def _read_committed(path: Path) -> list[tuple[str, str]]:
    text = ask_git(path.parent, "show", f"HEAD:./{path.name}")
    return ENTRY.findall(f"{text}\n")


def restore_record(path: Path) -> None:
    """Keep the whole entries of DVC's record, and take the committed ones of the other stages.

    DVC finds a stage without an entry in its run cache, and then runs nothing.
    """
    found = ENTRY.findall(path.read_text(encoding="utf-8", errors="replace"))
    entries = dict(_read_committed(path)) | dict(found[:-1])  # the last one may be cut
    if not entries:
        path.unlink()
        return
    body = "".join(f"  {name}:\n{entry}" for name, entry in entries.items())
    write_text(path, f"schema: '2.0'\nstages:\n{body}")


def check_snakemake_lock(root: Path) -> Check:
    """Check the files that Snakemake leaves if it is killed."""
    paths = tuple(sorted((root / ".snakemake/locks").glob("*.lock")))
    if not paths:
        return Check("Snakemake's lock", "ok", "not held")
    if running := [name for name in _list_engines(root) if "snakemake" in name]:
        return Check("Snakemake's lock", "ok", f"held by {_list(running)}")
    return Check("Snakemake's lock", "stale", "no Snakemake runs here", paths)


def _list_engines(root: Path) -> list[str]:
    """Return the processes of DVC and Snakemake that run in a project."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            words = [Path(word).name for word in process.cmdline()[:4]]
            if REPORTER not in words and Path(process.cwd()) == root.resolve():
                found += [f"{name} ({process.pid})" for name in ENGINES if name in words]
    return found


def check_leftovers(root: Path) -> Check:
    """Look for what killed processes were writing."""
    folders = [*(root / name for name in WRITTEN), find_cache()]
    paths = [path for folder in folders for path in _list_parts(folder)]
    if not paths:
        return Check("leftovers", "ok", "no killed run left any")
    shown = _list([str(path) for path in paths])
    return Check("leftovers", "stale", f"half-written by killed runs: {shown}", tuple(paths))


def _list_parts(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            found = PART.fullmatch(name)
            if found and not psutil.pid_exists(int(found[1])):
                yield Path(parent) / name
        folders[:] = sorted(name for name in folders if not PART.fullmatch(name))


def check_cells(root: Path) -> Check:
    """Look for folders that neither grid/ nor a group has; stages depend on the ones above them."""
    folders = sorted((root / CELLS).glob("*/*/"))
    if not folders or not (root / PARAMS).is_file():
        return Check("cells", "ok", "none trained here")
    try:
        params = read_params(root / PARAMS)
    except ConfigError as err:
        return Check("cells", "warning", f"not checked: {err}")
    known = {
        name_folder(item.table, name)
        for table in params.tables
        for name, item in params.list_cells(table, params.optional).items()
    }
    known |= {item.copy_folder for item in params.groups.values()}
    groups = sorted({item.group for item in params.groups.values()})
    found = [*folders, *(path for group in groups for path in sorted((root / group).glob("*")))]
    lost = [path for path in found if path.relative_to(root).as_posix() not in known]
    if shown := [str(path) for path in lost if not path.name.startswith(".")]:
        return Check("cells", "warning", f"grid/ and groups lack {_list(shown)}; remove them")
    return Check("cells", "ok", f"{len(folders)} folders")


def check_disk(root: Path) -> Check:
    """Check the space for results and for the cache, and that both can be written."""
    cache = find_cache()
    places = [root.resolve(), next(path for path in [cache, *cache.parents] if path.exists())]
    if closed := [str(path) for path in places if not os.access(path, os.W_OK)]:
        return Check("disk", "warning", f"{_list(closed)} cannot be written")
    free = min(shutil.disk_usage(path).free for path in places)
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    found = f"{free / 1e9:.1f} GB free; the cache {cache} has {size / 1e9:.1f} GB"
    if free < LEAST_FREE:
        return Check("disk", "warning", f"{found}; remove the cache, or make space")
    return Check("disk", "ok", found)


def check_mirror() -> Check:
    """Check the folder of archives, if one is set."""
    mirror = os.environ.get(MIRROR, "")
    if not mirror:
        return Check("mirror", "ok", f"{MIRROR} is not set; sources come from their own addresses")
    if mirror.startswith(("http://", "https://")):
        return Check("mirror", "ok", f"{mirror} (not asked)")
    if not Path(mirror).is_dir():
        return Check(
            "mirror", "warning", f"{MIRROR}: found no folder {mirror}; correct or unset it"
        )
    return Check("mirror", "ok", f"{mirror} with {len([*Path(mirror).iterdir()])} entries")


def _list(items: list[str]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(items[:SHOWN]) + more
