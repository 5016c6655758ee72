"""What a processed task predicts, and how answers and footnotes are put together."""

import json
from pathlib import Path

from nlp_core.data.task import join_answers, list_footnotes, list_targets, read_task
from nlp_core.kinds import INTENT_SLOTS, RANKING, TAGGING
from tests.tiny import write_task


def test_one_target_answers_for_itself_and_several_as_records() -> None:
    assert join_answers({"tags": [["O"], ["B-Q"]]}) == [["O"], ["B-Q"]]
    assert join_answers({"label": ["0", "1"], "tags": [["O"], ["B-Q"]]}) == [
        {"label": "0", "tags": ["O"]},
        {"label": "1", "tags": ["B-Q"]},
    ]


def test_each_kind_has_its_targets() -> None:
    assert list_targets(RANKING, {"labels": ["0", "1"]}) == {"label": ["0", "1"]}
    assert list_targets(TAGGING, {"labels": ["O"]}) == {"tags": ["O"]}
    assert list_targets(INTENT_SLOTS, {"labels": ["ask"], "tags": ["O"]}) == {
        "label": ["ask"],
        "tags": ["O"],
    }


def test_members_with_the_same_label_share_a_footnote() -> None:
    source = {
        "b": {"sha256": "0", "label": "a part"},
        "a": {"sha256": "0", "label": "a part"},
        "c": {"sha256": "0", "label": None},
        "d": {"sha256": "0", "label": "rebuilt"},
    }
    assert list_footnotes(source) == ["a, b: a part", "d: rebuilt"]


def test_split_holds_each_target(tmp_path: Path) -> None:
    task = read_task(write_task(tmp_path, "intent_slots"))
    split = task.read_split("dev")
    assert list(split.targets) == list(task.targets) == ["label", "tags"]
    assert task.labels == ["0", "1"]
    assert split.target[0] == {"label": split.targets["label"][0], "tags": split.targets["tags"][0]}


def test_digest_covers_the_tags(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "intent_slots")
    before = read_task(folder).digest
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"tags": ["O"]}))
    assert read_task(folder).digest != before
