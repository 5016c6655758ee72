"""The format of a file is guessed from its name and its first lines."""

import re
from functools import partial
from pathlib import Path

import pytest

from nlp_core.config.user_data import DataConfig, Format
from nlp_core.data.format_guess import find_folder_format, guess_format
from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, TAGGING


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.tsv", "a,b\n", "tsv"),
        ("a", "a\tb\n", "tsv"),
        ("a", "a,b\n", "csv"),
        ("a", ' {"a": 1}\n', "jsonl"),
        ("a", '[{"a": 1}]\n', "json"),
        ("a.json", "[\n", "json"),
        ("a.jsonl", " [\n", "json"),
        ("a.json", '{"a": 1}\n', "jsonl"),
        ("a.arrow", "any\n", "arrow"),
        ("a.parquet", "any\n", "parquet"),
        ("a", "a B\n\nc O\n", "conll"),
    ],
)
def test_format_by_name_and_content(tmp_path: Path, name: str, text: str, form: Format) -> None:
    (tmp_path / name).write_text(text)
    assert guess_format(tmp_path / name, TAGGING) == form


def test_format_of_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found a folder, expected a file, a folder of brat"):
        guess_format(tmp_path, TAGGING)
    (tmp_path / "a.txt").write_text("a\n")
    assert guess_format(tmp_path, TAGGING) == "brat"
    (tmp_path / "state.json").write_text("{}")
    assert find_folder_format(tmp_path) == "arrow"


def test_a_file_without_separators_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("word\n")
    with pytest.raises(DataError, match="found neither tabs, commas nor JSON"):
        guess_format(tmp_path / "a", CLASSIFICATION)


@pytest.mark.parametrize(
    ("name", "text", "look"),
    [
        ("a.tsv", "text,label\na,x\n", "as tsv by its name, but line 1 has commas and no tabs"),
        ("a.tsv", '{"text": "a", "label": "x"}\n', "but line 1 begins with { as JSON does"),
        ("a.csv", "text\na\n", "read as csv by its name, but line 1 has no commas"),
        ("a.jsonl", "text,label\na,x\n", "not valid JSON (Expecting value at column 1) in 'text,l"),
    ],
)
def test_a_file_of_another_format_is_described(
    tmp_path: Path, name: str, text: str, look: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    for guess in (guess_kind, partial(guess_data, kind=CLASSIFICATION)):
        with pytest.raises(DataError, match=re.escape(look)):
            guess(path)


def test_a_file_read_in_another_format_is_described(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    data = DataConfig(kind=CLASSIFICATION, format="tsv", texts=["text"], label="label")
    path.write_text("text;label\na;x\n")
    with pytest.raises(DataError, match="Line 1 has semicolons and no tabs"):
        list(read_examples(path, data))
