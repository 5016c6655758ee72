"""Files of the user that are unusual: what is read of them, and what is an error."""

import os
from pathlib import Path

import pytest

from nlp_core.data.guess import guess_data, guess_texts
from nlp_core.data.readers.lines import require_file
from nlp_core.data.readers.records import FileRecord, read_records
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, TAGGING
from tests.user_files import data


@pytest.mark.parametrize(("name", "what"), [("pipe", "pipe"), ("-", "pipe"), ("/dev/null", "dev")])
def test_what_can_be_read_only_once_is_to_be_saved_first(place: Path, name: str, what: str) -> None:
    os.mkfifo("pipe")
    message = f"found a {what}.*, expected a file, since it is read twice; save"
    with pytest.raises(DataError, match=message):
        list(read_records(Path(name), data()))
    with pytest.raises(DataError, match=message):
        guess_data(Path(name), CLASSIFICATION)
    with pytest.raises(DataError, match=message):
        require_file(Path(name))


def test_a_file_named_as_standard_input_is_a_file(place: Path) -> None:
    Path("-").write_text("text\tlabel\na\tb\n")
    assert [record.cells["text"] for record in read_records(Path("-"), data())] == ["a"]


def test_a_row_without_columns_is_named(place: Path) -> None:
    Path("a.jsonl").write_text('{"text": "soup"}\n{}\n')
    message = r"a\.jsonl: line 2: found a row without columns, expected"
    with pytest.raises(DataError, match=message):
        list(read_records(Path("a.jsonl"), data(format="jsonl")))
    with pytest.raises(DataError, match=message):
        guess_data(Path("a.jsonl"), CLASSIFICATION)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.txt", "a.conll"])
def test_line_ends_of_old_programs_are_named(place: Path, name: str) -> None:
    mark = {"a.csv": ",", "a.conll": " "}.get(name, "\t")
    lines = [mark.join(cells) for cells in [("text", "label"), ("a film", "b"), ("c", "d")]]
    if name == "a.jsonl":
        lines = ['{"text": "a", "label": "b"}', '{"text": "c", "label": "d"}']
    Path(name).write_bytes("\r".join([*lines, ""]).encode())
    message = r"found CR at the ends of lines, .* expected LF or CR LF; convert the file"
    with pytest.raises(DataError, match=message):
        _read(Path(name))


def _read(path: Path) -> list[FileRecord]:
    if path.suffix == ".txt":
        return list(read_records(path, guess_texts(path)))
    kind = TAGGING if path.suffix == ".conll" else CLASSIFICATION
    return list(read_records(path, guess_data(path, kind).data))


def test_a_quoted_cell_keeps_its_line_ends(place: Path) -> None:
    Path("a.csv").write_bytes(b'"a\rfilm",b')
    (record,) = read_records(
        Path("a.csv"), data(format="csv", texts=["1"], label="2", header=False)
    )
    assert record.cells == {"1": "a\rfilm", "2": "b"}
