import hashlib
import json
import lzma
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import DatasetConfig, read_dataset
from nlp_core.data import source
from nlp_core.data.download import Patience
from nlp_core.data.source import Places, fetch_source, is_complete, read_members
from nlp_core.errors import DataError, DownloadError

QUICK = Patience(num_attempts=2, wait_s=0.0, connect_s=1.0, read_s=1.0)
CONTENT = b"first\tsecond\n" * 50
NOWHERE = "http://127.0.0.1:9"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def build(*files: dict[str, object], **extra: object) -> DatasetConfig:
    about = {"title": "t", "licence": "l", "citation": "c", "homepage": "https://example.org"}
    return parse_config(about | {"files": list(files)} | extra, DatasetConfig, where="d.yaml")


def plain(url: str | None = None, content: bytes = CONTENT) -> dict[str, object]:
    sha256 = [{"digest": digest(content)}]
    return {"name": "a.tsv", "mirror": "sub/a.tsv", "url": url, "sha256": sha256}


def zipped(*, pin_member: bool, archive_digest: str | None = None) -> dict[str, object]:
    member: dict[str, object] = {"path": "D/a.tsv"}
    if pin_member:
        member["sha256"] = [{"digest": digest(CONTENT)}]
    file: dict[str, object] = {"name": "a.zip", "mirror": "a.zip", "unpack": "zip"}
    file["members"] = [member]
    return file | ({"sha256": [{"digest": archive_digest}]} if archive_digest else {})


def write_zip(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("D/a.tsv"), content)
    return path


def list_left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as state:
        yield state


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_source_comes_from_a_mirror_folder(tmp_path: Path, data_dir: Path) -> None:
    mirrored = tmp_path / "mirror" / "sub" / "a.tsv"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(CONTENT)
    dataset = build(plain(url=NOWHERE))
    fetch_source("d", dataset, Places(data_dir, str(tmp_path / "mirror"), QUICK))
    assert list_left(data_dir) == ["raw/d/a.tsv", "raw/d/manifest.json"]
    assert read_members(data_dir / "raw" / "d") == {"a.tsv": (digest(CONTENT), None)}
    assert mirrored.exists()


def test_source_comes_from_a_mirror_address(server: FileServer, data_dir: Path) -> None:
    server.files["m/sub/a.tsv"] = CONTENT
    fetch_source("d", build(plain()), Places(data_dir, f"{server.url}/m/", QUICK))
    assert list_left(data_dir) == ["raw/d/a.tsv", "raw/d/manifest.json"]


def test_source_comes_from_its_official_address(server: FileServer, data_dir: Path) -> None:
    server.files["a.tsv"] = CONTENT
    fetch_source("d", build(plain(f"{server.url}/a.tsv")), Places(data_dir, None, QUICK))
    assert (data_dir / "raw" / "d" / "a.tsv").read_bytes() == CONTENT


def test_source_comes_from_the_package_index(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(name: str, version: str, folder: Path, *, patience: Patience) -> Path:
        return write_zip(folder / f"{name}-{version}.whl")

    monkeypatch.setattr(source, "fetch_package", give)
    file = zipped(pin_member=True) | {"package": {"name": "p", "version": "1.0"}}
    fetch_source("d", build(file), Places(data_dir, None, QUICK))
    assert list_left(data_dir) == ["raw/d/a.tsv", "raw/d/manifest.json"]


@pytest.mark.parametrize("name", ["a.zip", "a.tsv"])
def test_source_comes_from_the_drop_folder(data_dir: Path, name: str) -> None:
    drop = data_dir / "local" / "d"
    write_zip(drop / "a.zip")
    if name == "a.tsv":
        (drop / "a.zip").unlink()
        (drop / "a.tsv").write_bytes(CONTENT)
    fetch_source("d", build(zipped(pin_member=True)), Places(data_dir, None, QUICK))
    assert (data_dir / "raw" / "d" / "a.tsv").read_bytes() == CONTENT
    assert (drop / name).exists()


def test_source_is_not_fetched_twice(server: FileServer, data_dir: Path) -> None:
    server.files["a.tsv"] = CONTENT
    dataset = build(plain(f"{server.url}/a.tsv"))
    for _ in range(2):
        fetch_source("d", dataset, Places(data_dir, None, QUICK))
    assert len(server.requests) == 1


def test_source_is_fetched_again_when_a_member_was_changed(
    server: FileServer, data_dir: Path
) -> None:
    server.files["a.tsv"] = CONTENT
    dataset = build(plain(f"{server.url}/a.tsv"))
    fetch_source("d", dataset, Places(data_dir, None, QUICK))
    (data_dir / "raw" / "d" / "a.tsv").write_bytes(b"edited")
    assert not is_complete(data_dir / "raw" / "d", dataset)
    fetch_source("d", dataset, Places(data_dir, None, QUICK))
    assert (data_dir / "raw" / "d" / "a.tsv").read_bytes() == CONTENT


def test_source_with_a_wrong_digest_is_refused_and_not_kept(
    server: FileServer, data_dir: Path
) -> None:
    server.files["a.tsv"] = b"something else"
    with pytest.raises(DownloadError) as caught:
        fetch_source("d", build(plain(f"{server.url}/a.tsv")), Places(data_dir, None, QUICK))
    assert digest(b"something else") in str(caught.value)
    assert digest(CONTENT) in str(caught.value)
    assert list_left(data_dir) == []


def test_source_begins_anew_after_a_stale_part(server: FileServer, data_dir: Path) -> None:
    server.files["a.tsv"] = CONTENT
    part = data_dir / "raw" / ".part" / "d" / "a.tsv.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"stale")
    fetch_source("d", build(plain(f"{server.url}/a.tsv")), Places(data_dir, None, QUICK))
    assert [span for _, span in server.requests] == ["bytes=5-", None]
    assert list_left(data_dir) == ["raw/d/a.tsv", "raw/d/manifest.json"]


def test_source_without_network_names_all_a_user_needs(data_dir: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch_source("d", build(plain(f"{NOWHERE}/a.tsv")), Places(data_dir, None, QUICK))
    message = str(caught.value)
    for part in ("a.tsv", f"{NOWHERE}/a.tsv", digest(CONTENT), "local/d/", "REGLUE_MIRROR"):
        assert part in message
    assert "\n" not in message
    assert list_left(data_dir) == []


def test_source_refuses_a_mirror_that_is_no_folder(tmp_path: Path, data_dir: Path) -> None:
    with pytest.raises(DownloadError, match=r"REGLUE_MIRROR: .* is neither a folder"):
        fetch_source("d", build(plain()), Places(data_dir, str(tmp_path / "none"), QUICK))


def test_source_failure_leaves_the_earlier_state(tmp_path: Path, data_dir: Path) -> None:
    kept = data_dir / "raw" / "d" / "kept.txt"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"kept")
    with pytest.raises(DownloadError):
        fetch_source("d", build(plain()), Places(data_dir, None, QUICK))
    assert list_left(data_dir) == ["raw/d/kept.txt"]


def test_archive_digest_vouches_for_members_without_one(tmp_path: Path, data_dir: Path) -> None:
    archive = write_zip(tmp_path / "mirror" / "a.zip")
    dataset = build(zipped(pin_member=False, archive_digest=digest(archive.read_bytes())))
    places = Places(data_dir, str(tmp_path / "mirror"), QUICK)
    fetch_source("d", dataset, places)
    assert is_complete(data_dir / "raw" / "d", dataset)


def test_archive_with_a_wrong_digest_vouches_for_nothing(tmp_path: Path, data_dir: Path) -> None:
    write_zip(tmp_path / "mirror" / "a.zip")
    note = "Add the digest to d.yaml."
    file = zipped(pin_member=False, archive_digest="0" * 64) | {"digest_note": note}
    with pytest.raises(DownloadError, match=r"Add the digest to d\.yaml"):
        fetch_source("d", build(file), Places(data_dir, str(tmp_path / "mirror"), QUICK))
    assert list_left(data_dir) == []


def test_a_file_without_a_known_digest_is_refused_with_its_own(
    tmp_path: Path, data_dir: Path
) -> None:
    file = {"name": "a.txt", "mirror": "a.txt", "digest_note": "No digest is known; add it."}
    (tmp_path / "a.txt").write_text("text")
    message = r"found sha256 \w{64}, expected a pinned digest; .* No digest is known; add it\."
    with pytest.raises(DownloadError, match=message):
        fetch_source("d", build(file), Places(data_dir, str(tmp_path)))
    assert not (data_dir / "raw" / "d").exists()


def test_label_of_another_release_is_kept_in_the_manifest(tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "a.part.xz").write_bytes(lzma.compress(b"part"))
    official = plain(NOWHERE)
    other: dict[str, object] = {
        "name": "a.part.xz",
        "mirror": "a.part.xz",
        "unpack": "xz",
        "members": [
            {
                "path": "a.part",
                "save_as": "a.tsv",
                "sha256": [{"digest": digest(b"part"), "label": "a part of it"}],
            }
        ],
    }
    fetch_source("d", build(official, other), Places(data_dir, str(tmp_path), QUICK))
    assert read_members(data_dir / "raw" / "d") == {"a.tsv": (digest(b"part"), "a part of it")}


def test_generated_source_needs_no_network(data_dir: Path) -> None:
    for _ in range(2):
        fetch_source("sample_ner", read_dataset("sample_ner"), Places(data_dir, None, QUICK))
    assert len(list_left(data_dir)) == 4


def test_generated_source_with_other_bytes_is_refused(data_dir: Path) -> None:
    generator = {"name": "sample_ner", "seed": 2, "sizes": {"a.txt": 3}}
    about = {"title": "t", "licence": "l", "citation": "c", "homepage": "h"}
    value = about | {"generator": generator | {"sha256": {"a.txt": "0" * 64}}}
    dataset = parse_config(value, DatasetConfig, where="d.yaml")
    with pytest.raises(DownloadError, match=r"generator\.sha256\.a\.txt: the generator wrote"):
        fetch_source("d", dataset, Places(data_dir, None, QUICK))
    assert list_left(data_dir) == []


@pytest.mark.parametrize("text", ["", "{}", '{"members": {"a.tsv": 3}}', "not json"])
def test_damaged_manifest_names_the_stage(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"python -m stages\.preprocess"):
        read_members(tmp_path)


def test_manifest_holds_no_place(tmp_path: Path, data_dir: Path) -> None:
    write_zip(tmp_path / "mirror" / "a.zip")
    places = Places(data_dir, str(tmp_path / "mirror"), QUICK)
    fetch_source("d", build(zipped(pin_member=True)), places)
    manifest = json.loads((data_dir / "raw" / "d" / "manifest.json").read_text())
    expected = {"sha256": digest(CONTENT), "bytes": len(CONTENT), "label": None}
    assert manifest == {"source": "d", "members": {"a.tsv": expected}}


def test_an_error_names_the_first_failures(data_dir: Path) -> None:
    files = [plain(f"{NOWHERE}/{n}") | {"name": f"{n}.tsv", "mirror": f"{n}.tsv"} for n in range(4)]
    with pytest.raises(DownloadError) as caught:
        fetch_source("d", build(*files), Places(data_dir, None, QUICK))
    assert str(caught.value).count("cannot be fetched") == 2
    assert " 2 more places failed. " in str(caught.value)


def test_what_is_missing_is_listed_with_the_places_for_it(data_dir: Path) -> None:
    two = [plain(), plain() | {"name": "b.tsv", "mirror": "sub/b.tsv"}]
    places = Places(data_dir, None, QUICK)
    with pytest.raises(DownloadError) as caught:
        fetch_source("d", build(*two), places)
    assert f"Put a.tsv, b.tsv into {data_dir}/local/d/" in str(caught.value)
    assert "base URL with sub/a.tsv, sub/b.tsv, and run" in str(caught.value)
    with pytest.raises(DownloadError) as caught:
        fetch_source("d", build(plain(), zipped(pin_member=True)), places)
    assert f"Put a.tsv, or a.zip, into {data_dir}/local/d/" in str(caught.value)
    assert "base URL with sub/a.tsv or a.zip, and run" in str(caught.value)
