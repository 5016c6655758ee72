"""What `reglue new`, `train`, `test` and `predict` say of a mistake: one paragraph."""

import shutil
from pathlib import Path

import pytest
import torch

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.user_task import Cut, read_user_task
from nlp_core.errors import DataError
from nlp_core.files import digest_file
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training import run
from tests.user_commands import fail, trained
from tests.user_files import SMALL, write_rows, write_tsv

__all__ = ["trained"]
ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("model.safetensors", b"", "model.safetensors: found another sha256"),
        ("vocabulary.json", b"{", "vocabulary.json: found another sha256"),
        ("run.json", b"{}", "found the format None, expected 1"),
        ("run.json", b'{"format": 99, "plugins": []}', "found the format 99, expected 1"),
        ("run.json", b'{"format": 2, "plugins": []}', "or no digests of files"),
        ("run.json", b'{"format": 1, "plugins": 5}', "found no list of plugins"),
        ("run.json", b'{"format": 1, "plugins": [{"a": 1}]}', "found no list of plugins"),
    ],
)
def test_a_damaged_folder_is_refused(
    trained: Path, place: Path, name: str, content: bytes, wanted: str
) -> None:
    shutil.copytree(trained / "out", "damaged")
    (place / "damaged" / name).write_bytes(content)
    with pytest.raises(DataError, match=wanted):
        Predictor(TrainedModel.open("damaged"))


def test_a_finished_folder_is_not_replaced_unasked(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    assert "--force" in fail(capsys, *arguments, "-o", str(trained / "out"))
    other = fail(capsys, *arguments, "--force", "-o", str(trained))
    assert "something other than a trained model" in other
    assert (trained / "train.tsv").exists()
    model = ["new", "classification", "--train", str(trained / "train.tsv")]
    assert "the file exists" in fail(capsys, *model, "-o", str(trained / "model.json"))


TRAIN = ["train", "{model}", "--train", "{train}", "-o", "o"]
PREDICT = ["predict", "{out}", "-o", "p.tsv", "--data"]
PAIRS = ["--set", "data.kind=pair_classification", "--set", 'data.texts=["text","label"]']
PAIRS += ["--set", "data.label=other"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["tain", "{model}"], "unknown command 'tain'. Did you mean 'train'?"),
        (["train", "{model}"], "add --train DATA"),
        (["predict", "{out}", "--data", "{dev}"], "expected both"),
        (["predict", "{out}", "--data", "{dev}", "-o", "{dev}"], "names the file that is read"),
        ([*PREDICT, "gone.tsv"], "no such file"),
        ([*PREDICT, "{latin}"], "line 2: not UTF-8 text"),
        ([*PREDICT, "{ragged}"], "line 3: found 3 columns separated by '\\t', expected 2"),
        ([*PREDICT, "{taken}"], "line 2: found a column 'prediction'"),
        ([*PREDICT, "{dev}", "--confidence-of", "foot"], "Did you mean 'food'"),
        (
            ["predict", "{out}", "-o", "{dev}/x", "--data", "{dev}"],
            "is a file, not a folder",
        ),
        (["predict", "gone", "--data", "{dev}", "-o", "p.tsv"], "found no trained model"),
        (["test", "{out}", "--data", "{dev}", "--set", "layers.lstm.hidden_dim=3"], "is trained"),
        ([*TRAIN, "--dev", "{empty}"], "the file is empty"),
        ([*TRAIN, "--dev", "."], "found a folder"),
        ([*TRAIN, "--seed", "-1"], "--seed: found -1"),
        ([*TRAIN, "--max-vectors", "5"], "--max-vectors: found without --vectors"),
        ([*TRAIN, "--set", "data=null"], "data: found nothing"),
        ([*PREDICT, "{dev}", *PAIRS], "found another kind of data than the model was trained for"),
        ([*TRAIN, "--set", "x"], "expected a path"),
        ([*TRAIN, "--set", "layers.lst.p=1"], "Did you mean 'lstm'"),
        ([*TRAIN, "--set", "layers.lstm.hidden=1"], "Did you mean 'hidden_dim'"),
        ([*TRAIN, "--set", "heads.labl.dropout=0.1"], "head 'labl'"),
        ([*TRAIN, "--set", "trainings.epochs=1"], "Did you mean 'training'"),
        ([*TRAIN, "--set", "training.epoch=1"], "Did you mean 'epochs'"),
        ([*TRAIN, "--set", "training.epochs.x=1"], "training.epochs has no keys"),
        ([*TRAIN, "--set", "data.texts.3=a"], "data.texts has none named '3'"),
        ([*TRAIN, "--set", "data.label=labl"], "Did you mean 'label'"),
        ([*TRAIN, "--set", "data.kind=regression"], "serves"),
        ([*TRAIN, "--set", "data.kind=language_model"], "kind: found language_model, expected one"),
        ([*TRAIN, "--set", "data.kind=span"], "format: found tsv with kind span, expected squad"),
        (
            ["train", "{words}", "--train", "{train}", "-o", "new"],
            "found heads for language_model,",
        ),
        (["train", "{span}", "--train", "{train}", "-o", "new"], "found no JSON (Expecting value"),
        ([*TRAIN, "--set", "data.tokens=word"], "Did you mean 'words'"),
        ([*TRAIN, "--set", 'data.metrics=["f2"]'], "unknown metric 'f2'"),
        ([*TRAIN, "--set", "layers.word.vectors=x"], "Give --vectors FILE"),
        (["new", "regression", "--train", "{train}", "-o", "n.json"], "no column of numbers"),
        (["new", "tagging", "--train", "gone.tsv", "-o", "n.json"], "no such file"),
        (["new", "classification", "--train", "{twice}", "-o", "n.json"], "column 'text' twice"),
    ],
)
def test_a_mistake_is_one_paragraph_and_leaves_nothing(
    trained: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    wanted: str,
) -> None:
    files = {
        "latin": "text\nol\xe9\n".encode("latin-1"),
        "ragged": b"text\tlabel\na\tfood\nb\tfood\tc\n",
        "taken": b"text\tprediction\na\tb\n",
        "empty": b"",
        "twice": b"text\ttext\nthe soup\tfood\n",
    }
    for name, content in files.items():
        (trained / f"{name}.tsv").write_bytes(content)
    names = {name: str(trained / f"{name}.tsv") for name in (*files, "train", "dev")}
    names |= {"out": str(trained / "out"), "model": str(trained / "model.json")}
    names["words"] = str(ROOT / "zoo/language_model/lstm.json")
    names["span"] = str(ROOT / "zoo/squad/bidaf.json")
    before = digest_file(trained / "dev.tsv")
    assert wanted in fail(capsys, *(argument.format(**names) for argument in arguments))
    assert [path.name for path in place.iterdir() if path.name != "cache"] == []
    assert digest_file(trained / "dev.tsv") == before


def test_one_label_or_three_for_candidates_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.tsv").write_text("text\tlabel\n" + "good film\tyes\n" * 9, encoding="utf-8")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    assert "NOT SURE" in capsys.readouterr().out
    assert "only the label 'yes'" in fail(
        capsys, "train", "m.json", "--train", "a.tsv", "-o", "out"
    )
    rows = [{"question": "who", "answer": text, "label": idx % 3} for idx, text in enumerate("abc")]
    write_rows(place / "b.csv", rows)
    main(["new", "ranking", "--train", "b.csv", "-o", "r.json"])
    message = fail(capsys, "train", "r.json", "--train", "b.csv", "--dev", "b.csv", "-o", "out")
    assert "the labels 0, 1, 2" in message


@pytest.mark.parametrize(
    ("names", "ordered"),
    [(("correct", "incorrect"), ["incorrect", "correct"]), (("Yes", "No"), ["No", "Yes"])],
)
def test_the_right_candidate_is_known_by_its_label(
    tmp_path: Path, names: tuple[str, str], ordered: list[str]
) -> None:
    rows = [
        {"question": f"q{idx // 2}", "answer": "a", "label": names[idx % 2]} for idx in range(40)
    ]
    path = write_rows(tmp_path / "b.csv", rows)
    section = {"kind": "ranking", "format": "csv", "texts": ["question", "answer"]}
    config = DataConfig.model_validate({**section, "label": "label"})
    task = read_user_task({"train": path}, config, [], name="a", cut=Cut(1))
    assert task.targets == {"label": ordered}
    for row, name in zip(rows, ["entailment", "not_entailment"] * 20, strict=True):
        row["label"] = name
    write_rows(path, rows)
    with pytest.raises(DataError, match="expected 1 at a right candidate and 0 at a wrong one"):
        read_user_task({"train": path}, config, [], name="a", cut=Cut(1))


def test_a_misspelt_layer_is_named_with_vectors_too(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", header="text\tlabel")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    text = (place / "m.json").read_text().replace('"block"', '"blocks"', 1)
    (place / "m.json").write_text(text)
    (place / "v.txt").write_text("the 1.0 2.0\nsoup 0.5 0.25\n")
    message = fail(capsys, "train", "m.json", "--train", "a.tsv", "--vectors", "v.txt", "-o", "out")
    assert "m.json: layer 'word': block: this key is missing" in message


def test_few_tags_are_warned_of(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "Rome\tO\tO\nis\tO\tO\nbig\tO\tX\n\n"
    (place / "a.conll").write_text(sentence * 6, encoding="utf-8")
    main(["new", "tagging", "--train", "a.conll", "-o", "m.json"])
    arguments = ["train", "m.json", "--train", "a.conll", *SMALL, "--epochs", "1"]
    main([*arguments, "-o", "out"])
    assert "found no other tags than O and X" in capsys.readouterr().err
    message = fail(capsys, *arguments, "-o", "two", "--set", "data.label=2")
    assert "only the label 'O'" in message


def test_a_text_that_slows_every_epoch_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LONG_TEXT", 50)
    rows = ["good soup\tyes", "bad bed\tno"] * 30
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "dev")}
    for name, text in {"train": "soup " * 200, "dev": "soup " * 20}.items():
        files[name].write_text("\n".join(["text\tlabel", *rows, f"{text}\tyes"]) + "\n")
    section = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    config = DataConfig.model_validate(section)
    long = read_user_task(files, config, [], name="a", cut=Cut(1))
    run._warn_of_long_text(long.read_split("train"))
    assert "train found a text of 200 words in row 61, and 5 on average" in caplog.text
    run._warn_of_long_text(long.read_split("dev"))
    assert caplog.text.count("found a text of") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show m.json --svg m.json", "m.json: --svg names the file that is read"),
        ("show m.json --svg .", ".: --svg names a folder"),
        ("show m.json --svg m.png", "--svg: found 'm.png', expected a name that ends in .svg"),
        ("show .", ".: found a folder, expected a file"),
        ("bench b --texts t.txt --csv t.txt", "t.txt: --csv names the file that is read"),
        ("bench b --against b --data t.txt --svg t.txt", "t.txt: --svg names the file that"),
        ("pieces --texts t.txt --vocab-size 50 -o t.txt --force", "t.txt: -o names the file that"),
        ("pieces --texts t.txt --vocab-size 50 -o t.txt/x", "name another file"),
        ("pieces --texts blank.txt --vocab-size 50 -o x", "blank.txt: found only blank lines"),
        ("vectors . --analogies t.txt", ".: found a folder, expected a file"),
        (
            "convert . x --from tsv --scheme-from BIO --scheme-to BIOES",
            ".: found a folder, expected a file",
        ),
        ("explain wikiqa cnn", "params.yaml: no such file; go to the root of a project"),
        ("data croissant wikiqa", "sources: found no such folder; start in the project"),
    ],
)
def test_a_mistake_costs_no_file(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    shutil.copy(ROOT / "zoo/sample/answer_cnn.json", place / "m.json")
    (place / "t.txt").write_text("a good soup\n")
    (place / "blank.txt").write_text("\n\n")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    assert message in fail(capsys, *arguments.split())
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("size", [10**14, 10**18, 10**30])
def test_a_model_that_is_too_large_for_the_memory_is_one_paragraph(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def build(options: object) -> None:
        torch.empty(size, 100)

    monkeypatch.setattr("nlp_core.cli.blocks.run", build)
    assert "memory of this machine is too small" in fail(capsys, "blocks")
