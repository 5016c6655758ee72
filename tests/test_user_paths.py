"""Paths as users give them: names with a colon, places where nothing can be written."""

import io
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from tests.user_commands import fail
from tests.user_files import SMALL, read_rows, write_tsv

CONVERT = "--from tsv --scheme-from BIO --scheme-to BILOU"
SHORT = ["--epochs", "1", *SMALL]


@pytest.mark.parametrize("name", ["run:1", "s3:run"])
def test_a_folder_and_a_file_may_have_a_colon_in_their_names(place: Path, name: str) -> None:
    write_tsv(place / "a.tsv", header="text\tlabel")
    main(["train", "a.tsv", "-o", name, *SHORT])
    main(["test", name, "--data", "a.tsv"])
    main(["predict", name, "--data", "a.tsv", "-o", f"{name}.d/p.tsv"])
    assert len(read_rows(Path(f"{name}.d/p.tsv"))) == 60
    table = pa.Table.from_pylist(read_rows(Path("a.tsv")))
    pq.write_table(table, Path(f"{name}.d/b.parquet").resolve())
    main(["train", f"{name}.d/b.parquet", "-o", f"{name}.e", *SHORT])
    main(["predict", f"{name}.e", "--data", f"{name}.d/b.parquet", "-o", f"{name}.d/p.parquet"])
    assert pq.read_metadata(Path(f"{name}.d/p.parquet").resolve()).num_rows == 60


@pytest.fixture
def protected(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which `ro` and `kept.tsv` cannot be written; root may write anywhere."""
    (place / "ro").mkdir()
    write_tsv(place / "kept.tsv", header="text\tlabel")
    names, allows = {"ro", "kept.tsv"}, os.access

    def ask(path: str | Path, mode: int) -> bool:
        return allows(path, mode) and not (mode & os.W_OK and Path(path).name in names)

    monkeypatch.setattr(os, "access", ask)
    return place


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train kept.tsv -o ro/m", "ro/m: -o: cannot be written: the folder is read-only for you"),
        ("train kept.tsv -o ro/a/m", "-o: cannot be written: the folder {place}/ro is read-only"),
        ("train kept.tsv -o kept.tsv/m", "kept.tsv/m: -o: kept.tsv is a file, not"),
        ("new classification --train kept.tsv -o ro/x", "ro/x: -o: cannot be written: the folder"),
        ("new classification --train kept.tsv -o .", ".: -o names a folder; name a file"),
        ("new classification --train kept.tsv -o . --force", ".: -o names a folder; name a file"),
        (
            "new classification --train kept.tsv -o kept.tsv/x",
            "x: -o: kept.tsv is a file, not",
        ),
        ("embed m --data kept.tsv -o kept.tsv/v.npy", "kept.tsv is a file, not a folder; name"),
        ("index m --data kept.tsv -o kept.tsv/i", "kept.tsv is a file, not a folder; name"),
        ("predict m --data ro/x -o kept.tsv", "overwritten: the file is write-protected; name ano"),
        (
            f"convert kept.tsv ro/x {CONVERT}",
            "ro/x: cannot be written: the folder is read-only for you",
        ),
    ],
)
def test_where_nothing_can_be_written_is_said_before_the_work(
    protected: Path, command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (protected / "kept.tsv").read_bytes(), sorted(protected.rglob("*"))
    assert message.format(place=protected) in fail(capsys, *command.split())
    assert ((protected / "kept.tsv").read_bytes(), sorted(protected.rglob("*"))) == before


def test_a_data_file_may_have_a_name_that_is_not_utf_8(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="utf-8"))
    data = os.fsdecode(b"caf\xe9.tsv")
    write_tsv(place / data, header="text\tlabel")
    main(["train", data, "-o", "m", *SHORT])
    assert "caf\ufffd.tsv" in (place / "m/report.md").read_text()
    assert "caf\ufffd.tsv" in (place / "m/report.html").read_text()
    main(["test", "m", "--data", data])
    main(["predict", "m", "--data", data, "-o", f"p-{data}"])
    assert len(read_rows(place / f"p-{data}")) == 60
    assert b"p-caf\xe9.tsv: 60 rows" in shown.getvalue()


@pytest.mark.parametrize("command", ["train {}.parquet -o m", "train a.tsv -o {}"])
def test_another_name_that_is_not_utf_8_is_an_error_before_training(
    place: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_tsv(place / "a.tsv", header="text\tlabel")
    with (place / f"{name}.parquet").open("wb") as file:
        pq.write_table(pa.Table.from_pylist(read_rows(place / "a.tsv")), file)
    arguments = [part.format(name) for part in command.split()]
    message = fail(capsys, *arguments)
    assert "found a name that is not UTF-8, expected one; choose another" in message
    assert not (place / "m").exists()
