"""Download a file from a URL or the package index, and unpack members of an archive."""

import hashlib
import logging
import lzma
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple

import requests
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from nlp_core.data.archive import UNPACK_ERRORS, find_fault
from nlp_core.errors import DownloadError
from nlp_core.progress import show_progress

log = logging.getLogger(__name__)

CHUNK = 1 << 16
# 408, 425 and 429 ask for a retry; every 5xx may be temporary.
PASSING_STATUS = frozenset({408, 425, 429, *range(500, 600)})


class PassingError(DownloadError):
    """A failure that a retry may mend."""


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries; `wait_s` doubles after each try, `install_s` is for a whole package."""

    num_attempts: int = 4
    wait_s: float = 1.0
    connect_s: float = 10.0
    read_s: float = 30.0
    install_s: float = 900.0


def fetch_url(url: str, path: Path, *, max_bytes: int, patience: Patience) -> None:
    """Fetch a URL into `path`, resuming from `path` + ".part".

    Raises:
        DownloadError: the server refuses, is unreachable or sends more than `max_bytes`.
    """
    part = path.with_name(path.name + ".part")
    retrying = Retrying(
        stop=stop_after_attempt(patience.num_attempts),
        wait=wait_exponential(multiplier=patience.wait_s, max=30.0),
        retry=retry_if_exception_type(PassingError),
        before_sleep=lambda state: log.warning(
            "download retry attempt=%d url=%s", state.attempt_number, url
        ),
        reraise=True,
    )
    retrying(_fetch_once, url, part, max_bytes, patience)
    part.replace(path)


def fetch_package(name: str, version: str, folder: Path, *, patience: Patience) -> Path:
    """Fetch the wheel of a pinned package into an empty folder, without installing it."""
    pin = f"{name}=={version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(folder), pin]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience.install_s, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise DownloadError(f"{pin}: no answer within {patience.install_s:.0f} s.") from err
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise DownloadError(f"{pin}: pip download failed ({reason}).")
    return wheels[0]


def _fetch_once(url: str, part: Path, max_bytes: int, patience: Patience) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    timeout = (patience.connect_s, patience.read_s)
    try:
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            status = response.status_code
            resumes = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if status == 416 or (status == 206 and not resumes):
                part.unlink(missing_ok=True)
                raise PassingError(f"{url}: does not continue the partial file; removed that.")
            if status not in (200, 206):
                kind = PassingError if status in PASSING_STATUS else DownloadError
                raise kind(f"{url}: the server answers {status} {response.reason}.")
            _write_body(response, part, have if status == 206 else 0, max_bytes)
    except requests.RequestException as err:
        raise PassingError(f"{url}: cannot be fetched ({_name_cause(err)}).") from err


def _write_body(response: requests.Response, part: Path, have: int, max_bytes: int) -> None:
    """Append the body to the first `have` bytes; requests raises if it breaks off."""
    length = response.headers.get("Content-Length")
    total = have + int(length) if length else None
    with (
        show_progress(part.stem, total, is_bytes=True) as bar,
        part.open("ab" if have else "wb") as file,
    ):
        for chunk in response.iter_content(CHUNK):
            have += len(chunk)
            if have > max_bytes:
                break
            file.write(chunk)
            bar.reach(have)
    if have > max_bytes:
        part.unlink()
        raise DownloadError(
            f"{response.url}: sends more than {max_bytes} bytes. If that size is right, raise "
            "max_bytes in its file in sources/."
        )


def _name_cause(err: BaseException) -> str:
    """Return the innermost reason in a few words, without object addresses."""
    text = str(err.args[0]) if err.args else type(err).__name__
    reason = getattr(err.args[0] if err.args else None, "reason", None)
    return re.sub(r"<[^>]* at 0x[0-9a-f]+>:? ?", "", str(reason or text))


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
        archive_path: with form "none" the one member itself.
        members: path to write, by path in the archive.
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
            if fault := find_fault(info):
                raise DownloadError(
                    f"{archive_path}: the member '{info.filename}' {fault}; fetch the archive from "
                    "its official URL."
                )
        names = archive.namelist()
        if missing := [member for member in members if member not in names]:
            raise DownloadError(
                f"{archive_path}: has no member '{missing[0]}', but {len(names)} others; it is not "
                "the expected archive."
            )
        yield archive.open


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
