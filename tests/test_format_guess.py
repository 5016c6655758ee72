"""The format of a file is guessed from its name and its first lines."""

from pathlib import Path

import pytest

from nlp_core.config.user_data import Format
from nlp_core.data.format_guess import find_folder_format, guess_format
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
