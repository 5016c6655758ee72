"""Further columns of the user's files: symbols and numbers of tokens, numbers of a row."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset
from nlp_core.config.user_data import DataConfig, describe_files
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.test_cli_predict import Typed
from tests.tiny_glue import ROOT
from tests.user_commands import fail
from tests.user_files import read_rows

pytestmark = pytest.mark.usefixtures("place")
TRAINING = {"optimizer": {"name": "adam", "lr": 0.05}, "epochs": 8, "patience": None}
TAGS = {"NNP": "B-NAME", "NN": "O", "VB": "O"}


def write_model(
    data: dict[str, Any], layers: list[dict[str, Any]], head: str, **inputs: str
) -> None:
    """Write m.json, a net whose last layer a head reads."""
    model = {
        "description": "d",
        "source": "s",
        "inputs": inputs,
        "layers": layers,
        "heads": {"out": {"head": head, "inputs": [layers[-1]["name"]]}},
        "data": data,
        "training": TRAINING,
    }
    Path("m.json").write_text(json.dumps(model))


def write_sentences(path: str, rows: int, seed: int) -> None:
    """Write sentences whose tags follow only from the second column."""
    draw, lines = random.Random(seed), []
    for _ in range(rows):
        for _ in range(draw.randint(2, 6)):
            part = draw.choice(list(TAGS))
            lines.append(f"w{draw.randint(0, 3)} {part} {draw.random():.3f} {TAGS[part]}")
        lines.append("")
    Path(path).write_text("\n".join(lines) + "\n")


NAMES = {
    "kind": "tagging",
    "format": "conll",
    "texts": ["1"],
    "label": "4",
    "scheme": "BIO",
    "features": {"pos": "2"},
    "token_dense": {"weight": "3"},
}
NAME_LAYERS = [
    {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 4},
    {"name": "pos", "block": "category_embedding", "inputs": ["parts"], "dim": 6},
    {"name": "number", "block": "dense_features", "inputs": ["weights"], "width": 1},
    {"name": "token", "block": "concat", "inputs": ["word", "pos", "number"]},
]
NAME_INPUTS = {"words": "tokens", "parts": "features.pos", "weights": "token_dense.weight"}


@pytest.fixture
def tagger(place: Path) -> Path:
    """A trained tagger that reads the part of speech, and a file for it."""
    write_model(NAMES, NAME_LAYERS, "tagging", **NAME_INPUTS)
    write_sentences("a.conll", 60, 0)
    write_sentences("b.conll", 20, 1)
    main(["train", "m.json", "--train", "a.conll", "--dev", "b.conll", "-o", "out"])
    return place


def test_tags_follow_a_column_beside_the_words(
    tagger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["f1"] == 100.0
    main(["predict", "out", "--data", "b.conll", "-o", "p.conll"])
    rows = [line.split() for line in Path("p.conll").read_text().splitlines() if line]
    assert all(row[4] == TAGS[row[1]] == row[3] for row in rows)
    capsys.readouterr()
    main(["test", "out", "--data", "b.conll", "--json"])
    assert json.loads(capsys.readouterr().out)["f1"] == 100.0
    without = ["--data", "b.conll", "-o", "q.conll", "--set", "data.features={}"]
    assert "found another kind of data" in fail(capsys, "predict", "out", *without)


def test_tags_are_learnt_in_another_scheme_than_the_files(tagger: Path) -> None:
    options = ["--data", "b.conll", "-o", "p.conll"]
    files = ["--train", "a.conll", "--dev", "b.conll", "-o", "other"]
    main(["train", "m.json", *files, "--set", "data.learnt_scheme=BIOES"])
    metrics = json.loads(Path("other/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["f1"] == 100.0
    main(["predict", "other", *options])
    rows = [line.split() for line in Path("p.conll").read_text().splitlines() if line]
    assert {(row[3], row[4]) for row in rows} == {("B-NAME", "S-NAME"), ("O", "O")}


def test_a_terminal_is_not_asked_for_texts_alone(
    tagger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("w1 w2"))
    assert "reads features.pos and token_dense.weight" in fail(capsys, "predict", "out")


def test_a_bundle_of_such_a_model_says_the_same(
    tagger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "out", "--to", "bundle", "--data", "b.conll"])
    assert "the same label for 20 of 20 examples" in capsys.readouterr().out


def test_a_text_alone_is_not_enough(tagger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match=r"reads features\.pos and token_dense\.weight in addition"):
        Predictor(TrainedModel.open("out")).predict(["w1 w2"])
    Path("c.conll").write_text("w1 NN\nw2 VB\n\n")
    message = fail(capsys, "predict", "out", "--data", "c.conll", "-o", "p.conll")
    assert "c.conll: line 1: found no column '3'" in message
    assert not Path("p.conll").exists()


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_numbers_of_a_row_decide(place: Path, suffix: str) -> None:
    data = {"kind": "classification", "format": suffix, "texts": ["text"], "label": "label"}
    layers = [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 2},
        {"name": "mean", "block": "pooling", "inputs": ["word"], "pool": "mean"},
        {"name": "number", "block": "dense_features", "inputs": ["votes"], "width": 2},
        {"name": "both", "block": "concat", "inputs": ["mean", "number"]},
    ]
    data |= {"dense": {"votes": "votes"}}
    write_model(data, layers, "classification", words="tokens", votes="dense.votes")
    draw = random.Random(3)
    for name, rows in (("a", 200), ("b", 30)):
        lines, mark = [], "\t" if suffix == "tsv" else ","
        for _ in range(rows):
            votes = [draw.randint(-9, 9), draw.randint(-9, 9)]
            row = {"text": "it is", "votes": votes, "label": "up" if votes[0] > 0 else "down"}
            if suffix == "jsonl":
                lines.append(json.dumps(row))
            else:
                cells = [row["text"], " ".join(map(str, votes)), row["label"]]
                lines.append(mark.join(cells))
        header = [] if suffix == "jsonl" else [mark.join(["text", "votes", "label"])]
        Path(f"{name}.{suffix}").write_text("\n".join([*header, *lines]) + "\n")
    files = ["--train", f"a.{suffix}", "--dev", f"b.{suffix}", "-o", "out"]
    main(["train", "m.json", *files])
    metrics = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["accuracy"] > 90
    main(["predict", "out", "--data", f"b.{suffix}", "-o", f"p.{suffix}"])
    rows_said = read_rows(Path(f"p.{suffix}"))
    right = sum(row["prediction"] == row["label"] for row in rows_said)
    assert 100 * right / 30 == pytest.approx(metrics["accuracy"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b\tX\t1 2\tp", "line 3: found 2 tokens and 1 values in 'pos', expected one for each"),
        ("a b\tX Y\t1 x\tp", "line 3: found 'x' in 'votes', expected a number"),
        ("a b\tX Y\tnan 1\tp", "line 3: found 'nan' in 'votes', expected a number"),
        ("a b\tX Y\t1\tp", "line 3: found 1 number in 'votes', expected 2 as in the first row"),
        ("a b\t\t1 2\tp", "line 3: found '' in 'pos', expected a list, or words by spaces"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    data = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    data |= {"features": {"pos": "pos"}, "dense": {"votes": "votes"}, "tokens": "spaces"}
    layers = [
        {"name": "pos", "block": "category_embedding", "inputs": ["parts"], "dim": 2},
        {"name": "mean", "block": "pooling", "inputs": ["pos"], "pool": "mean"},
    ]
    write_model(data, layers, "classification", parts="features.pos")
    Path("a.tsv").write_text(f"text\tpos\tvotes\tlabel\na\tX\t1 2\tq\n{line}\n")
    files = ["--train", "a.tsv", "--dev", "a.tsv", "-o", "out"]
    assert message in fail(capsys, "train", "m.json", *files)
    assert not Path("out").exists()


def test_a_file_with_other_widths_than_in_training_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    layers = [{"name": "number", "block": "dense_features", "inputs": ["votes"], "width": 2}]
    write_model(data | {"dense": {"votes": "votes"}}, layers, "classification", votes="dense.votes")
    Path("a.tsv").write_text("text\tvotes\tlabel\na\t1 2\tq\nb\t2 1\tp\n")
    Path("b.tsv").write_text("text\tvotes\tlabel\na\t1 2 3\tq\nb\t2 1 3\tp\n")
    files = ["--train", "a.tsv", "--dev", "b.tsv", "-o", "out"]
    assert "b.tsv: found 3 numbers per row" in fail(capsys, "train", "m.json", *files)


TEXT = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
PAIR = TEXT | {"kind": "pair_classification", "texts": ["a", "b"]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (PAIR | {"features": {"pos": "p"}}, "features.pos with two texts"),
        (TEXT | {"features": {"pos": "text"}}, "expected each once"),
        (TEXT | {"features": {"pos": "p"}, "max_tokens": 3}, "max_tokens: found with features.pos"),
        (NAMES | {"dense": {"votes": "5"}}, "dense: .*use token_dense"),
        (TEXT | {"features": {"Pos": "p"}}, "features"),
        (TEXT | {"comments": True}, "comments: found with tsv, expected conll"),
        (TEXT | {"format": "jsonl", "quoted": True}, "quoted: found with jsonl, expected tsv or"),
        (TEXT | {"format": "parquet", "header": False}, "header: found with parquet"),
        (NAMES | {"scheme": "plain", "learnt_scheme": "BIO"}, "learnt_scheme: found with scheme"),
    ],
)
def test_wrong_descriptions_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig.model_validate(data)


def test_other_columns_of_a_source_are_described() -> None:
    task = read_dataset("conll2003_pos", ROOT / "sources").task
    assert task is not None
    read = ["tokens", "features.pos", "features.chunk"]
    columns = describe_files(task, "conll", read)
    assert columns.extras == {"features.pos": "2", "features.chunk": "3"}
    assert (columns.label, columns.scheme, columns.target_scheme) == ("4", "IOB1", "BIOES")
    assert describe_files(task, "jsonl", read).extras["features.pos"] == "pos"
    assert describe_files(task, "conll", ["tokens"]).extras == {}
