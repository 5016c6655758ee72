"""`reglue train FILE`: the kind is guessed, a model is chosen, trained and saved."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.cli import main, training_time
from nlp_core.cli.training_time import PIECES_A_SECOND
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.word_vectors import WordVectors, write_table
from nlp_core.errors import DataError
from nlp_core.files import write_json
from tests.tiny import write_vectors
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import SMALL, make_texts, write_conll, write_tsv

pytestmark = pytest.mark.usefixtures("place")
SQUAD = {"data": [{"paragraphs": []}]}
ROWS: dict[str, list[dict[str, Any]]] = {
    "classification": [{"review": "a tasty soup", "stars": n % 5} for n in range(20)],
    "regression": [{"text": "a tasty soup", "score": n / 7} for n in range(20)],
    "multi_label": [
        {"text": f"soup {n}", "labels": ["food;price", "food", "price;place", "place"][n % 4]}
        for n in range(20)
    ],
    "pair_classification": [
        {"premise": f"a {n}", "hypothesis": "b", "label": "yes"} for n in range(9)
    ],
    "pair_regression": [{"sentence1": "a b", "sentence2": "c d", "score": n / 3} for n in range(9)],
    "ranking": [
        {"question": f"who {n // 3}", "answer": f"he {n}", "label": int(n % 3 == 0)}
        for n in range(12)
    ],
    "retrieval": [{"query": f"who {n}", "passage": f"it is he {n}"} for n in range(9)],
    "intent_slots": [{"tokens": "to rome", "slots": "O B-city", "intent": "fly"} for _ in range(9)],
    "tagging": [{"tokens": ["to", "rome"], "ner_tags": ["O", "B-city"]} for _ in range(9)],
    "parsing": [{"tokens": "to x", "tree": "[IN:GO to [SL:PLACE x ] ]"} for _ in range(9)],
}


@pytest.mark.parametrize("kind", ROWS)
def test_the_kind_is_guessed(place: Path, kind: str) -> None:
    path = place / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind]))
    assert guess_kind(path).kind.name == kind


def test_candidates_in_a_row_and_squad_are_known(place: Path) -> None:
    row = {"question": "who ?", "choice1": "he", "choice2": "she", "label": 1}
    (place / "rows.jsonl").write_text(3 * f"{json.dumps(row)}\n")
    assert guess_kind(place / "rows.jsonl").has_choices
    (place / "squad.json").write_text(json.dumps(SQUAD))
    assert guess_kind(place / "squad.json").kind.has_passages
    assert guess_kind(write_conll(place / "people.conll")).kind.has_tags


def test_texts_with_commas_are_one_label(place: Path) -> None:
    rows = [{"text": "a, b, c, d", "label": "x, y and z"}, {"text": "a, b", "label": "w"}] * 5
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert guess_kind(place / "rows.jsonl").kind.name == "classification"


def test_a_file_of_one_column_has_no_kind(place: Path) -> None:
    (place / "rows.csv").write_text("text\nsoup\nwine\n")
    with pytest.raises(DataError, match="--kind"):
        guess_kind(place / "rows.csv")


def test_a_data_file_becomes_a_model_with_a_warning(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=60, header="text\tlabel")
    main(["train", "a.tsv", *SMALL, "--epochs", "2"])
    output = capsys.readouterr()
    shown = output.err + output.out
    assert "5 labels: food, place, price, room, staff" in shown
    assert "starts from random word vectors" in " ".join(shown.split())
    assert "reglue export artifacts/train/a --data a.tsv" in shown
    main(["predict", "artifacts/train/a", "--data", "a.tsv", "-o", "p.tsv"])
    assert (place / "p.tsv").exists()


def test_processed_vectors_and_an_encoder_are_taken(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = write_encoder(place)
    write_tsv(place / "a.tsv", rows=40)
    main(["train", "a.tsv", "--init", str(encoder), "--epochs", "1", "-o", "out"])
    assert f"{encoder}, from --init" in " ".join(capsys.readouterr().err.split())
    shutil.copytree(encoder, place / "data/processed/minilm")
    rows = [f"the {word} film\t{word}\n" for word in ("good", "bad")]
    (place / "a.tsv").write_text("".join(rows * 20))
    main(["train", "a.tsv", "-o", "other", "--minutes", "0.0001"])
    assert "data/processed/minilm is at hand" in " ".join(capsys.readouterr().err.split())
    model = json.loads((place / "other/model.json").read_text())
    assert model["training"]["max_steps"] == 1
    assert (place / "out/model.safetensors").exists()


def test_of_named_vectors_the_widest_table_is_taken(place: Path) -> None:
    folder = write_vectors(place)
    note = json.loads((folder / "manifest.json").read_text())
    narrow = WordVectors(np.ones((2, 3), np.float32), {"good": 0, "bad": 1})
    note["tables"]["3d"] = write_table(folder, "3d", narrow)
    write_json(folder / "manifest.json", note)
    write_tsv(place / "a.tsv", rows=40)
    main(["train", "a.tsv", "--vectors", str(folder), "--epochs", "1", "-o", "out"])
    layers = json.loads((place / "out/model.json").read_text())["layers"]
    (word,) = [layer for layer in layers if layer["block"] == "word_embedding"]
    assert (word["vectors"], word["dim"]) == ("8d", 8)


def test_an_encoder_of_another_language_is_not_chosen(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(write_encoder(place), place / "data/processed/minilm")
    rows = [f"{word} фильм\t{word}\n" for word in ("хороший", "плохой")]
    (place / "a.tsv").write_text("".join(["text\tlabel\n", *rows * 20]), encoding="utf-8")
    main(["train", "a.tsv", *SMALL, "--epochs", "1", "-o", "out"])
    shown = " ".join(capsys.readouterr().err.split())
    # of two words one has 7 or 6 letters, the other 5
    assert "data/processed/minilm cuts a word into 5.8 pieces: it is of another language" in shown
    assert "Name an encoder of this language with --init ENCODER" in shown
    assert not (place / "out/tokenizer.json").exists()


def test_kinds_can_be_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"text": text, "stars": len(text) % 5} for text, _ in make_texts(40, seed=1)]
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["train", "a.jsonl", "--kind", "regression", *SMALL, "--epochs", "1", "-o", "out"])
    assert "pearson" in capsys.readouterr().out


def test_arguments_that_do_not_fit_are_an_error(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=40)
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    assert "add --train DATA" in fail(capsys, "train", "m.json")
    kind = ["--kind", "regression"]
    assert "the model file says the kind" in fail(
        capsys, "train", "m.json", "--train", "a.tsv", *kind
    )
    assert "--minutes" in fail(capsys, "train", "a.tsv", "--minutes", "0")
    for other in (["--epochs", "1"], ["--train", "a.tsv"]):
        found = fail(capsys, "train", "m.json", *other, "--minutes", "1")
        assert f"--minutes: found with {other[0]}" in found
    found = fail(capsys, "train", "a.tsv", "--minutes", "1", "--set", "training.epochs=2")
    assert "--minutes: found with --set training.epochs" in found


def test_set_corrects_a_guess_before_it_is_used(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"a film {n}\t{'ab'[n % 2]}\t{'xyz'[n % 3]}\n" for n in range(40)]
    (place / "my a.tsv").write_text("".join(["body\ttopic\tmood\n", *rows]))
    (place / "dev.tsv").write_text("body\tmood\na film\tx\n")
    mood = ["--set", "data.label=mood"]
    new = ["new", "classification", "--train", "my a.tsv", "--dev", "dev.tsv"]
    main([*new, "-o", "m.json", *mood])
    shown = capsys.readouterr().out
    assert '"mood"' in shown
    assert "as given" in shown
    assert "reglue train m.json --train 'my a.tsv'" in shown
    main(["train", "my a.tsv", "--init", str(write_encoder(place)), "--epochs", "1", *mood])
    output = capsys.readouterr()
    assert 'data.label = "mood"  (as given)' in output.err
    assert "reglue predict 'artifacts/train/my a'" in output.out
    model = json.loads((place / "artifacts/train/my a/model.json").read_text())
    assert model["training"]["few_shot"]  # 40 rows are few of 3 labels, not of 2


@pytest.mark.parametrize("option", ["--batch-size=2", "--set=training.batch_size=2"])
def test_the_time_is_that_of_the_batches_asked_for(place: Path, option: str) -> None:
    (place / "a.tsv").write_text("".join(f"good {n}\t{'ab'[n % 2]}\n" for n in range(40)))
    minutes = str(0.5 * 40 * (1.3 * 2 + 2) / PIECES_A_SECOND / 60)
    encoder = str(write_encoder(place))
    main(["train", "a.tsv", "--init", encoder, "--minutes", minutes, option, "-o", "out"])
    training = json.loads((place / "out/model.json").read_text())["training"]
    assert training["max_steps"] == 10


@pytest.mark.parametrize(("words", "pieces"), [(1, 1.3 * 2 + 2), (1000, 16)], ids=["short", "cut"])
def test_the_last_epoch_may_be_a_part(place: Path, words: int, pieces: float) -> None:
    rows = [f"{'good ' * words}{idx}\t{'ab'[idx % 2]}\n" for idx in range(40)]
    (place / "a.tsv").write_text("".join(rows))
    minutes = 1.5 * 40 * pieces / PIECES_A_SECOND / 60
    encoder = str(write_encoder(place))
    main(["train", "a.tsv", "--init", encoder, "--minutes", str(minutes), "-o", "out"])
    training = json.loads((place / "out/model.json").read_text())["training"]
    assert (training["epochs"], training["max_steps"]) == (
        2,
        int(1.5 * 40 / training["batch_size"]),
    )
    assert "shards" not in training


@pytest.mark.parametrize(("passes", "shards"), [(0.5, 2), (50, None)])
def test_two_processes_share_long_batches_where_time_is_short(
    place: Path, monkeypatch: pytest.MonkeyPatch, passes: float, shards: int | None
) -> None:
    monkeypatch.setattr(training_time, "LEAST_PIECES", 10)
    rows = [f"good film {idx}\t{'ab'[idx % 2]}\n" for idx in range(40)]
    (place / "a.tsv").write_text("".join(rows))
    minutes = passes * 40 * 6 / PIECES_A_SECOND / 60
    options = ["--init", str(write_encoder(place)), "--minutes", str(minutes)]
    main(["train", "a.tsv", *options, "-o", "out"])
    training = json.loads((place / "out/model.json").read_text())["training"]
    assert training.get("shards") == shards


@pytest.mark.parametrize(
    ("kind", "passes", "length"),
    [
        ("classification", 1.6, 16),
        ("classification", 1.4, 12),
        ("classification", 0.1, 8),
        ("tagging", 0.1, 16),
    ],
)
def test_long_texts_are_cut_where_time_is_short(
    place: Path, monkeypatch: pytest.MonkeyPatch, kind: str, passes: float, length: int
) -> None:
    monkeypatch.setattr(training_time, "LENGTHS", (12, 8))
    name = "a.conll" if kind == "tagging" else "a.tsv"
    write_conll(place / "a.conll")
    rows = [f"{'good ' * 50}{idx}\t{'ab'[idx % 2]}\n" for idx in range(40)]
    (place / "a.tsv").write_text("".join(rows))
    minutes = passes * 40 * 16 / PIECES_A_SECOND / 60
    encoder = str(write_encoder(place))
    main(["train", name, "--init", encoder, "--minutes", str(minutes), "-o", "out"])
    layers = json.loads((place / "out/model.json").read_text())["layers"]
    assert next(one["max_length"] for one in layers if one["name"] == "encoder") == length


@pytest.mark.parametrize("labels", [19, 20])
def test_the_head_of_many_labels_learns_faster_than_the_encoder(place: Path, labels: int) -> None:
    rows = [f"good film {idx}\tlabel {idx % labels}\n" for idx in range(17 * labels)]
    (place / "a.tsv").write_text("".join(rows))
    encoder = str(write_encoder(place))
    main(["train", "a.tsv", "--init", encoder, "--minutes", "0.0001", "-o", "out"])
    found = json.loads((place / "out/model.json").read_text())["training"]["optimizer"]
    rates = (found["lr"], found.get("encoder_lr_scale"))
    assert rates == ((1e-3, 0.1) if labels == 20 else (1e-4, None))


WRONG_VALUES = {
    "training.batch_size=0": "training.batch_size: found 0",
    "training.batch_size=x": "training.batch_size: found 'x'",
    "training=5": "training: found 5",
    "layers.encoder.max_length=x": "max_length",
    "layers.encoder.name=other": "unknown input or layer 'encoder'",
    "layers=[]": "layers",
    "heads.label=3": "found 3",
}


@pytest.mark.parametrize("value", WRONG_VALUES)
def test_a_wrong_value_is_named_before_the_time_is_counted(
    place: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    (place / "a.tsv").write_text("".join(f"good {n}\t{'ab'[n % 2]}\n" for n in range(40)))
    train = ["train", "a.tsv", "--init", str(write_encoder(place)), "--minutes", "0.0001"]
    assert WRONG_VALUES[value] in fail(capsys, *train, "--set", value)


@pytest.mark.parametrize(
    ("value", "shards", "steps"),
    [("training.shards=null", None, 2), ("training.accumulate=2", None, 2), ("", 2, 3)],
)
def test_the_time_is_not_that_of_shards_that_the_user_excludes(
    place: Path, monkeypatch: pytest.MonkeyPatch, value: str, shards: int | None, steps: int
) -> None:
    monkeypatch.setattr(training_time, "LEAST_PIECES", 10)
    rows = [f"good film {idx}\t{'ab'[idx % 2]}\n" for idx in range(40)]
    (place / "a.tsv").write_text("".join(rows))
    minutes = 0.5 * 40 * (1.3 * 3 + 2) / PIECES_A_SECOND / 60
    options = ["--init", str(write_encoder(place)), "--minutes", str(minutes)]
    options += ["--set", value] if value else []
    main(["train", "a.tsv", *options, "-o", "out"])
    training = json.loads((place / "out/model.json").read_text())["training"]
    assert (training["max_steps"], training.get("shards")) == (steps, shards)


def test_a_length_that_the_user_gives_stays_and_takes_its_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_time, "LENGTHS", (8,))
    rows = [f"{'good ' * 50}{idx}\t{'ab'[idx % 2]}\n" for idx in range(40)]
    (place / "a.tsv").write_text("".join(rows))
    options = ["--init", str(write_encoder(place)), "--set", "layers.encoder.max_length=16"]
    options += ["--minutes", str(1.01 * 40 * 16 / PIECES_A_SECOND / 60)]
    main(["train", "a.tsv", *options, "-o", "out"])
    model = json.loads((place / "out/model.json").read_text())
    assert model["layers"][0]["max_length"] == 16
    assert model["training"]["max_steps"] == int(1.01 * 40 / model["training"]["batch_size"])
