import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from file_server import FileServer, serving

from nlp_core.data.fetch import CHUNK, Patience, fetch_package, fetch_url
from nlp_core.errors import DownloadError

QUICK = Patience(num_attempts=3, wait_s=0.0, connect_s=1.0, read_s=1.0)
BODY = bytes(range(256)) * 1024


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as state:
        state.files["a.bin"] = BODY
        yield state


def fetch_body(server: FileServer, folder: Path, max_bytes: int = 1 << 20) -> bytes:
    path = folder / "a.bin"
    fetch_url(f"{server.url}/a.bin", path, max_bytes=max_bytes, patience=QUICK)
    return path.read_bytes()


def test_fetch_writes_the_body_and_leaves_no_part(server: FileServer, tmp_path: Path) -> None:
    assert fetch_body(server, tmp_path) == BODY
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin"]


def test_fetch_continues_an_earlier_part(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    assert fetch_body(server, tmp_path) == BODY
    assert server.requests == [("a.bin", "bytes=1000-")]


def test_fetch_begins_anew_where_ranges_are_ignored(server: FileServer, tmp_path: Path) -> None:
    server.knows_ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"x" * 1000)
    assert fetch_body(server, tmp_path) == BODY


def test_fetch_goes_on_after_a_body_that_broke_off(server: FileServer, tmp_path: Path) -> None:
    server.breaks = [2 * CHUNK + 10]
    assert fetch_body(server, tmp_path) == BODY
    assert server.requests[1] == ("a.bin", f"bytes={2 * CHUNK}-")


def test_fetch_asks_again_after_503(server: FileServer, tmp_path: Path) -> None:
    server.statuses = [503, 429]
    assert fetch_body(server, tmp_path) == BODY
    assert len(server.requests) == 3


def test_fetch_takes_a_part_that_is_already_whole(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    assert fetch_body(server, tmp_path) == BODY


def test_fetch_drops_a_part_that_is_too_long(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    assert fetch_body(server, tmp_path) == BODY


def test_fetch_does_not_ask_again_after_404(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"none\.bin: the server answers 404"):
        fetch_url(f"{server.url}/none.bin", tmp_path / "n", max_bytes=10, patience=QUICK)
    assert len(server.requests) == 1


def test_fetch_gives_up_after_the_last_attempt(server: FileServer, tmp_path: Path) -> None:
    server.statuses = [500, 500, 500, 500]
    with pytest.raises(DownloadError, match="the server answers 500"):
        fetch_body(server, tmp_path)
    assert len(server.requests) == 3


def test_fetch_keeps_the_part_when_it_gives_up(server: FileServer, tmp_path: Path) -> None:
    server.breaks = [CHUNK + 1, 0, 1]
    with pytest.raises(DownloadError, match="cannot be fetched"):
        fetch_body(server, tmp_path)
    assert (tmp_path / "a.bin.part").read_bytes() == BODY[:CHUNK]


def test_fetch_stops_at_the_size_cap(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="more than 1000 bytes"):
        fetch_body(server, tmp_path, max_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_fetch_names_the_address_when_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:9/x: cannot be fetched"):
        fetch_url("http://127.0.0.1:9/x", tmp_path / "x", max_bytes=10, patience=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_fetch_package_returns_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def download(command: list[str], **unused: object) -> SimpleNamespace:
        commands.append(command)
        (tmp_path / "a_model-0.1.0-py3-none-any.whl").write_bytes(b"wheel")
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr("nlp_core.data.fetch.subprocess.run", download)
    assert fetch_package("a-model", "0.1.0", tmp_path, patience=QUICK).name.endswith(".whl")
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert commands[0][-1] == "a-model==0.1.0"
    assert "--no-deps" in commands[0]


def test_fetch_package_names_the_pin_when_pip_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = SimpleNamespace(returncode=1, stderr="trying\nERROR: no such version\n")
    monkeypatch.setattr("nlp_core.data.fetch.subprocess.run", lambda command, **unused: failed)
    with pytest.raises(DownloadError, match=r"a-model==9: pip download failed .*no such version"):
        fetch_package("a-model", "9", tmp_path, patience=QUICK)
