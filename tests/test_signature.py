"""Files that are not text are named by what they are."""

import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.data.archive import open_data
from nlp_core.data.readers.lines import read_lines
from nlp_core.data.signature import SIGNATURES, name_content
from nlp_core.errors import DataError

CONTENTS = {
    "a PDF": b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\0\n",
    "a PNG image": b"\x89PNG\r\n\x1a\n\0\0",
    "an SQLite database": b"SQLite format 3\0\x10\0",
    "an old Office file (.doc, .xls or .ppt)": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0",
    "a bzip2 archive": b"BZh91AY&SY\0",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_is_named_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(CONTENTS[name])
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert str(caught.value).startswith(f"{path}: found {name}, expected ")
    assert "NUL" not in str(caught.value)


def test_tables_of_arrow_are_named(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"], "label": ["x"]})
    pq.write_table(table, tmp_path / "a.csv")
    pyarrow.feather.write_feather(table, str(tmp_path / "b.csv"))
    with pytest.raises(DataError, match=r"found a parquet file, .* name it \.parquet"):
        list(read_lines(tmp_path / "a.csv"))
    with pytest.raises(DataError, match=r"found an arrow file, .* name it \.arrow"):
        list(read_lines(tmp_path / "b.csv"))


def test_text_that_begins_as_a_name_does_stays_text() -> None:
    for text in ("%PDF-files are hard", "PAR1\tx", "BZh1 x", "GIF x", "SQLite format 3", "PK"):
        assert name_content(text.encode()) is None
    assert len({*SIGNATURES.values()}) == len(SIGNATURES)


def test_train_names_a_pdf_in_one_paragraph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "paper.pdf"
    path.write_bytes(CONTENTS["a PDF"])
    with pytest.raises(SystemExit) as caught:
        main(["train", str(path), "-o", str(tmp_path / "out")])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert f"error: {path}: found a PDF, expected text in UTF-8" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("member", "content", "name"),
    [
        ("xl/workbook.xml", b"<a/>", "a spreadsheet"),
        ("word/document.xml", b"<a/>", "a Word document"),
        ("ppt/presentation.xml", b"<a/>", "a presentation"),
        ("mimetype", b"application/vnd.oasis.opendocument.text", "an OpenDocument file"),
        ("mimetype", b"application/epub+zip", "an e-book"),
    ],
)
def test_office_files_are_named_whatever_their_ending(
    tmp_path: Path, member: str, content: bytes, name: str
) -> None:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(member, content)
        file.writestr("[Content_Types].xml" if "/" in member else "a.xml", b"<a/>")
    with pytest.raises(DataError, match=f"found {name}, expected"):
        open_data(path)
