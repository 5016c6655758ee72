"""Turns of a dialogue with the earlier turns: reader, blocks, training, user files, bundles."""

import json
from pathlib import Path

import pytest
import torch

from nlp_core.blocks.dialogue import HistoryEncoder
from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset
from nlp_core.data.formats.dialogues import DialogueReader
from nlp_core.data.guess import guess_data
from nlp_core.data.readers.user import read_examples
from nlp_core.data.sample import generate
from nlp_core.errors import DataError
from nlp_core.kinds import DIALOGUE
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import BundleError, load
from reglue_runtime.text import TURN, join_turns
from tests.user_commands import fail, learn
from tests.user_files import read_rows

TINY = ["--set", "layers.word.dim=16", "--set", "layers.past.dim=16", "--lr", "0.02"]
TINY += ["--set", "layers.past.hidden_dim=16", "--set", "layers.lstm.hidden_dim=16"]
TINY += ["--set", "layers.drop.p=0.0", "--set", "layers.past.dropout=0.0"]
OPENINGS = {"trip": "book a train", "table": "reserve a table"}


def write_turns(path: Path) -> Path:
    """Write turns whose intent and slot only the earlier turns decide."""
    rows = []
    for number in range(60):
        topic = ["trip", "table"][number % 2]
        value, aside = ["two", "six", "nine"][number % 3], ["ok"] * (number % 4 // 2)
        history = [OPENINGS[topic], *aside]
        tags, label = ["O", "O", f"B-{topic}"], f"change_{topic}"
        row = {"history": history, "tokens": ["make", "it", value], "tags": tags, "label": label}
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_turns_of_a_source_have_all_earlier_turns(tmp_path: Path) -> None:
    turns = [
        {"text": "wake me", "tags": "O O", "intent": "book_alarm"},
        {"text": "ok", "tags": "O", "intent": "aside"},
        {"text": "at two", "tags": "O B-hour", "intent": "change_alarm"},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"turns": turns}) + "\n")
    task = read_dataset("sample_dialogues").task
    assert task is not None
    read = DialogueReader(name="dialogues").read(task, "train", path)
    assert [list(item.history) for item in read] == [
        [TURN],
        ["wake", "me", TURN],
        ["wake", "me", TURN, "ok", TURN],
    ]
    assert (read[2].tokens, read[2].tags, read[2].label) == (
        ["at", "two"],
        ["O", "B-hour"],
        "change_alarm",
    )
    for key, value, found in [
        ("tags", "O", "turn 3: found 2 words and 1 tags"),
        ("intent", "no", "turn 3: found the intent 'no'"),
        ("tags", "O B-x", "turn 3: found the tag 'B-x'"),
    ]:
        path.write_text(json.dumps({"turns": [*turns[:2], {**turns[2], key: value}]}) + "\n")
        with pytest.raises(DataError, match=found):
            DialogueReader(name="dialogues").read(task, "train", path)


def test_a_generated_turn_needs_its_history(tmp_path: Path) -> None:
    generate("sample_dialogues", tmp_path, sizes={"a.jsonl": 300}, seed=2)
    intents: dict[str, set[str]] = {}
    for line in (tmp_path / "a.jsonl").read_text().splitlines():
        for turn in json.loads(line)["turns"]:
            intents.setdefault(turn["text"], set()).add(turn["intent"])
    assert intents["cancel that"] == {"cancel_alarm", "cancel_table", "cancel_trip"}


def test_turns_are_encoded_each_by_itself() -> None:
    torch.manual_seed(1)
    block = HistoryEncoder(6, dim=4, hidden_dim=3).eval()
    block.end = 2
    ids = torch.tensor([[3, 4, 2, 5, 2], [4, 3, 2, 5, 2], [5, 2, 3, 4, 2], [3, 4, 5, 2, 2]])
    found = block(ids, torch.ones(4, 5, dtype=torch.bool))
    # the order of words in a turn is not read, that of turns and their bounds are
    torch.testing.assert_close(found[0], found[1])
    assert not torch.allclose(found[0], found[2])
    assert not torch.allclose(found[0], found[3])


def test_turns_of_a_file_are_a_list_or_a_text(tmp_path: Path) -> None:
    data = guess_data(write_turns(tmp_path / "a.jsonl"), DIALOGUE).data
    assert (data.texts, data.tags, data.label) == (["tokens", "history"], "tags", "label")
    path = tmp_path / "b.jsonl"
    row = {"tokens": "make it two", "tags": "O O O", "label": "x"}
    histories = [["a b", "c"], f"a b {TURN} c", [], "", None]
    path.write_text("".join(json.dumps(row | {"history": item}) + "\n" for item in histories))
    both = join_turns([["a", "b"], ["c"]])
    assert [item.texts[1] for item in read_examples(path, data)] == [both, both, *[[TURN]] * 3]
    path.write_text(json.dumps(row | {"history": 3}) + "\n")
    with pytest.raises(DataError, match="line 1: found 3 in 'history', expected a list"):
        list(read_examples(path, data))


@pytest.mark.slow
def test_history_solves_what_a_turn_alone_does_not(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_turns(place / "a.jsonl")
    metrics = learn("dialogue", path, *TINY, "--epochs", "15")
    assert metrics["frame_accuracy"] > 90
    row = read_rows(place / "p.jsonl")[0]
    assert row["prediction"] == row["label"] == "change_trip"
    assert row["predicted_tags"] == row["tags"]
    main(["new", "intent_slots", "--train", "a.jsonl", "-o", "one.json"])
    small = ["--set", "layers.word.dim=16", "--set", "layers.lstm.hidden_dim=16", "--epochs", "6"]
    main(["train", "one.json", "--train", "a.jsonl", "-o", "alone", *small])
    alone = json.loads((place / "alone/metrics.json").read_text())["metrics"]["dev"]
    assert alone["frame_accuracy"] < 80

    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    given = {"text": "make it six", "text_history": ["reserve a table", "ok"]}
    pair = ["make it six", ["reserve a table", "ok"]]
    bundle, predictor = load(place / "bundle"), Predictor(TrainedModel.open(place / "out"))
    found = bundle.predict([given, pair])
    assert [item["label"] for item in found] == ["change_table"] * 2
    assert found[0]["slots"]["tags"] == ["O", "O", "B-table"]
    (one,) = predictor.predict([pair])  # type: ignore[list-item]
    assert (one.prediction, one.tags) == ("change_table", ["O", "O", "B-table"])
    assert (
        predictor.predict(["make it six"])[0].prediction
        == bundle.predict(["make it six"])[0]["label"]
    )
    blank = [["make it six", [" ", "reserve a table", "ok"]]]
    assert bundle.predict(blank)[0]["confidence"] == pytest.approx(found[0]["confidence"])
    with pytest.raises(BundleError, match="expected two texts"):
        bundle.predict([{"text": "fly", "text_history": [1.0]}])
    marked = [["make it six", [f"reserve {TURN} a table", "ok"]]]  # one turn, as in a file
    assert predictor.predict(marked)[0].confidence == pytest.approx(  # type: ignore[arg-type]
        bundle.predict(marked)[0]["confidence"]
    )
    message = "expected a turn and the list of the turns before it"
    with pytest.raises(Exception, match=message):
        predictor.predict([["a", "b", "c"]])
    assert "found no column 'history'" in fail(
        capsys, "predict", "out", "--data", str(write_alone(place)), "-o", "q.jsonl"
    )


def write_alone(place: Path) -> Path:
    path = place / "c.jsonl"
    path.write_text('{"tokens": "make it two"}\n')
    return path


def test_a_head_cannot_tag_the_earlier_turns(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_turns(place / "a.jsonl")
    main(["new", "dialogue", "--train", "a.jsonl", "-o", "m.json"])
    model = json.loads((place / "m.json").read_text())
    (name,) = (key for key, column in model["inputs"].items() if column == "tokens_history")
    word = {"name": "early", "block": "word_embedding", "inputs": [name], "dim": 4}
    model["layers"].append(word)
    model["heads"]["tags"]["inputs"] = ["early"]
    (place / "m.json").write_text(json.dumps(model))
    found = fail(capsys, "train", "m.json", "--train", "a.jsonl", "-o", "out")
    assert "head 'tags': inputs: found a layer over tokens_history, expected one" in found
