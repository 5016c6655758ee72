"""Write files whole or not at all, and the same bytes for the same content."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Json = Mapping[str, object]
CHUNK = 1 << 20


def digest_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def digest_json(value: object) -> str:
    """Return the sha256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(format_json(value).encode()).hexdigest()


def format_json(value: object) -> str:
    """Return JSON with sorted keys, two spaces, floats of 6 places and a trailing newline."""
    text = json.dumps(_round(value), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def format_line(value: object) -> str:
    """Return one line of JSON Lines, by the same rules as `format_json`."""
    text = json.dumps(_round(value), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def write_json(path: Path, value: object) -> None:
    """Write `format_json(value)` to `path`, whole or not at all."""
    write_text(path, format_json(value))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text with LF line ends to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it on success, remove it on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; on success it takes the place of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _round(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {str(key): _round(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round(item) for item in value]
    return value
