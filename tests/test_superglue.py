"""The readers of SuperGLUE: candidates become rows, words that a question is about are marked."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nlp_core.config.dataset import read_dataset
from nlp_core.data.preprocess import preprocess_source
from nlp_core.errors import ConfigError, DataError
from tests.tiny_source import TASK, build, put, read

ROOT = Path(__file__).resolve().parent.parent
COPA = {
    "premise": "It rained .",
    "choice1": "wet",
    "choice2": "dry",
    "question": "effect",
    "label": 1,
}
MULTIRC = {
    "passage": {
        "text": "Ann saw Bo .",
        "questions": [
            {
                "question": "Who ?",
                "answers": [{"text": "Ann", "label": 1}, {"text": "Al", "label": 0}],
            },
            {"question": "Whom ?", "answers": [{"text": "Bo", "label": 1}]},
        ],
    }
}
RECORD = {
    "passage": {
        "text": "Ann met Bo . Bo left .",
        "entities": [{"start": 0, "end": 2}, {"start": 8, "end": 9}, {"start": 13, "end": 14}],
    },
    "qas": [{"query": "@placeholder went", "answers": [{"text": "Bo", "start": 8, "end": 9}]}],
}
WIC = {
    "sentence1": "a big bank",
    "sentence2": "bank on it",
    "start1": 6,
    "end1": 10,
    "start2": 0,
    "end2": 4,
    "label": False,
}
WSC = {
    "text": "Ann told Bo that she won .",
    "target": {"span1_text": "Ann", "span1_index": 0, "span2_text": "she", "span2_index": 4},
    "label": True,
}
RANKED, PAIRS = ("ranking", ["0", "1"]), ("pair_classification", ["false", "true"])
CASES = {
    "copa": (*RANKED, COPA, 2),
    "multirc": (*RANKED, MULTIRC, 3),
    "record": (*RANKED, RECORD, 1),
    "wic": (*PAIRS, WIC, 1),
    "wsc": (*PAIRS, WSC, 1),
}
FOUND = {
    "copa": [
        ("It rained . What happened as a result?", "wet", "0", 0),
        ("It rained . What happened as a result?", "dry", "1", 0),
    ],
    "multirc": [
        ("Ann saw Bo .", "Who ? Ann", "1", 0),
        ("Ann saw Bo .", "Who ? Al", "0", 0),
        ("Ann saw Bo .", "Whom ? Bo", "1", 1),
    ],
    "record": [
        ("Ann met Bo . Bo left .", "Ann went", "0", 0),
        ("Ann met Bo . Bo left .", "Bo went", "1", 0),
    ],
    "wic": [("a big * bank *", "* bank * on it", "false", None)],
    "wsc": [("Ann told Bo that * she * won .", "Ann", "true", None)],
}


def preprocess(
    folder: Path, name: str, value: dict[str, Any], *, labelled: bool = True
) -> list[tuple[Any, ...]]:
    kind, labels, _, rows = CASES[name]
    task = deepcopy(TASK) | {
        "kind": kind,
        "reader": {"name": name},
        "labels": labels,
        "splits": {"dev": {"file": "dev.jsonl", "rows": rows, "labelled": labelled}},
        "select_split": "dev",
        "report_split": "dev",
        "held_out": None,
    }
    put(folder, {"dev.jsonl": json.dumps(value) + "\n"})
    preprocess_source("d", build({"task": task}, ["dev.jsonl"]), folder)
    keys = ("text_a", "text_b", "label", "group")
    return [tuple(row.get(key) for key in keys) for row in read(folder, "dev")]


@pytest.mark.parametrize("name", CASES)
def test_rows_are_what_a_model_reads(tmp_path: Path, name: str) -> None:
    assert preprocess(tmp_path / "a", name, CASES[name][2]) == FOUND[name]
    unlabelled = json.loads(json.dumps(CASES[name][2]).replace('"label"', '"unused"'))
    found = preprocess(tmp_path / "b", name, unlabelled, labelled=False)
    assert [row[:2] for row in found] == [row[:2] for row in FOUND[name]]
    assert {row[2] for row in found} == {None}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("copa", {"question": "why"}, "found the question 'why', expected cause or effect"),
        ("copa", {"label": "1"}, "found '1' in label, expected a number"),
        ("multirc", {"passage": {"text": "a", "questions": {}}}, "found no list of objects"),
        ("wic", {"end1": 99}, "found a word from 6 to 99"),
        ("wsc", {"target": WSC["target"] | {"span2_index": 7}}, "the pronoun at word 7"),  # type: ignore[operator]
    ],
)
def test_malformed_lines_are_named(
    tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"dev\.jsonl: line 1: .*{message}"):
        preprocess(tmp_path, name, CASES[name][2] | change)


def test_candidates_need_the_labels_of_right_and_wrong(tmp_path: Path) -> None:
    task = deepcopy(TASK) | {"kind": "ranking", "reader": {"name": "copa"}, "labels": ["no", "yes"]}
    with pytest.raises(ConfigError, match=r"found labels \['no', 'yes'\], expected 0 and 1"):
        build({"task": task}, ["train.tsv", "dev.tsv", "test.tsv"])


@pytest.mark.parametrize("name", ["boolq", "cb", *CASES])
def test_sources_select_on_a_held_out_part_and_report_dev(name: str) -> None:
    dataset = read_dataset(name, ROOT / "sources")
    assert dataset.task is not None
    assert (dataset.task.select_split, dataset.task.report_split) == ("held_out", "dev")
    assert not dataset.task.splits["test"].labelled
    assert [item.digest for file in dataset.files for item in file.sha256]
