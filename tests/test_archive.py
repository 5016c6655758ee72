import hashlib
import lzma
import stat
import zipfile
from pathlib import Path

import pytest

from nlp_core.data.archive import unpack_members
from nlp_core.errors import DownloadError


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
