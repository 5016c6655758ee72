"""What a processed task predicts, and how answers and footnotes are put together."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nlp_core.data.columns import write_rows
from nlp_core.data.readers.example import Passage, Question
from nlp_core.data.task import (
    draw_share,
    join_answers,
    list_footnotes,
    list_targets,
    read_split_file,
    read_task,
)
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.errors import DataError
from nlp_core.kinds import INTENT_SLOTS, RANKING, SPAN, TAGGING
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


def test_a_task_whose_folder_was_removed_is_to_be_processed(tmp_path: Path) -> None:
    task = read_task(write_task(tmp_path, "intent_slots"))
    with pytest.raises(DataError, match=r"found no split 'tset'\. Did you mean 'test'"):
        task.read_split("tset")
    shutil.rmtree(task.folder)
    with pytest.raises(DataError, match="is not processed yet; run `dvc repro preprocess@"):
        task.read_split("dev")


def test_digest_covers_the_tags(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "intent_slots")
    before = read_task(folder).digest
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"tags": ["O"]}))
    assert read_task(folder).digest != before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:-20], "not valid JSON at line"),
        (lambda text: text.replace('"metrics"', '"scores"'), "no key 'metrics'"),
        (lambda text: text.replace('"splits": {', '"splits": 3, "more": {'), "'int' object has no"),
        (lambda text: text.replace("classification", "clossification"), "Did you mean"),
    ],
)
def test_a_damaged_manifest_is_one_paragraph(
    tmp_path: Path, change: Callable[[str], str], reason: str
) -> None:
    folder = write_task(tmp_path)
    path = folder / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=f"found a damaged manifest .*{reason}") as caught:
        read_task(folder)
    assert "run `dvc repro --force preprocess@" in str(caught.value)


@pytest.mark.parametrize("kind", ["classification", "tagging", "ranking", "multi_label"])
def test_a_smaller_share_is_a_part_of_a_larger_one(tmp_path: Path, kind: str) -> None:
    train = read_task(write_task(tmp_path, kind)).read_split("train")
    rows = [set(draw_share(train, share, 3).ids.tolist()) for share in (0.1, 0.5, 0.999)]
    assert rows[0] < rows[1] < rows[2] <= {*range(48)}
    assert rows[1] != set(draw_share(train, 0.5, 4).ids.tolist())
    half = draw_share(train, 0.5, 3)
    assert len(half) == 24
    kept = half.ids.tolist()
    assert half.target == [train.target[row] for row in kept]
    if half.group is not None:
        assert {(half.group == group).sum() for group in np.unique(half.group)} == {4}


def test_a_share_of_nothing_is_an_error(tmp_path: Path) -> None:
    train = read_task(write_task(tmp_path)).read_split("train")
    with pytest.raises(DataError, match=r"train_share: found 0\.001, which selects none of the 48"):
        draw_share(train, 0.001, 1)


def test_a_share_of_questions_keeps_their_passages(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    locate = LOCATORS.get("plain_words")
    text = "The {0} is in the {0}house, since {0} is {0}."
    rows = []
    for number in range(6):
        whole = text.format("ab" * (number + 1))
        bounds = np.array(locate(whole), dtype=np.int32)
        passage = Passage(1, number + 1, whole, bounds[:, 0], bounds[:, 1])
        place = number % 3
        answer = whole[bounds[place, 0] : bounds[place, 1]]
        rows.append(Question(str(number), "What ?", passage, (answer,), place, place))
    write_rows(path, SPAN, range(6), rows, TOKENIZERS.get("plain_words"))
    split = read_split_file(path, SPAN, ["answers"])
    half = draw_share(split, 0.5, 1)
    assert half.passages is not None
    assert half.passages.positions is not None
    for idx, row in enumerate(half.ids.tolist()):
        (first, last) = half.passages.positions[idx]
        assert half.passages.cut(idx, first, last) == rows[row].answers[0]
