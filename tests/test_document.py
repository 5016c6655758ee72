"""The sentences of a document, each with a label: reader, block, metrics, user files, bundles."""

import csv
import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.blocks.dialogue import SentenceEncoder
from nlp_core.blocks.masking import pool_max
from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset
from nlp_core.config.user_data import DataConfig
from nlp_core.data.formats.dialogues import DocumentReader
from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.readers.user import read_examples
from nlp_core.data.sample import generate
from nlp_core.errors import ConfigError, DataError
from nlp_core.kinds import DOCUMENT, SENTENCES, TAGS
from nlp_core.metrics import Predictions, measure
from nlp_core.models.plan import read_plan
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.statistics.summands import _choose_summands
from reglue_runtime import BundleError, load
from reglue_runtime.text import EMPTY_TOKEN, TURN
from tests.user_commands import fail, learn
from tests.user_files import read_rows

TINY = ["--set", "layers.word.dim=12", "--set", "layers.sentence.hidden_dim=12", "--lr", "0.02"]
TINY += ["--set", "layers.lstm.hidden_dim=12", "--set", "layers.drop.p=0.0"]
TINY += ["--set", "layers.out.p=0.0", "--epochs", "8"]
OPENINGS = {"food": "breakfast began early", "room": "our bed was wide"}


def make_documents(size: int) -> list[tuple[list[str], list[str]]]:
    """Make documents whose later sentences are those of the part that the first one opens."""
    found = []
    for number in range(size):
        first, second = [*OPENINGS][:: 1 if number % 2 else -1]
        later = ["it was good", "nobody expected that"][: 1 + number % 2]
        sentences = [OPENINGS[first], *later, OPENINGS[second], later[0]]
        labels = [first] * (1 + len(later)) + [second] * 2
        found.append((sentences, labels))
    return found


def write_documents(path: Path, size: int = 40) -> Path:
    rows = [{"sentences": texts, "labels": labels} for texts, labels in make_documents(size)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_document_of_a_source_is_one_row(tmp_path: Path) -> None:
    sentences = [{"text": "our bed was wide", "label": "room"}, {"text": "good", "label": "food"}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"sentences": sentences}) + "\n")
    task = read_dataset("sample_documents").task
    assert task is not None
    (row,) = DocumentReader(name="documents").read(task, "train", path)
    assert (row.tokens, row.tags) == (["our", "bed", "was", "wide", "good"], ["room", "food"])
    assert row.extras == {SENTENCES: [4, 1]}
    for key, value, found in [
        ("label", "no", "line 1: found the label 'no', expected sentences with one of"),
        ("text", " ", "line 1: found a sentence of no words"),
    ]:
        path.write_text(json.dumps({"sentences": [{**sentences[0], key: value}]}) + "\n")
        with pytest.raises(DataError, match=found):
            DocumentReader(name="documents").read(task, "train", path)


def test_a_generated_sentence_needs_its_neighbours(tmp_path: Path) -> None:
    generate("sample_documents", tmp_path, sizes={"a.jsonl": 200}, seed=2)
    labels: dict[str, set[str]] = {}
    for line in (tmp_path / "a.jsonl").read_text().splitlines():
        for sentence in json.loads(line)["sentences"]:
            labels.setdefault(sentence["text"], set()).add(sentence["label"])
    assert labels["nobody expected that"] == {"food", "place", "room", "staff"}
    assert labels["breakfast began at seven"] == {"food"}


@pytest.mark.parametrize("net", ["bilstm", "conv"])
def test_sentences_are_encoded_each_by_itself(net: str) -> None:
    torch.manual_seed(1)
    block = SentenceEncoder(1, 4, net=net, hidden_dim=3)  # type: ignore[arg-type]
    words = torch.randn(1, 5, 4)
    both = torch.tensor([[[2.0], [3.0]]])
    mask, inside = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 5, dtype=torch.bool)
    found = block(both, mask, words, inside)
    for number, (start, end) in enumerate([(0, 2), (2, 5)]):
        own, real = words[:, start:end], torch.ones(1, end - start, dtype=torch.bool)
        torch.testing.assert_close(found[:, number], pool_max(block.net(own, real), real))


def test_metrics_count_sentences() -> None:
    target = [["a", "b", "b"], ["b"]]
    prediction = [["a", "b", "a"], ["b"]]
    run = Predictions(["a", "b"], target, prediction)
    # of a: precision 1/2, recall 1; of b: precision 1, recall 2/3
    expected = {"accuracy": 75.0, "macro_f1": 100 * (2 / 3 + 4 / 5) / 2, "f1@b": 80.0}
    assert measure("document", [*expected], run) == pytest.approx(expected)
    found = _choose_summands(DOCUMENT)["accuracy"]
    assert found.combine(np.array(found.list_summands(run)).sum(0)) == pytest.approx(75.0)


def test_documents_of_a_file_are_lists_or_texts(tmp_path: Path) -> None:
    data = guess_data(write_documents(tmp_path / "a.jsonl"), DOCUMENT).data
    assert (data.texts, data.label, data.scheme) == (["sentences"], "labels", None)
    path = tmp_path / "b.jsonl"
    forms: list[tuple[object, object]] = [
        (["a b", "c"], ["x", "y"]),
        ([["a", "b"], ["c"]], ["x", "y"]),
        ("a b\nc", "x y"),
        (f"a b {TURN} c", f"x {TURN} y"),
    ]
    rows = ({"sentences": texts, "labels": labels} for texts, labels in forms)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for example in read_examples(path, data):
        assert (example.texts, example.extras) == ([["a", "b", "c"]], {SENTENCES: [2, 1]})
        assert example.targets == {TAGS: ["x", "y"]}
    path.write_text(json.dumps({"sentences": [[], ["a"]], "labels": ["x", "y"]}) + "\n")
    (example,) = read_examples(path, data)
    assert (example.texts, example.extras) == ([[EMPTY_TOKEN, "a"]], {SENTENCES: [1, 1]})
    for texts, labels, message in [
        (["a", "b"], ["x"], r"found 2 sentences and \['x'\] in 'labels', expected a label for"),
        ([], [], r"found \[\] in 'sentences', expected a list of sentences"),
    ]:
        path.write_text(json.dumps({"sentences": texts, "labels": labels}) + "\n")
        with pytest.raises(DataError, match=f"line 1: {message}"):
            list(read_examples(path, data))
    with pytest.raises(ValueError, match="max_tokens: found with a document"):
        DataConfig.model_validate({**data.model_dump(), "max_tokens": 5})


def test_the_kind_of_a_file_of_documents_is_guessed(tmp_path: Path) -> None:
    found = guess_kind(write_documents(tmp_path / "a.jsonl"))
    assert found[:2] == (DOCUMENT, "'labels' has a label for each sentence of 'sentences'")
    with (tmp_path / "a.csv").open("w", newline="") as file:
        rows = [("\n".join(texts), "\n".join(labels)) for texts, labels in make_documents(9)]
        csv.writer(file).writerows([("review", "about"), *rows])
    assert guess_kind(tmp_path / "a.csv").kind == DOCUMENT
    data = guess_data(tmp_path / "a.csv", DOCUMENT).data
    assert (data.texts, data.label) == (["review"], "about")
    tokens = {"tokens": ["a", "b"], "labels": ["O", "B-X"]}
    (tmp_path / "b.jsonl").write_text(json.dumps(tokens) + "\n")
    assert guess_kind(tmp_path / "b.jsonl").kind.name == "tagging"


def test_only_a_model_that_reads_sentences_serves_documents() -> None:
    assert read_plan(Path("zoo/dialogue/sample_sentences_crf.json")).kinds == ["document"]
    assert "document" not in read_plan(Path("zoo/sample/ner_bilstm_crf.json")).kinds


def test_a_document_needs_a_layer_over_its_sentences(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_documents(place / "a.jsonl", 4)
    main(["new", "document", "--train", "a.jsonl", "-o", "m.json"])
    model = json.loads((place / "m.json").read_text())
    model["heads"]["tags"]["inputs"] = ["drop"]
    model["layers"] = model["layers"][:2]
    del model["inputs"]["sizes"]
    (place / "m.json").write_text(json.dumps(model))
    said = fail(capsys, "train", "m.json", "--train", "a.jsonl", "-o", "out")
    assert "found a layer over tokens, expected one over sentences" in said


@pytest.mark.slow
def test_sentences_are_learnt_from_their_neighbours_and_served(place: Path) -> None:
    path = write_documents(place / "a.jsonl")
    assert learn("document", path, *TINY)["accuracy"] == 100
    rows = read_rows(place / "p.jsonl")
    assert all(row["prediction"] == row["labels"] for row in rows)
    main(["test", "out", "--data", "a.jsonl", "--json"])
    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    timed = ["--against", "out", "--data", "a.jsonl", "--sentences", "1", "--batches", "1"]
    main(["bench", "bundle", *timed])
    bundle, predictor = (
        load(place / "bundle", sizes=[4, 16]),
        Predictor(TrainedModel.open(place / "out")),
    )
    sentences, labels = make_documents(2)[1]
    tokens = [text.split() for text in sentences]
    found = bundle.predict([sentences, tokens, {"sentences": "\n".join(sentences)}])
    assert [item["tags"] for item in found] == [labels] * 3
    assert found[0]["sentences"] == sentences
    given = [sentences, "\n".join(sentences), sentences[:1]]
    asked = predictor.predict(given)
    assert [item.prediction for item in asked] == [labels, labels, labels[:1]]
    assert asked[0].confidence == pytest.approx(found[0]["confidence"], abs=1e-4)
    with pytest.raises(ConfigError, match="input 1: found no sentence"):
        predictor.predict([[]])
    with pytest.raises(BundleError, match="example 1"):
        bundle.predict([{"text": "a"}])
    with pytest.raises(BundleError, match="expected a list of sentences"):
        bundle.predict([{"sentences": [[1.0]]}])  # type: ignore[dict-item]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bundle.predict(["a\n" * 1000])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 500 * 1024, "KiB; not the square of the document"
