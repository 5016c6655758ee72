import hashlib
import lzma
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from file_server import FileServer, serving

from nlp_core.data.download import CHUNK, Patience, fetch_package, fetch_url, unpack_members
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

    monkeypatch.setattr("nlp_core.data.download.subprocess.run", download)
    assert fetch_package("a-model", "0.1.0", tmp_path, patience=QUICK).name.endswith(".whl")
    assert commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert commands[0][-1] == "a-model==0.1.0"
    assert "--no-deps" in commands[0]


def test_fetch_package_names_the_pin_when_pip_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = SimpleNamespace(returncode=1, stderr="trying\nERROR: no such version\n")
    monkeypatch.setattr("nlp_core.data.download.subprocess.run", lambda command, **unused: failed)
    with pytest.raises(DownloadError, match=r"a-model==9: pip download failed .*no such version"):
        fetch_package("a-model", "9", tmp_path, patience=QUICK)


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def unpack(archive: Path, member: str, form: str = "zip", max_bytes: int = 1000) -> Path:
    target = archive.parent / "out.txt"
    assert form in ("zip", "xz", "none")
    found = unpack_members(archive, {member: target}, form=form, max_bytes=max_bytes)  # type: ignore[arg-type]
    assert found[member].sha256 == hashlib.sha256(target.read_bytes()).hexdigest()
    assert found[member].num_bytes == target.stat().st_size
    return target


def test_unpack_takes_only_the_wanted_members(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"d/a.txt": b"alpha", "d/b.txt": b"beta"})
    assert unpack(archive, "d/b.txt").read_bytes() == b"beta"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "out.txt"]


def test_unpack_reads_xz_and_plain_files(tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"gamma"))
    assert unpack(tmp_path / "a.xz", "a", form="xz").read_bytes() == b"gamma"
    (tmp_path / "a.txt").write_bytes(b"delta")
    assert unpack(tmp_path / "a.txt", "a.txt", form="none").read_bytes() == b"delta"


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "d/../../evil", "..\\e", "C:/e"])
def test_unpack_refuses_paths_outside_the_folder(tmp_path: Path, name: str) -> None:
    archive = write_zip(tmp_path / "a.zip", {"good.txt": b"good", name: b"evil"})
    with pytest.raises(DownloadError, match="is outside the archive's folder"):
        unpack(archive, "good.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_unpack_refuses_links(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DownloadError, match=r"'link\.txt' is a link"):
        unpack(tmp_path / "a.zip", "link.txt")


@pytest.mark.parametrize("form", ["zip", "xz"])
def test_unpack_stops_a_bomb_at_the_cap(tmp_path: Path, form: str) -> None:
    archive = tmp_path / "bomb"
    if form == "zip":
        write_zip(archive, {"a.txt": bytes(5_000_000)})
    else:
        archive.write_bytes(lzma.compress(bytes(5_000_000)))
    with pytest.raises(DownloadError, match="more than the 1000 bytes"):
        unpack(archive, "a.txt", form=form)
    assert [path.name for path in tmp_path.iterdir()] == ["bomb"]


def test_unpack_counts_all_members_towards_the_cap(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"a": bytes(600), "b": bytes(600)})
    targets = {"a": tmp_path / "a", "b": tmp_path / "b"}
    with pytest.raises(DownloadError, match="b: unpacks to more than the 400 bytes"):
        unpack_members(archive, targets, form="zip", max_bytes=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.parametrize("form", ["zip", "xz"])
def test_unpack_refuses_a_truncated_archive(tmp_path: Path, form: str) -> None:
    archive = write_zip(tmp_path / "a.zip", {"a.txt": b"alpha" * 100})
    if form == "xz":
        archive.write_bytes(lzma.compress(b"alpha" * 100))
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(DownloadError, match=r"a\.zip: cannot be unpacked"):
        unpack(archive, "a.txt", form=form)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_unpack_refuses_a_damaged_member(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"a.txt": b"alpha" * 100})
    content = bytearray(archive.read_bytes())
    content[40] ^= 0xFF
    archive.write_bytes(bytes(content))
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        unpack(archive, "a.txt")


def test_unpack_names_a_member_that_is_not_there(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", {"a.txt": b"alpha"})
    with pytest.raises(DownloadError, match=r"has no member 'b\.txt', but 1 others"):
        unpack(archive, "b.txt")
