"""JSON Lines of sources: texts and labels under keys, and which rows belong to a split."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from tests.tiny_source import TASK, build, put, read

READER = {
    "name": "jsonl",
    "texts": ["about.passage", "question"],
    "label": "label",
    "label_names": {"e": "entailment"},
    "left_out": ["-"],
}
ROWS = [
    {"about": {"passage": "a b"}, "question": "c ?", "label": True, "lang": "de"},
    {"about": {"passage": "d"}, "question": "e", "label": "-", "lang": "de"},
    {"about": {"passage": "f"}, "question": "g", "label": "e", "lang": "en"},
]
LABELS = ["entailment", "true"]


def describe(rows: int, *, reader: dict[str, Any] | None = None, **split: Any) -> dict[str, Any]:
    return deepcopy(TASK) | {
        "kind": "pair_classification",
        "reader": READER | (reader or {}),
        "labels": LABELS,
        "splits": {"dev": {"file": "dev.jsonl", "rows": rows, **split}},
        "select_split": "dev",
        "report_split": "dev",
        "held_out": None,
    }


def write(rows: list[Any]) -> str:
    return "\n".join(json.dumps(row) for row in rows) + "\n"


def preprocess(folder: Path, task: dict[str, Any], files: dict[str, str]) -> None:
    put(folder, files)
    preprocess_source("d", build({"task": task}, sorted(files)), folder)


def test_keys_may_be_inside_of_others_and_labels_get_their_names(tmp_path: Path) -> None:
    preprocess(tmp_path, describe(2), {"dev.jsonl": write(ROWS) + "\n"})
    found = read(tmp_path, "dev")
    assert [(row["text_a"], row["text_b"], row["label"]) for row in found] == [
        ("a b", "c ?", "true"),
        ("f", "g", "entailment"),
    ]


def test_a_split_can_be_the_rows_that_match(tmp_path: Path) -> None:
    preprocess(tmp_path, describe(1, where={"lang": "d."}), {"dev.jsonl": write(ROWS)})
    assert [row["text_a"] for row in read(tmp_path, "dev")] == ["a b"]


def test_a_split_can_be_in_several_files(tmp_path: Path) -> None:
    files = {"dev.jsonl": write(ROWS[:1]), "more.jsonl": write(ROWS[2:])}
    preprocess(tmp_path, describe(2, further_files=["more.jsonl"]), files)
    assert [row["id"] for row in read(tmp_path, "dev")] == [0, 1]
    assert read_task(tmp_path / "processed/d").read_split("dev").target == ["true", "entailment"]


def test_labels_can_come_from_another_file_by_id(tmp_path: Path) -> None:
    elsewhere = {"labels_file": "labels.jsonl", "labelled_elsewhere": {"dev": "cid"}}
    rows = [{"about": {"passage": "a"}, "question": "b", "cid": 7}]
    labels = [{"id": 3, "label": "x"}, {"id": 7, "label": "e"}]
    files = {"dev.jsonl": write(rows), "labels.jsonl": write(labels)}
    preprocess(tmp_path, describe(1, reader=elsewhere), files)
    assert read(tmp_path, "dev")[0]["label"] == "entailment"
    with pytest.raises(DataError, match=r"dev\.jsonl: line 1: found the id 7, which labels\.jsonl"):
        preprocess(
            tmp_path, describe(1, reader=elsewhere), files | {"labels.jsonl": write([labels[0]])}
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"about": 1', r"line 1: not valid JSON"),
        ("[1]", r"line 1: found a JSON list, expected one object per line"),
        (
            '{"about": {}, "label": 1}',
            r"line 1: found the keys about, label, expected about\.passage",
        ),
        ('{"about": {"passage": 1}, "label": "e"}', r"found 1 in about\.passage, expected a text"),
        ('{"about": {"passage": "a"}, "question": "b", "label": null}', "found None in label"),
        ('{"about": {"passage": "a"}, "question": "b", "label": 1}', "found the label '1'"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        preprocess(tmp_path, describe(1), {"dev.jsonl": line + "\n"})


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (describe(1, reader={"texts": ["a"]}), r"reader\.texts: found \['a'\]"),
        (
            describe(1, reader={"labels_file": "l"}),
            "found one of labels_file and labelled_elsewhere",
        ),
        (describe(1, where={"lang": "("}), r"where\.lang: found '\(', no regular expression"),
        (
            describe(1)
            | {
                "reader": {"name": "wic"},
                "splits": {"dev": {"file": "dev.jsonl", "rows": 1, "where": {"a": "b"}}},
            },
            r"splits\.dev\.where: found with the reader wic, expected tsv or jsonl",
        ),
    ],
)
def test_wrong_options_are_refused(task: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build({"task": task}, ["dev.jsonl", "l"])


def test_columns_can_choose_rows_too(tmp_path: Path) -> None:
    task = deepcopy(TASK) | {
        "reader": TASK["reader"] | {"label_names": {"no": "0"}, "left_out": ["?"]},
        "splits": {"dev": {"file": "dev.tsv", "rows": 2, "where": {"part": ".+"}}},
        "select_split": "dev",
        "report_split": "dev",
        "held_out": None,
    }
    text = "part\ttext\tlabel\nx\ta\tno\n\tb\t1\ny\tc\t?\nz\td\t1\n"
    preprocess(tmp_path, task, {"dev.tsv": text})
    assert [(row["text"], row["label"]) for row in read(tmp_path, "dev")] == [
        ("a", "0"),
        ("d", "1"),
    ]
