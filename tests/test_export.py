"""Bundles say what the trained model says, need what they read, and refuse what they cannot say."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from nlp_core.errors import ConfigError, ExportError, UsageError
from nlp_core.export import bundle as exporting
from nlp_core.export.card import format_card
from nlp_core.export.parity import Parity
from nlp_core.export.program import load_any
from nlp_core.export.real_examples import list_examples
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import BundleError, load
from tests.tiny import write_task, write_vectors
from tests.tiny_encoder import write_encoder
from tests.tiny_export import APART, JOINT, WINDOWS, WORDS, export, make_trained, read_examples

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = ["torch", "transformers", "pandas", "pyarrow", "pydantic", "nltk", "nlp_core", "onnx"]


@pytest.fixture(scope="module")
def sentence(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedModel, Path]:
    """A classifier and its bundle."""
    root = tmp_path_factory.mktemp("sentence")
    trained = make_trained(root, write_task(root), write_vectors(root), WORDS)
    export(trained, root / "bundle", variant="float32")
    return trained, root / "bundle"


@pytest.fixture
def copy(sentence: tuple[TrainedModel, Path], tmp_path: Path) -> Path:
    """A copy of the classifier's bundle."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in sentence[1].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_a_bundle_predicts_texts_tokens_and_columns_alike(
    sentence: tuple[TrainedModel, Path],
) -> None:
    bundle = load(sentence[1])
    text = "the Great film is 42 unseen x7"
    found = bundle.predict([text, text.split(), {"text": text}, {"tokens": text.split()}])
    assert all(item == found[0] for item in found)
    assert found[0]["label"] in bundle.labels("label") == ["0", "1"]
    assert found[0]["confidence"] == max(found[0]["scores"].values())
    assert sum(found[0]["scores"].values()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["embedding", "linear", "softmax"])
def test_a_head_may_have_the_name_of_an_operation(name: str, tmp_path: Path) -> None:
    graph = {**WORDS, "heads": {name: WORDS["heads"]["label"]}}
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), graph)
    export(trained, tmp_path / "bundle", variant="float32")
    assert load(tmp_path / "bundle").manifest.heads[0]["output"] == name


def test_normalised_batches_are_exported_as_in_evaluation(tmp_path: Path) -> None:
    pooled = {
        "name": "cnn",
        "block": "conv_pooling",
        "inputs": ["lstm"],
        "windows": [1, 2],
        "filters": 4,
        "batch_norm": True,
    }
    head = {"head": "classification", "inputs": ["cnn"], "hidden_dims": [5], "batch_norm": True}
    graph = {**WORDS, "layers": [*WORDS["layers"][:2], pooled], "heads": {"label": head}}
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), graph)
    for name, buffer in trained.model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            torch.nn.init.uniform_(buffer, 0.5, 2.0)
    parity = export(trained, tmp_path / "bundle", variant="float32")
    assert parity.max_difference < 1e-5
    assert parity.same_labels == parity.examples > 0


def test_each_example_gets_what_it_gets_alone(sentence: tuple[TrainedModel, Path]) -> None:
    trained, folder = sentence
    bundle = load(folder)
    examples = [
        *list_examples(trained, read_examples(trained), np.arange(12)),
        {"text": ""},
        {"text": "good " * 40},
    ]
    together = bundle.predict(examples, batch_size=14)
    for example, found in zip(examples, together, strict=True):
        (alone,) = bundle.predict([example])
        assert found["label"] == alone["label"]
        assert found["confidence"] == pytest.approx(alone["confidence"], abs=1e-5)


def test_the_graph_leaves_sizes_open_and_says_nothing_of_where_it_was_made(
    sentence: tuple[TrainedModel, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = sentence[1]
    proto = onnx.load(folder / "model.onnx")
    read = {item.name: item.type.tensor_type for item in proto.graph.input}
    assert sorted(read) == ["tokens", "tokens.lengths"]
    sizes = [size.dim_param for size in read["tokens"].shape.dim[1:]]
    assert all(sizes), sizes
    assert [node.op_type for node in proto.graph.node].count("LSTM") == 2
    assert b"nlp_core" not in proto.SerializeToString()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    for size in (1, 3, 9, 2):
        words = np.full((4, size, size), "film", dtype=object)
        session.run(None, {"tokens": words, "tokens.lengths": np.full(size, size)})
    assert capfd.readouterr().err == ""


def test_an_export_gives_the_same_bytes_again(
    sentence: tuple[TrainedModel, Path], tmp_path: Path
) -> None:
    trained, folder = sentence
    (tmp_path / "again").mkdir()
    (tmp_path / "again/bundle.json").write_text("the one before")
    export(trained, tmp_path / "again", variant="float32", force=True)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_a_bundle_has_a_card_of_its_model(
    sentence: tuple[TrainedModel, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, folder = sentence
    card = (folder / "README.md").read_text(encoding="utf-8")
    for line in (
        "classification model, exported by Reglue as float32.",
        "- predicts label: 0, 1",
        "- the user's file for train, sha256:0a1b; licence: unknown",
        "- equal predictions of both: 20 of 20 examples, scores within 1e-06",
        f"- `reglue export {trained.name} --data FILE --to FOLDER --variant float32`",
    ):
        assert line in card.splitlines()
    assert re.search(r"- accuracy on the file of --data: \d+\.\d\d \(the trained model\)", card)
    assert str(tmp_path.parent) not in card

    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources").mkdir()
    shutil.copy(ROOT / "sources/sst2.yaml", tmp_path / "sources")
    cell = {
        "table": "glue",
        "cell": "sst2_lstm",
        "model": "zoo/a.json",
        "recipe": "slow",
        "recipe_digest": "0" * 64,
        "data": {"sst2": "sha256:aa", "taught": "sha256:bb"},
        "init": {"path": "data/processed/glove", "sha256": "sha256:cc"},
        "tasks": {"sst2": {}, "rte": {}},
    }
    (tmp_path / "cell.json").write_text(json.dumps(cell))
    opened = dataclasses.replace(trained, folder=tmp_path / "seed-3", data=None)
    parity = Parity(20, 19, 0.5, "accuracy", 90.0, 89.5)
    card = format_card(opened, "int8", parity=parity, scores={"accuracy": 90.0}, max_drop=1.0)
    for line in (
        "- graph: zoo/a.json, recipe: slow (0000000000000000)",
        "- sst2, sha256:aa; licence: No licence is stated; the sentences come from film reviews. "
        "Research use.",
        "- taught, sha256:bb",
        "- glove, sha256:cc",
        "- accuracy on the split test: 90.00 (the trained model)",
        "- accuracy on the split test: 89.50 (int8)",
        f"- `reglue export artifacts/cells/glue/sst2_lstm --seed 3 --task {trained.task.name} "
        "--to FOLDER --variant int8 --max-drop 1`",
    ):
        assert line in card.splitlines()


def test_the_runtime_loads_no_heavy_library_and_starts_in_a_second(
    sentence: tuple[TrainedModel, Path],
) -> None:
    code = f"""
import sys, time
from reglue_runtime import load
bundle = load({str(sentence[1])!r})
started = time.process_time()
print(bundle.predict(["a good film"])[0]["label"])
heavy = sorted(set({FORBIDDEN!r}) & set(sys.modules))
assert not heavy, heavy
assert started < 1.0, started
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("0", "1")


def test_intents_slots_characters_and_pieces(tmp_path: Path) -> None:
    task = write_task(tmp_path, "intent_slots")
    trained = make_trained(tmp_path, task, write_vectors(tmp_path), JOINT)
    parity = export(trained, tmp_path / "bundle", variant="float32")
    assert (parity.examples, parity.same_labels) == (20, 20)
    (found,) = load(tmp_path / "bundle").predict(["the good film is <unk>"])
    assert set(found) == {"label", "confidence", "scores", "slots"}
    slots = found["slots"]
    assert slots["tokens"] == ["the", "good", "film", "is", "<unk>"]
    assert len(slots["tags"]) == len(slots["confidence"]) == 5
    for entity in slots["entities"]:
        assert slots["tags"][entity["first"]] != "O"


def test_an_encoder_reads_two_texts(tmp_path: Path) -> None:
    trained = make_trained(
        tmp_path, write_task(tmp_path, "tagging"), write_encoder(tmp_path), WINDOWS
    )
    export(trained, tmp_path / "bundle", variant="float32")
    (found,) = load(tmp_path / "bundle").predict([["good", "films"] * 7])
    assert len(found["tags"]) == 14
    assert found["tokens"][:2] == ["good", "films"]
    names = {node.op_type for node in onnx.load(tmp_path / "bundle" / "model.onnx").graph.node}
    assert "Softmax" in names
    assert "IsNaN" not in names


def test_an_encoder_reads_two_texts_apart_and_together(tmp_path: Path) -> None:
    task = write_task(tmp_path, "pair_regression")
    trained = make_trained(tmp_path, task, write_encoder(tmp_path), APART)
    parity = export(trained, tmp_path / "bundle", variant="float32")
    assert parity.examples == 20
    files = [path.name for path in (tmp_path / "bundle").glob("*tokenizer.json")]
    assert files == ["encoder.tokenizer.json"]
    bundle = load(tmp_path / "bundle")
    pairs = [("good films", "the bad film"), ("the bad film", "good films")]
    first, second = (item["score"] for item in bundle.predict(pairs))
    assert first != pytest.approx(second, abs=1e-4)
    for pair, score in zip(pairs, (first, second), strict=True):
        assert bundle.predict([pair])[0]["score"] == pytest.approx(score, abs=1e-5)


def damage(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")


def renumber(folder: Path, name: str) -> None:
    note = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps({**note, "format": 99}), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        (damage, "model.onnx", "found the sha256"),
        (lambda folder, name: (folder / name).unlink(), "model.onnx", "no such file"),
        (lambda folder, name: (folder / name).unlink(), "bundle.json", "holds no bundle"),
        (renumber, "bundle.json", "found format 99, expected 1"),
        (lambda folder, name: (folder / name).write_text("{"), "bundle.json", "found no JSON"),
    ],
)
def test_a_bundle_that_is_not_whole_is_refused(
    copy: Path, change: Callable[[Path, str], object], name: str, message: str
) -> None:
    change(copy, name)
    with pytest.raises(BundleError, match=message):
        load(copy)


@pytest.mark.parametrize("example", [None, 3, {"text_a": "a"}, [1, 2]])
def test_an_example_that_is_no_text_is_refused(copy: Path, example: Any) -> None:
    with pytest.raises(BundleError, match=r"example 2: found .*, expected a text"):
        load(copy).predict(["a good film", example])


def test_a_program_says_the_same_in_torch_and_only_there(
    sentence: tuple[TrainedModel, Path], tmp_path: Path
) -> None:
    trained, exported = sentence
    folders = [tmp_path / "program", tmp_path / "again"]
    for folder in folders:
        parity = export(trained, folder, variant="program")
        assert parity.same_labels == parity.examples == len(read_examples(trained))
    files = [sorted(path.read_bytes() for path in folder.iterdir()) for folder in folders]
    assert files[0] == files[1]
    assert str(ROOT).encode() not in (folders[0] / "model.pt2").read_bytes()
    bundle = load_any(folders[0])
    alone, whole = bundle.predict(["a good film"]), load(exported).predict(["a good film"])
    assert alone[0]["label"] == whole[0]["label"]
    assert alone[0]["scores"] == pytest.approx(whole[0]["scores"], abs=1e-5)
    with pytest.raises(BundleError, match="a program, which only torch runs"):
        load(folders[0])


def test_a_program_reads_recurrent_layers_of_any_length(tmp_path: Path) -> None:
    layers = [
        WORDS["layers"][0],
        {"name": "gru", "block": "bigru", "inputs": ["word"], "hidden_dim": 6},
        {"name": "whole", "block": "pooling", "inputs": ["gru"]},
    ]
    graph = {**WORDS, "layers": layers}
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), graph)
    export(trained, tmp_path / "program", variant="program")
    bundle = load_any(tmp_path / "program")
    texts = ["good", "good " * 70, ""]
    together = bundle.predict(texts)
    for text, found in zip(texts, together, strict=True):
        alone = bundle.predict([text])[0]["scores"]
        assert alone == pytest.approx(found["scores"], abs=1e-5)


def test_int8_is_written_where_it_loses_little_and_not_where_it_loses_more(
    sentence: tuple[TrainedModel, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, folder = sentence
    parity = export(trained, tmp_path / "int8", variant="int8", max_drop=30.0)
    assert parity.metric == "accuracy"
    nodes = {node.op_type for node in onnx.load(tmp_path / "int8/model.onnx").graph.node}
    assert "DynamicQuantizeLSTM" in nodes

    def break_graph(graph: bytes) -> bytes:
        proto = onnx.load_from_string(graph)
        for item in proto.graph.initializer:
            if item.name.endswith("out.weight"):
                values = -onnx.numpy_helper.to_array(item)
                item.CopyFrom(onnx.numpy_helper.from_array(values, item.name))
        return bytes(proto.SerializeToString())

    for drop in (float("nan"), -1.0):
        with pytest.raises(UsageError, match=r"--max-drop: found .*, expected 0 or more"):
            export(trained, tmp_path / "never", variant="int8", max_drop=drop)
    monkeypatch.setattr(exporting, "quantize", break_graph)
    with pytest.raises(ExportError, match=r"worse than .* expected at most 0\.1; no bundle"):
        export(trained, tmp_path / "worse", variant="int8", max_drop=0.1)
    assert not (tmp_path / "worse").exists()
    monkeypatch.setattr(
        exporting, "build_graph", lambda *_: break_graph((folder / "model.onnx").read_bytes())
    )
    with pytest.raises(ExportError, match=r"predicts the same for \d+ of 20 examples"):
        export(trained, tmp_path / "wrong", variant="float32")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["int8"]


def test_what_cannot_be_exported_is_refused_with_the_reason(
    sentence: tuple[TrainedModel, Path], tmp_path: Path
) -> None:
    trained, bundle = sentence
    with pytest.raises(ConfigError, match=r"found a bundle\. Choose another folder with --to, or"):
        export(trained, bundle, variant="float32")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="found something other than a bundle"):
        export(trained, tmp_path / "mine", variant="float32", force=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="found something other than a bundle"):
        export(trained, tmp_path / "file", variant="float32")
    with pytest.raises(ConfigError, match="--max-drop: found none with int8"):
        export(trained, tmp_path / "new", variant="int8")
    task = write_task(tmp_path, "tagging")
    graph = {**WORDS, "layers": WORDS["layers"][:2]}
    graph["heads"] = {"tags": {"head": "encoder_decoder_tagging", "inputs": ["lstm"]}}
    tagger = make_trained(tmp_path, task, write_vectors(tmp_path), graph)
    with pytest.raises(ConfigError, match="head 'tags': it predicts tags one by one"):
        export(tagger, tmp_path / "new", variant="float32")
    assert not (tmp_path / "new").exists()
