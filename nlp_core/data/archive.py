"""Extract members of an archive: nothing outside the folder, no links, a size cap."""

import hashlib
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Literal, NamedTuple

from nlp_core.errors import DownloadError
from nlp_core.files import CHUNK

UNPACK_ERRORS = (
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,  # a compression method that zipfile does not know
    RuntimeError,  # an encrypted member
    OSError,
)


class Unpacked(NamedTuple):
    sha256: str
    num_bytes: int


def unpack_members(
    archive_path: Path,
    members: Mapping[str, Path],
    *,
    form: Literal["none", "zip", "xz"],
    max_bytes: int,
) -> dict[str, Unpacked]:
    """Write members of an archive to their paths; return their digests and sizes.

    Args:
        archive_path: the archive; with form "none" the one member itself.
        members: path to write, by path in the archive.
        form: how the archive is packed.
        max_bytes: cap on the bytes of all members together.

    Raises:
        DownloadError: the archive is damaged, lacks a member, has a link or a path outside its
            folder, or unpacks to more than the cap. Then no member remains.
    """
    unpacked: dict[str, Unpacked] = {}
    try:
        with _opening(archive_path, members, form) as open_member:
            for member, path in members.items():
                left = max_bytes - sum(item.num_bytes for item in unpacked.values())
                with open_member(member) as stream:
                    unpacked[member] = _copy(stream, path, left, f"{archive_path}: {member}")
    except (DownloadError, *UNPACK_ERRORS) as err:
        for path in members.values():
            path.unlink(missing_ok=True)
        if isinstance(err, DownloadError):
            raise
        raise DownloadError(
            f"{archive_path}: cannot be unpacked ({err or type(err).__name__}); expected a "
            f"complete {form} archive. Fetch it again."
        ) from err
    return unpacked


@contextmanager
def _opening(
    archive_path: Path, members: Collection[str], form: str
) -> Iterator[Callable[[str], IO[bytes]]]:
    """Yield a function that opens a member by name."""
    if form != "zip":
        yield lambda member: (lzma.open if form == "xz" else open)(archive_path, "rb")
        return
    with zipfile.ZipFile(archive_path) as archive:
        for info in archive.infolist():
            _check_safe(info, archive_path)
        names = archive.namelist()
        for member in members:
            if member not in names:
                raise DownloadError(
                    f"{archive_path}: has no member '{member}', but {len(names)} others; it is not "
                    "the expected archive."
                )
        yield archive.open


def _check_safe(info: zipfile.ZipInfo, archive_path: Path) -> None:
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0]:
        raise DownloadError(
            f"{archive_path}: the member '{info.filename}' is outside the archive's folder; fetch "
            "the archive from its official URL."
        )
    if stat.S_ISLNK(info.external_attr >> 16):
        raise DownloadError(
            f"{archive_path}: the member '{info.filename}' is a link, expected plain files; fetch "
            "the archive from its official URL."
        )


def _copy(stream: IO[bytes], path: Path, max_bytes: int, where: str) -> Unpacked:
    sha, num_bytes = hashlib.sha256(), 0
    with path.open("wb") as target:
        while chunk := stream.read(CHUNK):
            num_bytes += len(chunk)
            if num_bytes > max_bytes:
                raise DownloadError(
                    f"{where}: unpacks to more than the {max_bytes} bytes left of the cap. If that "
                    "size is right, raise max_bytes in its file in sources/."
                )
            sha.update(chunk)
            target.write(chunk)
    return Unpacked(sha.hexdigest(), num_bytes)
