"""Pretrained encoders on the user's files: `reglue new --encoder`, `train --init`, predict."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.split_column import RawText, WordText
from nlp_core.data.user_file import read_user_file
from nlp_core.encoders.folder import find_encoder, read_size
from nlp_core.errors import DataError
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from tests.tiny import BAD, GOOD
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import read_rows

QUICK = ["--lr", "0.005", "--epochs", "10", "--batch-size", "8"]
FILES = ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def encoder(place: Path) -> Path:
    """An encoder's three files, as a person would have them."""
    whole = write_encoder(place)
    folder = place / "encoder"
    folder.mkdir()
    for name in FILES:
        shutil.copy(whole / name, folder)
    return folder


def make_rows(template: str, rows: int = 64) -> list[dict[str, Any]]:
    """Return rows whose sign is one of four good words or four bad ones."""
    draw, found = random.Random(0), []
    for idx in range(rows):
        good = idx % 2
        sign, other = draw.choice(GOOD if good else BAD), draw.choice(BAD if good else GOOD)
        text, tokens = f"The {sign} Film!", ["the", sign, "film"]
        found.append(
            {
                "classification": {"text": text, "label": ["bad", "good"][good]},
                "matching": {"premise": text, "hypothesis": "the film", "label": str(good)},
                "multiple_choice": {
                    "question": "a good film",
                    "choice1": f"a {sign} film",
                    "choice2": f"a {other} film",
                    "label": 1 - good,
                },
                "tagging": {"tokens": tokens, "tags": ["O", "B-Y" if good else "B-N", "O"]},
                "intent_slots": {
                    "tokens": tokens,
                    "tags": ["O", "B-Y" if good else "B-N", "O"],
                    "intent": str(good),
                },
            }[template]
        )
    return found


def write_rows(path: Path, template: str) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in make_rows(template)))
    return path


def train(template: str, *options: str) -> dict[str, float]:
    """Go from a file to a trained folder, and return the metrics of the part held out."""
    write_rows(Path("a.jsonl"), template)
    main(["new", template, "--train", "a.jsonl", "-o", "m.json", "--encoder", "encoder", "--force"])
    main(["train", "m.json", "--train", "a.jsonl", "-o", "out", "--init", "encoder", *options])
    metrics: dict[str, float] = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    return metrics


@pytest.mark.parametrize(
    ("template", "metric"),
    [
        ("classification", "accuracy"),
        ("matching", "accuracy"),
        ("multiple_choice", "accuracy"),
        ("tagging", "f1"),
        ("intent_slots", "frame_accuracy"),
    ],
)
def test_files_are_learnt_and_predicted_with_no_edit(
    encoder: Path, template: str, metric: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(template, *QUICK)[metric] > 80
    assert "reglue train m.json --train a.jsonl --init encoder" in capsys.readouterr().out
    shutil.rmtree(encoder)  # the trained folder holds all that prediction needs
    main(["test", "out", "--data", "a.jsonl", "--json"])
    assert json.loads(capsys.readouterr().out)[metric] > 80
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])
    rows = read_rows(Path("p.jsonl"))
    assert len(rows) == 64
    main(["show", "out/model.json"])
    assert "pretrained_encoder" in capsys.readouterr().out
    names = {
        "classification": ["text"],
        "matching": ["premise", "hypothesis"],
        "multiple_choice": ["question", "choice1", "choice2"],
        "tagging": ["tokens"],
        "intent_slots": ["tokens"],
    }[template]
    given = [[row[name] for name in names] for row in rows[:3]]
    found = Predictor(TrainedModel.open("out")).predict(
        [row[0] if len(row) == 1 else row for row in given]
    )
    assert [item.prediction for item in found] == [row["prediction"] for row in rows[:3]]


@pytest.mark.parametrize("template", ["classification", "matching", "tagging"])
def test_a_bundle_says_what_the_trained_folder_says(encoder: Path, template: str) -> None:
    train(template, *QUICK[:2], "--epochs", "1")
    main(["export", "out", "--data", "a.jsonl", "--to", "bundle"])
    rows = make_rows(template)[:6]
    names = [name for name in rows[0] if name not in ("label", "tags")]
    given = [[row[name] for name in names] for row in rows]
    examples = [row[0] if len(row) == 1 else row for row in given]
    found = load("bundle").predict(examples)
    for own, other in zip(
        Predictor(TrainedModel.open("out")).predict(examples), found, strict=True
    ):
        assert own.prediction == other.get("label", other.get("tags"))


def test_a_model_reads_both_texts_apart(encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(Path("a.jsonl"), "matching")
    main(["new", "matching", "--train", "a.jsonl", "-o", "m.json", "--encoder", "encoder"])
    model = json.loads(Path("m.json").read_text())
    (top,) = [layer for layer in model["layers"] if layer["block"] == "pretrained_encoder"]
    model["inputs"] = {"first": "text_a", "second": "text_b"}
    model["layers"] = [
        {**top, "name": "one", "inputs": ["first"]},
        {"name": "two", "block": "one", "inputs": ["second"]},
        {"name": "one_mean", "block": "pooling", "inputs": ["one"], "pool": "mean"},
        {"name": "two_mean", "block": "pooling", "inputs": ["two"], "pool": "mean"},
        {"name": "pair", "block": "combination", "inputs": ["one_mean", "two_mean"]},
    ]
    (head,) = model["heads"].values()
    head["inputs"] = ["pair"]
    Path("m.json").write_text(json.dumps(model))
    files = ["--train", "a.jsonl", "--init", "encoder"]
    main(["train", "m.json", *files, "-o", "out", *QUICK])
    assert json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]["accuracy"] > 80
    capsys.readouterr()
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])
    rows = read_rows(Path("p.jsonl"))
    given = [[row["premise"], row["hypothesis"]] for row in rows[:3]]
    found = Predictor(TrainedModel.open("out")).predict(given)
    assert [item.prediction for item in found] == [row["prediction"] for row in rows[:3]]
    cut = ["-o", "cut", "--set", "data.max_tokens=3"]
    assert "layers.one.max_length" in fail(capsys, "train", "m.json", *files, *cut)
    write_rows(Path("b.jsonl"), "classification")
    main(["new", "classification", "--train", "b.jsonl", "-o", "s.json", "--encoder", "encoder"])
    single = ["--train", "b.jsonl", "--init", "encoder", "-o", "s", "--set", "inputs.texts=text_a"]
    assert "reads 'text_a'; data of kind classification has" in fail(
        capsys, "train", "s.json", *single
    )


def test_a_run_repeats_its_bytes(encoder: Path) -> None:
    train("classification", "--epochs", "1")
    first = Path("out/model.safetensors").read_bytes()
    train("classification", "--epochs", "1", "--force")
    assert Path("out/model.safetensors").read_bytes() == first


def test_a_text_is_read_as_it_stands(place: Path) -> None:
    path = place / "a.tsv"
    path.write_text("text\tlabel\nDon't  STOP!\tx\nwell\ty\n")
    values = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    data = DataConfig.model_validate({**values, "max_words": 1})
    split = read_user_file(path, data, "train", ["texts"])
    raw = split.columns["texts"]
    assert isinstance(raw, RawText)
    assert list(raw.first) == ["Don't  STOP!", "well"]
    assert raw.second is None
    tokens = split.subset("dev", split.ids[1:]).columns
    assert list(tokens["texts"].first) == ["well"]  # type: ignore[union-attr]


def test_no_word_of_a_sentence_is_dropped(place: Path) -> None:
    path = write_rows(place / "a.jsonl", "tagging")
    values = {"kind": "tagging", "format": "jsonl", "texts": ["tokens"], "label": "tags"}
    data = DataConfig.model_validate({**values, "scheme": "BIO", "max_words": 2})
    words = read_user_file(path, data, "train", ["tokens.pieces"]).columns["tokens.pieces"]
    assert isinstance(words, WordText)
    assert words.words.row(3) == make_rows("tagging")[3]["tokens"]


def test_what_does_not_fit_an_encoder_is_refused(
    encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(Path("a.jsonl"), "classification")
    new = ["new", "classification", "--train", "a.jsonl"]
    main([*new, "-o", "m.json", "--encoder", "encoder"])
    main([*new, "-o", "w.json"])
    files = ["--train", "a.jsonl", "-o", "out"]
    assert "none was given. Give --init FOLDER" in fail(capsys, "train", "m.json", *files)
    with_init = [*files, "--init", "encoder"]
    assert "no layer of the block pretrained_encoder" in fail(capsys, "train", "w.json", *with_init)
    cut = [*with_init, "--set", "data.max_tokens=3"]
    assert "layers.encoder.max_length" in fail(capsys, "train", "m.json", *cut)
    wide = [*with_init, "--set", "layers.encoder.dim=9"]
    assert "dim: found 9, expected 8" in fail(capsys, "train", "m.json", *wide)
    both = [*with_init, "--vectors", "x.txt"]
    assert "found --init and --vectors" in fail(capsys, "train", "m.json", *both)
    (encoder / "tokenizer.json").unlink()
    assert "found no tokenizer.json" in fail(capsys, "train", "m.json", *with_init)
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "a/b/c"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(DataError, match="no such folder"):
        find_encoder(name)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_text('{"model_type": "none_such"}')
    with pytest.raises(DataError, match="found no configuration of an encoder"):
        read_size(find_encoder(str(tmp_path)))


@pytest.mark.parametrize(
    "change",
    [{"hidden_size": "abc"}, {"hidden_size": None}, {"model_type": ["bert"]}],
    ids=str,
)
def test_a_configuration_with_a_value_of_another_type(
    encoder: Path, change: dict[str, object]
) -> None:
    path = encoder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match="found no configuration of an encoder"):
        read_size(encoder)


def test_a_name_on_the_hub_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(DataError, match=r"the hub cannot be reached.*Name a folder.*hf download"):
        find_encoder("some/encoder")
    with pytest.raises(DataError, match="neither a folder nor a name on the hub"):
        find_encoder("no name")


def test_an_encoder_in_the_cache_of_the_hub(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    kept = tmp_path / "hub/models--some--encoder"
    commit = "0" * 40
    shutil.copytree(encoder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs/main").write_text(commit)
    assert read_size(find_encoder("some/encoder")) == (8, 16)
