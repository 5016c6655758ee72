"""Write files whole or not at all, with the same bytes for the same content."""

import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from nlp_core.errors import FULL, DataError, UsageError

Json = Mapping[str, object]
CHUNK = 1 << 20
MANIFEST = "manifest.json"
"""What each folder of data holds, written last."""
PLACES = 6


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, digest: str, *, remedy: str) -> None:
    """Raise DataError unless a file is there and has a sha256, with or without that prefix.

    Args:
        remedy: what to do about it.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; {remedy}.")
    if digest_file(path) != digest.removeprefix("sha256:"):
        raise DataError(
            f"{path}: found another sha256 than the recorded one, so the file was damaged or "
            f"changed; {remedy}."
        )


def digest_path(path: Path) -> str:
    """Return the digest of a file, or of all files below a folder with their names."""
    if not path.is_dir():
        return digest_file(path)
    files = sorted(item for item in path.rglob("*") if item.is_file())
    return digest_json({item.relative_to(path).as_posix(): digest_file(item) for item in files})


def digest_json(value: object) -> str:
    """Return the sha256 of a value's canonical JSON, in hex.

    Floats keep all digits, unlike in files: a decay of 1e-9 is not one of 4e-7.
    """
    return hashlib.sha256(_dump(_make_plain(value)).encode()).hexdigest()


def format_json(value: object) -> str:
    """Return JSON with sorted keys, indent 2, floats of 6 places and a trailing newline."""
    return _dump(_make_plain(value, places=PLACES))


def format_line(value: object) -> str:
    """Return one line of JSON Lines, by the same rules as `format_json`."""
    text = json.dumps(
        _make_plain(value, places=PLACES), sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    return text + "\n"


def format_cells(cells: Json) -> str:
    """Return a row of the user's columns as JSON.

    Dates and bytes, which tables have and JSON has not, become texts, NaN and infinity null.
    """
    try:
        return _dump_cells(cells)
    except ValueError:
        return _dump_cells({key: _drop_missing(cell) for key, cell in cells.items()})


def write_json(path: Path, value: object, *, exact: bool = False) -> None:
    """Write JSON, whole or not at all; exact floats keep all digits, for reading back."""
    write_text(path, _dump(_make_plain(value)) if exact else format_json(value))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with LF line ends, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def check_writable(path: Path, option: str = "", *, is_folder: bool = False) -> None:
    """Raise UsageError if no file, or no folder, can be written at a path.

    Args:
        option: the command-line option that names the path, for the message.
    """
    lead = f"{path}: {option}: " if option else f"{path}: "
    sort = "folder" if is_folder else "file"
    if is_folder:
        _require_utf8(path)
    if not is_folder and os.path.isdir(path):
        raise UsageError(f"{path}: {option or 'it'} names a folder; name a file.")
    for parent in path.parents:
        if os.path.lexists(parent) and not os.path.isdir(parent):
            raise UsageError(f"{lead}{parent} is a file, not a folder; name another {sort}.")
    place = path.resolve()
    if not os.path.exists(place) or os.path.isfile(place) or is_folder:  # else a device or a pipe
        folder = next((parent for parent in place.parents if os.path.isdir(parent)), place)
        if not os.access(folder, os.W_OK | os.X_OK):
            which = "the folder" if folder == place.parent else f"the folder {folder}"
            raise UsageError(
                f"{lead}cannot be written: {which} is read-only for you; name another {sort}."
            )
    if os.path.exists(place) and not os.access(place, os.W_OK):
        raise UsageError(
            f"{lead}cannot be overwritten: the {sort} is write-protected; name another {sort}, or "
            "change its permissions."
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it on success, remove it on failure.

    Of a link, its target is replaced. A device or a pipe stays, and gets the content.

    Raises:
        UsageError: `path` is a folder, or nothing can be written there.
    """
    check_writable(path)
    if path.exists() and not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, path.name)
            yield temporary
            with temporary.open("rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
        return
    place = path.resolve()
    temporary = place.with_name(f".{place.name}.part{os.getpid()}")
    with _naming(path, temporary), _making_parents(place):
        try:
            yield temporary
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path, temporary: Path) -> Iterator[None]:
    """Let an error of a temporary path, or of a full disk, name the path that the user gave."""
    try:
        yield
    except OSError as error:
        name = str(error.filename or "")
        if name.startswith(str(temporary)):
            error.filename = f"{path}{name.removeprefix(str(temporary))}"
        elif not name and error.errno in FULL:
            error.filename = str(path)
        raise


@contextmanager
def _making_parents(place: Path) -> Iterator[None]:
    """Make the folders above a path; if the body fails, remove those that are empty."""
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # another process may use them
            for parent in missing:
                parent.rmdir()
        raise


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Give a file the mode of other new files, where a library writes it for its owner only."""
    path.touch()
    mode = path.stat().st_mode
    yield
    path.chmod(mode)


def check_replaceable(folder: Path, *, marker: str, name: str, option: str, force: bool) -> None:
    """Raise if writing a folder would replace something that it should not.

    Args:
        marker: a file that each folder of this kind has.
        name: of the kind, for messages.
        option: the command-line option that names the folder.
        force: whether to replace a folder of the same kind.

    Raises:
        UsageError: the folder holds something else, or its own kind and `force` is not set, or it
            cannot be written.
    """
    check_writable(folder, option, is_folder=True)
    place = folder.resolve()  # as when it is replaced: a/.. exists although a does not
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not (place / marker).is_file():
        raise UsageError(
            f"{folder}: found something other than a {name}; choose another folder with {option}."
        )
    if not force:
        raise UsageError(
            f"{folder}: found a {name}. Choose another folder with {option}, or replace it with "
            "--force."
        )


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder next to `path`, which it replaces on success.

    If `path` is a link, its target is replaced.

    Raises:
        UsageError: no folder can be written there.
    """
    check_writable(path, is_folder=True)
    place = path.resolve()
    temporary = place.with_name(f".{place.name}.part{os.getpid()}")
    former = place.with_name(f".{place.name}.old.part{os.getpid()}")
    for left in (temporary, former):
        shutil.rmtree(left, ignore_errors=True)
    with _naming(path, temporary), _making_parents(place):
        temporary.mkdir()
        try:
            yield temporary
            # a kill while the old folder is deleted must not leave half of it in its place
            if place.exists():
                os.replace(place, former)
            try:
                os.replace(temporary, place)
            except BaseException:  # an interrupt too must not cost the old folder
                if former.exists() and not place.exists():
                    os.replace(former, place)
                raise
        finally:
            for left in (temporary, former):
                shutil.rmtree(left, ignore_errors=True)


def name_local(path: Path) -> str:
    """Return a path that pyarrow does not take for an address, as it would `run:1/a`.

    Raises:
        UsageError: the path is not UTF-8.
    """
    _require_utf8(path)
    return os.path.join(os.curdir, path)


def name_database(path: Path) -> str:
    """Return the address of an SQLite file as SQLAlchemy reads it.

    Raises:
        UsageError: the path has a `?`, with which SQLAlchemy would end the name of the file.
    """
    if "?" in str(path):
        raise UsageError(f"{path}: found ? in the path of a database; choose a path without it.")
    return f"sqlite:///{path}"


def _require_utf8(path: Path) -> None:
    """Raise UsageError for a name that libraries cannot open."""
    shown = str(path).encode(errors="backslashreplace").decode()
    if shown != str(path):
        raise UsageError(f"{shown}: found a name that is not UTF-8, expected one; choose another.")


def ask_git(root: Path, *arguments: str) -> str | None:
    """Return what Git answers, stripped; None for an error, no answer, no Git or no repository."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout.strip() or None if done.returncode == 0 else None


def _dump(value: object) -> str:
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def _dump_cells(cells: Json) -> str:
    return json.dumps(cells, ensure_ascii=False, default=str, allow_nan=False)


def _drop_missing(value: object) -> object:
    """Return a value with None for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _drop_missing(item) for key, item in value.items()}
    return [*map(_drop_missing, value)] if isinstance(value, list | tuple) else value


def _make_plain(value: object, *, places: int | None = None) -> object:
    """Return keys as text and sequences as lists, and floats rounded to `places`, if given."""
    if isinstance(value, float):
        return value if places is None else round(value, places)
    if isinstance(value, Mapping):
        return {str(key): _make_plain(item, places=places) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(item, places=places) for item in value]
    return value
