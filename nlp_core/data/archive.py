"""Data files inside a ZIP or gzip file, unpacked into the cache."""

import gzip
import logging
import lzma
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from nlp_core.data.cache import keep
from nlp_core.data.signature import describe_content, name_office_file
from nlp_core.errors import DataError, note_origin
from nlp_core.files import CHUNK, digest_file, digest_json

log = logging.getLogger(__name__)

UNPACKED = "unpacked"
MOST_MEMBERS = 100_000
MOST_GROWTH = 100
"""How many times its own size an archive may unpack to; text is compressed 3 to 20 times."""
FREE_BYTES = 64 << 20
"""Bytes that any archive may unpack to."""
IGNORED = ("__MACOSX", ".DS_Store")
ENCRYPTED = 0x1
UNPACK_ERRORS = (
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,  # a compression method that zipfile does not know
    RuntimeError,  # an encrypted member
    OSError,
)
ARCHIVES: dict[Path, Path] = {}
"""By the path of unpacked content the archive, as the user named it."""
ZIP_MAGIC, GZIP_MAGIC = b"PK\x03\x04", b"\x1f\x8b"


def open_data(name: str | Path) -> Path:
    """Return the path of a data file or folder; of an archive that of its unpacked content.

    A gzip file is one file. Of a ZIP file it is the only member at the top, or that of a folder
    which is the only one; of several members it is the folder that has them.

    Raises:
        DataError: the archive is an Office file, is damaged or encrypted, has a member outside its
            folder or a link, or unpacks to far more than text does.
    """
    path = Path(name)
    magic = _read_magic(path)
    if magic == ZIP_MAGIC:
        folder = keep(UNPACKED, digest_file(path), lambda target: _unzip(path, target))
    elif magic.startswith(GZIP_MAGIC):
        key = digest_json([digest_file(path), path.name])  # the archive's name names the file
        folder = keep(UNPACKED, key, lambda target: _gunzip(path, target))
    else:
        return path
    content = folder
    while content.is_dir() and len(found := sorted(content.iterdir())) == 1:
        (content,) = found
    # a gzip file has one member, which its name names
    note_origin(str(content if magic.startswith(GZIP_MAGIC) else folder), str(path))
    log.warning("%s: unpacked to %s", path, content)
    ARCHIVES[content] = path
    return content


def is_archive(path: Path) -> bool:
    """Return whether `open_data` would unpack a file."""
    return _read_magic(path).startswith((ZIP_MAGIC, GZIP_MAGIC))


def _read_magic(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(len(ZIP_MAGIC))


def _gunzip(path: Path, folder: Path) -> None:
    name = path.stem if path.suffix == ".gz" else path.name
    if Path(name).suffix == ".tar" or path.suffix == ".tgz":
        raise DataError(f"{path}: found a tar archive, expected one file in gzip. Unpack it.")
    try:
        with gzip.open(path) as stream:
            _copy(stream, folder / name, _find_cap(path), path)
    except (OSError, EOFError, zlib.error) as err:
        raise _refuse(path, str(err)) from err


def _unzip(path: Path, folder: Path) -> None:
    left = _find_cap(path)
    try:
        with zipfile.ZipFile(path) as archive:
            if name := name_office_file(archive):
                raise DataError(f"{path}: {describe_content(name)}")
            members = [info for info in archive.infolist() if not _is_ignored(info)]
            if len(members) > MOST_MEMBERS:
                raise _refuse(path, f"{len(members)} members, at most {MOST_MEMBERS} are read")
            for info in members:
                fault = find_fault(info) or "is encrypted" * (info.flag_bits & ENCRYPTED)
                if fault:
                    raise _refuse(path, f"the member '{info.filename:.80}' {fault}")
            for info in members:
                target = folder / info.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as stream:
                    left -= _copy(stream, target, left, path)
    except (*UNPACK_ERRORS, ValueError, LookupError) as err:
        raise _refuse(path, str(err)) from err
    if not members:
        raise _refuse(path, "no files in it")


def _is_ignored(info: zipfile.ZipInfo) -> bool:
    return info.is_dir() or any(part in IGNORED for part in PurePosixPath(info.filename).parts)


def find_fault(info: zipfile.ZipInfo) -> str:
    """Return why a member of an archive must not be unpacked; an empty text if it may be."""
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0]:
        return "is outside the archive's folder"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link, expected plain files"
    return ""


def _find_cap(path: Path) -> int:
    return max(FREE_BYTES, MOST_GROWTH * path.stat().st_size)


def _copy(stream: IO[bytes] | gzip.GzipFile, target: Path, cap: int, path: Path) -> int:
    """Write a stream to a file and return its size; more bytes than the cap are an error."""
    size = 0
    with target.open("xb") as file:
        while chunk := stream.read(CHUNK):
            size += len(chunk)
            if size > cap:
                raise _refuse(path, f"unpacks to more than {MOST_GROWTH} times its size")
            file.write(chunk)
    return size


def _refuse(path: Path, found: str) -> DataError:
    return DataError(
        f"{path}: not a readable archive of data ({found}); expected plain files in a whole ZIP "
        "or gzip file. Unpack it yourself and look at what is in it."
    )
