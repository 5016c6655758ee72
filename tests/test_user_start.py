"""`reglue train --init` with a trained model: what continues, what starts, what is an error."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nlp_core.cli import main
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training.start import find_start
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import QUICK, make_texts, read_rows, write_tsv

HARDLY = ["--lr", "1e-12", "--epochs", "1", "--set", "training.calibration=null"]
"""So small a rate that weights are those that a training started from."""
VECTORS = "".join(f"{word} {n} 0 1\n" for n, word in enumerate(["tasty", "street", "sauce", "a"]))


@pytest.fixture(autouse=True)
def trained(place: Path) -> Path:
    """A working folder with `old`, a model of five labels, and its files."""
    write_tsv(place / "a.tsv", rows=100, header="text\tlabel")
    write_tsv(place / "b.tsv", rows=30, seed=1, header="text\tlabel")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    main(["train", "m.json", "--train", "a.tsv", "--dev", "b.tsv", "-o", "old", *QUICK])
    return place


def go_on(*options: str, model: str = "old/model.json", train: str = "a.tsv") -> dict[str, float]:
    """Train `new` from `old`, and return the metrics of b.tsv."""
    files = ["--train", train, "--dev", "b.tsv", "-o", "new"]
    main(["train", model, *files, "--init", "old", *HARDLY, *options])
    return read_metrics("new")


def rename(path: Path, names: dict[str, str]) -> None:
    """Write the model file of `old` with other names of layers."""
    model = json.loads(Path("old/model.json").read_text())
    for part in [*model["layers"], *model["heads"].values()]:
        part["inputs"] = [names.get(name, name) for name in part["inputs"]]
        part |= {"name": names.get(part["name"], part["name"])} if "name" in part else {}
    path.write_text(json.dumps(model))


def read_metrics(folder: str) -> dict[str, float]:
    metrics: dict[str, float] = json.loads(Path(folder, "metrics.json").read_text())["metrics"][
        "dev"
    ]
    return metrics


def read_weights(folder: str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder, "model.safetensors"))


def test_a_model_goes_on_where_it_stopped_and_keeps_its_words(trained: Path) -> None:
    (trained / "c.tsv").write_text("text\tlabel\n" + "a new sauce\tfood\n" * 5)
    with (trained / "c.tsv").open("a") as file:
        file.writelines(f"{text}\t{label}\n" for text, label in make_texts(40, seed=2))
    assert go_on(train="c.tsv") == pytest.approx(read_metrics("old"), abs=1e-4)
    old, new = read_weights("old"), read_weights("new")
    assert old.keys() == new.keys()
    for name, value in old.items():
        torch.testing.assert_close(new[name], value, rtol=0, atol=1e-6)
    layers = [
        json.loads((trained / name / "vocabulary.json").read_text())["layers"]["word"]["words"]
        for name in ("old", "new")
    ]
    assert layers[0] == layers[1]
    assert "sauce" not in layers[1]
    start = find_start("old", [])
    assert start is not None
    assert json.loads((trained / "new/run.json").read_text())["start"] == start.digest(1)


def test_the_same_call_gives_the_same_bytes_also_over_its_own_start(trained: Path) -> None:
    go_on("--lr", "0.01")
    first = (trained / "new/model.safetensors").read_bytes()
    shutil.copytree("old", "kept")
    for folder in ("new", "old"):
        shutil.rmtree("new", ignore_errors=True)
        files = ["--train", "a.tsv", "--dev", "b.tsv", "-o", folder, "--force"]
        main(["train", "kept/model.json", *files, "--init", "old", *HARDLY, "--lr", "0.01"])
        assert (trained / folder / "model.safetensors").read_bytes() == first


def test_other_labels_get_a_fresh_head(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(text, str(label in ("food", "room"))) for text, label in make_texts(60, seed=3)]
    lines = "".join(f"{text}\t{label}\n" for text, label in rows)
    (trained / "two.tsv").write_text(f"text\tlabel\n{lines}")
    shutil.copy("two.tsv", "b.tsv")
    go_on(train="two.tsv")
    assert "heads=fresh since=the labels are others" in capsys.readouterr().err
    old, new = read_weights("old"), read_weights("new")
    layers = [name for name in old if name.startswith("blocks.")]
    assert {name for name in new if name.startswith("blocks.")} == set(layers)
    for name in layers:
        torch.testing.assert_close(new[name], old[name], rtol=0, atol=1e-6)
    heads = [name for name in new if name.startswith("heads.")]
    assert {new[name].shape[0] for name in heads} == {2}
    assert Predictor(TrainedModel.open("new")).labels == ["False", "True"]


def test_a_new_layer_begins_anew_beside_those_that_go_on(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rename(trained / "n.json", {"lstm": "other"})
    go_on(model="n.json")
    assert "fresh=other\n" in capsys.readouterr().err
    old, new = read_weights("old"), read_weights("new")
    (word,) = (name for name in new if name.startswith("blocks.word."))
    torch.testing.assert_close(new[word], old[word], rtol=0, atol=1e-6)
    assert not any(name.startswith("blocks.lstm.") for name in new)


def test_vectors_of_words_that_were_never_met_go_along(trained: Path) -> None:
    (trained / "small.vec").write_text(f"4 3\n{VECTORS}")
    files = ["--train", "a.tsv", "--dev", "b.tsv", "--force", "--vectors", "small.vec"]
    main(["train", "m.json", *files, "-o", "old", *QUICK])
    go_on()
    shutil.rmtree("old")
    first, other = Predictor(TrainedModel.open("new")).predict(["sauce", "nothing like it"])
    assert first.confidence != other.confidence  # a vector of its own, none
    main(["train", "new/model.json", "--train", "a.tsv", "-o", "third", "--init", "new", *HARDLY])
    again = Predictor(TrainedModel.open("third")).predict(["sauce"])[0]
    assert again.confidence == pytest.approx(first.confidence, abs=1e-4)


def test_an_encoder_goes_on_without_its_folder(trained: Path) -> None:
    encoder = write_encoder(trained)
    model, options = "m.json", ["--encoder", str(encoder), "--force"]
    main(["new", "classification", "--train", "a.tsv", "-o", model, *options])
    files = ["--train", "a.tsv", "--dev", "b.tsv", "--force"]
    quick = ["--lr", "0.02", "--epochs", "4", "--batch-size", "8"]
    main(["train", model, *files, "-o", "old", "--init", str(encoder), *quick])
    shutil.rmtree(encoder)
    assert go_on() == pytest.approx(read_metrics("old"), abs=1e-3)
    main(["export", "new", "--data", "b.tsv", "--to", "bundle"])
    main(["predict", "new", "--data", "b.tsv", "-o", "p.tsv"])
    assert len(read_rows(Path("p.tsv"))) == 30


def test_what_does_not_fit_is_refused_before_anything_is_read(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", "old/model.json", "--train", "missing.tsv", "-o", "new", "--init"]
    names = ["word", "drop", "lstm", "best", "mean", "text"]
    rename(trained / "n.json", {name: f"{name}_2" for name in names})
    message = fail(capsys, "train", "n.json", *train[2:], "old")
    assert "n.json: layers: found none with a name in old/model.json" in message
    message = fail(capsys, *train, "old", "--set", "layers.word.vectors=100d")
    assert "layer 'word': vectors: found '100d', expected none, as in old/model.json" in message
    message = fail(capsys, *train, "old", "--vectors", "v.txt")
    assert "found --init and --vectors" in message
    (trained / "empty").mkdir()
    assert "found no config.json" in fail(capsys, *train, "empty")
    message = fail(
        capsys, *train[:3], "a.tsv", *train[4:], "old", "--set", "layers.lstm.hidden_dim=4"
    )
    assert "expected" in message
    assert "the shape in the model file" in message
    assert not (trained / "new").exists()


def test_a_folder_of_another_version_is_refused(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = json.loads((trained / "old/run.json").read_text())
    (trained / "old/run.json").write_text(json.dumps(note | {"format": 0}))
    train = ["train", "old/model.json", "--train", "a.tsv", "-o", "new", "--init", "old"]
    assert "old/run.json: found the format 0" in fail(capsys, *train)


def test_a_folder_of_the_first_format_is_upgraded_when_it_is_opened(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = trained / "old/run.json"
    texts = [row["text"] for row in read_rows(trained / "b.tsv")]
    before = [item.confidence for item in Predictor(TrainedModel.open("old")).predict(texts)]
    note = json.loads(path.read_text())
    # as the first version of `reglue train` wrote it
    first = {key: note[key] for key in ("files", "fingerprint", "kind", "plugins", "seed")}
    written = json.dumps(first | {"format": 1, "targets": note["targets"]})
    path.write_text(written)
    with caplog.at_level("INFO"):
        after = Predictor(TrainedModel.open("old")).predict(texts)
    assert [item.confidence for item in after] == before
    assert "old/run.json: read format=1 as format=2" in caplog.text
    assert path.read_text() == written


def test_what_a_training_starts_from_is_a_part_of_its_name(trained: Path) -> None:
    found = find_start("old", [])
    assert found is not None
    before = found.digest(1)
    assert found.plan.where == "old/model.json"
    path = trained / "old/vocabulary.json"
    path.write_text(path.read_text().replace("tasty", "nasty"))
    assert found.digest(1) != before
    assert find_start("sentence-transformers/all-MiniLM-L6-v2", []) is None


def test_a_changed_weight_to_start_from_is_noticed(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained / "old/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    train = ["train", "old/model.json", "--train", "a.tsv", "-o", "new", "--init", "old"]
    assert "model.safetensors: found another sha256" in fail(capsys, *train)
    assert not (trained / "new").exists()
