"""Files of the user that are unusual: what is read of them, and what is an error."""

import os
from pathlib import Path

import pytest

from nlp_core.data.guess import guess_data
from nlp_core.data.readers.lines import require_file
from nlp_core.data.readers.records import read_records
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION
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
