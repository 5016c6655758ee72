"""Data as their authors publish them are read without an edit of the file."""

import json
from pathlib import Path

import pytest

from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.readers.user import read_examples
from nlp_core.kinds import CLASSIFICATION, LABEL, Kind

TYPES, ROLES = (
    "discrete\tcontinuous\tdiscrete\tstring\tstring",
    "\t\tclass\tmeta\tmeta include=True",
)
TABLE = f"Again\tLikes\tAuthor\tFrom\tContent\r\n{TYPES}\r\n{ROLES}\r\n"
ROWS = ["no\t2.0\tann\thttp://a\tGood day to you .", "yes\t1.0\tbob\t\tA bad day it is ."]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read(path: Path) -> tuple[Kind, list[tuple[str, str]]]:
    """Return the guessed kind, and the text and the label of each example."""
    kind = guess_kind(path).kind
    examples = read_examples(path, guess_data(path, kind).data)
    return kind, [(" ".join(one.texts[0]), " ".join(one.targets[LABEL])) for one in examples]


def test_a_table_of_orange_has_three_header_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tab", TABLE + "\r\n".join(ROWS * 3))
    expected = [("Good day to you .", "ann"), ("A bad day it is .", "bob")]
    assert read(path) == (CLASSIFICATION, expected * 3)


@pytest.mark.parametrize("blank", ["", "\t"])
def test_a_table_of_orange_may_have_a_blank_row(tmp_path: Path, blank: str) -> None:
    rows = "earn\tthe net is up\ngrain\twheat fell today\n"
    path = write(tmp_path / "a.tab", f"Category\tText\nd\tstring\nclass\t\n{blank}\n{rows * 2}")
    expected = [("the net is up", "earn"), ("wheat fell today", "grain")]
    assert read(path) == (CLASSIFICATION, expected * 2)


def test_a_table_of_orange_without_a_class_keeps_its_columns(tmp_path: Path) -> None:
    rows = "Sport\tthey won it all\nPolitics\tthey lost a vote\n"
    path = write(tmp_path / "a.tab", f"Category\tText\nd\ts\n\tmeta\n{rows * 2}")
    assert read(path)[1][:2] == [("they won it all", "Sport"), ("they lost a vote", "Politics")]


def test_a_row_like_types_is_a_row_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabel\na string\td\nclass of it\tc\nthe rest\tc\n")
    assert [label for _, label in read(path)[1]] == ["d", "c", "c"]


def test_objects_without_a_value_are_blank(tmp_path: Path) -> None:
    rows = [{"text": "so good", "class": 1}, {"text": "so bad", "class": 0}]
    path = write(tmp_path / "a.json", json.dumps([*rows, {"text": "", "class": None}]))
    assert read(path) == (CLASSIFICATION, [("so good", "1"), ("so bad", "0")])
    lines = "\n".join(map(json.dumps, [*rows, {"text": "", "class": None}]))
    assert len(read(write(tmp_path / "a.jsonl", lines))[1]) == 2


@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_with_one_list_of_objects_is_that_list(
    tmp_path: Path, indent: int | None
) -> None:
    rows = [
        {"text": "next bus to Rome", "intent": "Depart", "training": True},
        {"text": "how do I get there", "intent": "Route", "training": False},
    ]
    value = {"name": "bot", "lang": "en", "sentences": rows}
    path = write(tmp_path / "a.json", json.dumps(value, indent=indent))
    expected = [("next bus to Rome", "Depart"), ("how do I get there", "Route")]
    assert read(path) == (CLASSIFICATION, expected)


def test_an_array_of_pairs_has_columns_without_names(tmp_path: Path) -> None:
    pairs = [["I would buy it again .", "1"], ["It broke .", "0"]]
    path = write(tmp_path / "a.json", json.dumps(pairs))
    assert read(path) == (CLASSIFICATION, [("I would buy it again .", "1"), ("It broke .", "0")])
