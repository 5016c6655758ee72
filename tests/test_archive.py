"""Data in ZIP and gzip files: what is unpacked, and which archives are errors."""

import gzip
import io
import logging
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.data import archive
from nlp_core.data.archive import open_data
from nlp_core.data.cache import find_cache
from nlp_core.data.readers.records import check_file
from nlp_core.errors import DataError

ROWS = b"text\tlabel\na b\tx\nc d\ty\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))


def write_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_one_file_is_unpacked_once_whatever_the_archive_is_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = tmp_path / "a.tsv"
    plain.write_bytes(ROWS)
    assert open_data(str(plain)) == plain
    assert open_data(tmp_path / "none.zip") == tmp_path / "none.zip"
    gz = tmp_path / "a.tsv.gz"
    gz.write_bytes(gzip.compress(ROWS))
    with caplog.at_level(logging.WARNING):
        found = open_data(gz)
    assert (found.name, found.read_bytes()) == ("a.tsv", ROWS)
    assert f"{gz}: unpacked to {found}" in caplog.text
    stamp = found.stat().st_mtime_ns
    odd = write_zip(tmp_path / "data", {"a.tsv": ROWS, "__MACOSX/a.tsv": b"", ".DS_Store": b""})
    assert open_data(odd).read_bytes() == ROWS
    assert open_data(gz).stat().st_mtime_ns == stamp


def test_a_folder_is_unpacked_whole(tmp_path: Path) -> None:
    found = open_data(write_zip(tmp_path / "a.zip", {"brat/a.txt": b"a", "brat/a.ann": b""}))
    assert sorted(path.name for path in found.iterdir()) == ["a.ann", "a.txt"]
    flat = open_data(write_zip(tmp_path / "b.zip", {"a.txt": b"a", "a.ann": b""}))
    assert sorted(path.name for path in flat.iterdir()) == ["a.ann", "a.txt"]


def test_commands_read_archives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_zip(tmp_path / "a.zip", {"a.tsv": ROWS * 1})
    main(["new", "classification", "--train", str(path), "-o", str(tmp_path / "m.json")])
    assert '"tsv"' in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["new", "regression", "--train", str(_write_hostile(tmp_path, "../x")), "-o", "m"])
    assert caught.value.code == 2
    assert "the member '../x' is outside the archive's folder" in capsys.readouterr().err


def test_a_spreadsheet_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.XLSX", {"[Content_Types].xml": b"<a/>", "xl/a.xml": b"<a/>"})
    with pytest.raises(
        DataError, match="found a spreadsheet, expected text in UTF-8; save it as CSV"
    ):
        open_data(path)


def _write_hostile(folder: Path, name: str, mode: int = 0) -> Path:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    path = folder / "hostile.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("fine.tsv", ROWS)
        file.writestr(info, b"/etc/passwd")
    return path


@pytest.mark.parametrize(
    ("name", "mode", "wanted"),
    [
        ("../x.tsv", 0, "is outside"),
        ("a/../../x.tsv", 0, "is outside"),
        ("/tmp/x.tsv", 0, "is outside"),
        ("..\\x.tsv", 0, "is outside"),
        ("C:/x.tsv", 0, "is outside"),
        ("link", stat.S_IFLNK | 0o777, "is a link"),
        ("fine.tsv", 0, "File exists|not a readable"),
        ("fine.tsv/x", 0, "not a readable"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_members_are_errors_and_write_nothing(
    tmp_path: Path, name: str, mode: int, wanted: str
) -> None:
    with pytest.raises(DataError, match=wanted):
        open_data(_write_hostile(tmp_path, name, mode))
    assert not list((find_cache() / archive.UNPACKED).glob("*"))
    assert not (tmp_path.parent / "x.tsv").exists()


def test_bombs_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FREE_BYTES", 1000)
    zeros = b"0" * 3_000_000
    zipped = write_zip(tmp_path / "a.zip", {"a.tsv": zeros})
    many = write_zip(tmp_path / "b.zip", {f"{idx}.tsv": b"0" * 2000 for idx in range(9)})
    monkeypatch.setattr(archive, "MOST_GROWTH", 5)
    (tmp_path / "a.gz").write_bytes(gzip.compress(zeros))
    for path in (zipped, many, tmp_path / "a.gz"):
        with pytest.raises(DataError, match="unpacks to more than 5 times its size"):
            open_data(path)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 8)
    with pytest.raises(DataError, match="9 members, at most 8 are read"):
        open_data(many)
    assert not list((find_cache() / archive.UNPACKED).glob("*"))


def test_damaged_and_other_archives_are_errors(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.tsv", ROWS * 9)
    contents = {
        "half.zip": whole.getvalue()[:60],
        "cut.gz": gzip.compress(ROWS)[:-6],
        "flip.gz": gzip.compress(ROWS)[:-8] + b"\0" * 8,
        "a.tar.gz": gzip.compress(b"x" * 512),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="archive"):
            open_data(tmp_path / name)
    with pytest.raises(DataError, match="no files in it"):
        open_data(write_zip(tmp_path / "c.zip", {"__MACOSX/a": b""}))


def test_a_folder_of_one_file_is_that_file(tmp_path: Path) -> None:
    mac = {"data/a.tsv": ROWS, "__MACOSX/data/._a.tsv": b"x"}
    assert open_data(write_zip(tmp_path / "a.zip", mac)).read_bytes() == ROWS


def test_a_folder_of_no_format_names_its_files(tmp_path: Path) -> None:
    path = open_data(write_zip(tmp_path / "a.zip", {"dev.tsv": ROWS, "train.tsv": ROWS}))
    with pytest.raises(DataError, match=r"It has dev\.tsv, train\.tsv; give one of them"):
        check_file(path)


def test_errors_name_the_archive_and_the_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = b"text\tlabel\na b\tx\nc\xff d\ty\n"
    for path, shown in (
        (write_zip(tmp_path / "a.zip", {"data/a.tsv": odd}), f"{tmp_path}/a.zip: data/a.tsv: "),
        (write_zip(tmp_path / "b.zip", {"a.txt": b"a", "b.tsv": b""}), f"{tmp_path}/b.zip: found"),
        (tmp_path / "c.tsv.gz", f"{tmp_path}/c.tsv.gz: line 3: not UTF-8"),
    ):
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(odd))
        with pytest.raises(SystemExit) as caught:
            main(["train", str(path), "-o", str(tmp_path / "out")])
        assert caught.value.code == 2
        message = capsys.readouterr().err
        assert f"error: {shown}" in message
        assert str(find_cache()) not in message.partition("error: ")[2]
