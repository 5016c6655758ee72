"""SQuAD and a table as sources of queries and passages."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError
from tests.tiny_source import TASK, build, put

PARAGRAPHS = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": f"Town {number} has a mill .",
                    "qas": [
                        {
                            "id": f"{number}-{idx}",
                            "question": f"Which town , {idx} ?",
                            "answers": [{"text": "Town", "answer_start": 0}],
                        }
                        for idx in range(2)
                    ],
                }
                for number in range(4)
            ]
        }
    ]
}


def describe(**changes: Any) -> dict[str, Any]:
    return {
        **TASK,
        "kind": "retrieval",
        "reader": {"name": "squad_paragraphs"},
        "labels": ["0", "1"],
        "metrics": ["recall@10"],
        "splits": {"train": {"file": "a.json", "rows": 8}, "dev": {"file": "a.json", "rows": 8}},
        "select_split": "held_out",
        "report_split": "dev",
        "held_out": {"share": 0.25, "seed": 1, "by": "text_b"},
        "searched": "split",
        **changes,
    }


def test_questions_and_their_paragraphs(tmp_path: Path) -> None:
    put(tmp_path, {"a.json": json.dumps(PARAGRAPHS)})
    preprocess_source("d", build({"task": describe()}, ["a.json"]), tmp_path)
    task = read_task(tmp_path / "processed/d")
    assert (task.searched, task.targets) == ("split", {"label": ["0", "1"]})
    rows = pq.read_table(task.folder / "dev.parquet").to_pylist()
    assert [row["text_b"] for row in rows[:3]] == ["Town 0 has a mill ."] * 2 + [
        "Town 1 has a mill ."
    ]
    assert {row["label"] for row in rows} == {"1"}
    assert len({row["group"] for row in rows}) == 8
    held_out = pq.read_table(task.folder / "held_out.parquet").to_pylist()
    assert len({row["text_b"] for row in held_out}) == 1
    assert len(held_out) == 2


@pytest.mark.parametrize("searched", [None, "others"])
def test_where_a_query_is_searched_is_named(searched: str | None) -> None:
    with pytest.raises(ConfigError, match="searched"):
        build({"task": describe(searched=searched)}, ["a.json"])
