"""Texts that are written, from a user's file to predictions and a bundle."""

import json
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.data.guess import guess_data
from nlp_core.errors import DataError
from nlp_core.kinds import GENERATION
from reglue_runtime import load
from reglue_runtime.service.schema import Response
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail, learn
from tests.user_files import QUICK, read_rows

TINY = [*QUICK, "--set", "heads.text.hidden_dim=24", "--set", "heads.text.dropout=0.0"]
NAMES = ["Ada", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"]


def write_requests(path: Path) -> Path:
    rows = []
    for number, name in enumerate(NAMES * 4):
        verb = ["call", "ask"][number // 8 % 2]
        rows.append({"id": number, "source": f"{verb} {name} now", "target": f"{name} : {verb}"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_texts_of_a_file_are_learnt_predicted_and_exported(place: Path) -> None:
    path = write_requests(place / "a.jsonl")
    metrics = learn("generation", path, *TINY, "--epochs", "25")
    assert metrics["exact_match"] > 90
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["texts"], section["label"]) == (["source"], "target")
    first = read_rows(place / "p.jsonl")[0]
    assert first["prediction"] == first["target"] == "Ada : call"
    assert 0.5 < first["confidence"] <= 1
    # a name that training lacks can only be copied
    (place / "b.jsonl").write_text('{"source": "call Zoe now"}\n', encoding="utf-8")
    main(["predict", "out", "--data", "b.jsonl", "-o", "q.jsonl"])
    predicted = read_rows(place / "q.jsonl")[0]
    assert predicted["prediction"] == "Zoe : call"
    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    bundle = load(place / "bundle")
    (found,) = bundle.predict(["call Zoe now"])
    assert found["text"] == "Zoe : call"
    assert found["confidence"] == pytest.approx(predicted["confidence"], abs=1e-3)
    assert bundle.labels() == []
    assert Response(bundle="b", predictions=[found]).predictions
    assert "words and copies" in (place / "bundle/README.md").read_text()


@pytest.mark.parametrize(
    ("names", "texts", "label"),
    [
        (["target", "source"], "source", "target"),
        (["document", "id", "summary"], "document", "summary"),
        (["english", "german"], "english", "german"),
        (["id", "question", "reply"], "question", "reply"),
    ],
)
def test_columns_are_guessed(tmp_path: Path, names: list[str], texts: str, label: str) -> None:
    row = {name: 7 if name == "id" else f"some {name}" for name in names}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    data = guess_data(path, GENERATION).data
    assert (data.texts, data.label) == ([texts], label)
    assert data.metrics_or_usual == ["chrf", "bleu", "rouge_l", "exact_match"]


@pytest.mark.parametrize("names", ["input,output", "prompt,completion", "article,summary"])
def test_the_header_of_a_table_is_no_row(tmp_path: Path, names: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{names}\na b,b a\nc d,d c\n", encoding="utf-8")
    data = guess_data(path, GENERATION).data
    assert [*data.texts, data.label] == names.split(",")


def test_a_file_without_a_second_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a b"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="found 1 column"):
        guess_data(path, GENERATION)


def test_a_text_to_write_in_a_column_without_a_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("source,\na b,b a\n", encoding="utf-8")
    with pytest.raises(DataError, match="found a column without a name"):
        guess_data(path, GENERATION)


def test_an_empty_text_is_one_paragraph(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_requests(place / "a.jsonl")
    main(["new", "generation", "--train", "a.jsonl", "-o", "m.json"])
    path.write_text(path.read_text() + '{"source": "call", "target": " "}\n')
    wanted = "line 33: found no words in 'target', expected the text to write"
    assert wanted in fail(capsys, "train", "m.json", "--train", "a.jsonl", "-o", "out")
    assert not (place / "out").exists()


def test_a_whole_text_has_one_confidence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_requests(place / "a.jsonl")
    main(["new", "generation", "--train", "a.jsonl", "-o", "m.json"])
    small = [*TINY, "--set", "training.max_steps=1"]
    main(["train", "m.json", "--train", "a.jsonl", "-o", "out", *small])
    arguments = ["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"]
    assert "whole tree or text" in fail(capsys, *arguments, "--confidence-of", "call")


def test_a_head_that_copies_words_cannot_read_pieces(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_requests(place / "a.jsonl")
    folder = write_encoder(place)
    main(["new", "generation", "--train", "a.jsonl", "-o", "m.json"])
    model = json.loads((place / "m.json").read_text())
    encoder = {"name": "encoder", "block": "pretrained_encoder", "inputs": ["texts"]}
    model |= {"inputs": {"texts": "texts"}, "layers": [encoder | {"dim": 8, "max_length": 16}]}
    model["heads"]["text"]["inputs"] = ["encoder"]
    (place / "m.json").write_text(json.dumps(model))
    command = ["train", "m.json", "--train", "a.jsonl", "-o", "out", "--init", str(folder)]
    assert "found a layer over texts, expected one over tokens" in fail(capsys, *command)
