"""Fetch one file from an address or from the package index, resumable and with patience."""

import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from nlp_core.errors import DownloadError

log = logging.getLogger(__name__)
CHUNK = 1 << 16
# 408, 425 and 429 ask to come again; every 5xx may pass.
PASSING_STATUS = frozenset({408, 425, 429, *range(500, 600)})


class PassingError(DownloadError):
    """A failure that may be gone at the next try."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server and how often to ask again.

    Attributes:
        num_attempts: tries for each file.
        wait_s: seconds before the second try; each further wait is twice as long.
        connect_s: seconds for a connection to come about.
        read_s: seconds between two pieces of a body.
        install_s: seconds for a whole package download.
    """

    num_attempts: int = 4
    wait_s: float = 1.0
    connect_s: float = 10.0
    read_s: float = 30.0
    install_s: float = 900.0


def fetch_url(url: str, path: Path, *, max_bytes: int, patience: Patience) -> None:
    """Fetch an address into `path`, going on where an earlier try stopped.

    What has come is kept beside `path` with the suffix `.part` until it is whole.

    Raises:
        DownloadError: the server refuses, cannot be reached or sends more than `max_bytes`.
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
    """Fetch the wheel of a pinned package into an empty folder, without installing anything.

    Raises:
        DownloadError: the package index has no such package or cannot be reached.
    """
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
            if response.status_code == 416:
                _settle_range(response, part, have, url)
                return
            _check_status(response, url)
            if response.status_code == 206 and not _is_continuation(response, have):
                part.unlink()
                raise PassingError(f"{url}: the server sends another range than was asked for.")
            _write_body(response, part, have if response.status_code == 206 else 0, max_bytes)
    except requests.RequestException as err:
        raise PassingError(f"{url}: cannot be fetched ({_name_cause(err)}).") from err


def _check_status(response: requests.Response, url: str) -> None:
    if response.status_code in PASSING_STATUS:
        raise PassingError(f"{url}: the server answers {response.status_code} {response.reason}.")
    if response.status_code not in (200, 206):
        raise DownloadError(f"{url}: the server answers {response.status_code} {response.reason}.")


def _is_continuation(response: requests.Response, have: int) -> bool:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return found is not None and int(found.group(1)) == have


def _settle_range(response: requests.Response, part: Path, have: int, url: str) -> None:
    """Take an unsatisfiable range for the end of a whole file, or else begin anew."""
    if response.headers.get("Content-Range") != f"bytes */{have}":
        part.unlink()
        raise PassingError(f"{url}: the part that had come does not fit the file; it was removed.")


def _write_body(response: requests.Response, part: Path, have: int, max_bytes: int) -> None:
    length = response.headers.get("Content-Length")
    expected = have + int(length) if length else None
    name, mode = part.name.removesuffix(".part"), "ab" if have else "wb"
    with _drawing(name, expected, have) as advance, part.open(mode) as file:
        for chunk in response.iter_content(CHUNK):
            have += len(chunk)
            if have > max_bytes:
                break
            file.write(chunk)
            advance(len(chunk))
    if have > max_bytes:
        part.unlink()
        raise DownloadError(
            f"{response.url}: sends more than {max_bytes} bytes; refused. If that size is right, "
            "raise max_bytes in its file in sources/."
        )
    if expected is not None and have != expected:
        raise PassingError(f"{response.url}: {have} of {expected} bytes came.")


@contextmanager
def _drawing(name: str, total: int | None, have: int) -> Iterator[Callable[[int], None]]:
    """Draw a progress bar on standard error where that is a terminal; yield how to advance it."""
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(name, total=total, completed=have)
        yield lambda num_bytes: progress.advance(task, num_bytes)


def _name_cause(err: BaseException) -> str:
    """Return the innermost reason in a few words, without object addresses."""
    text = str(err.args[0]) if err.args else type(err).__name__
    reason = getattr(err.args[0] if err.args else None, "reason", None)
    return re.sub(r"<[^>]* at 0x[0-9a-f]+>:? ?", "", str(reason or text))
