"""A tiny T5 from a user's file to predictions and a bundle: texts, and labels that are written."""

import json
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from reglue_runtime.service.schema import Response
from tests.test_generation_files import write_requests
from tests.tiny_encoder_decoder import write_encoder_decoder
from tests.user_files import make_texts, read_rows

QUICK = ["--init", "t5", "--lr", "0.01", "--batch-size", "8"]
pytestmark = pytest.mark.slow


def train(template: str, path: Path, *options: str) -> dict[str, float]:
    """Go from a file and an encoder-decoder to a trained folder, and return its metrics."""
    main(["new", template, "--train", path.name, "-o", "m.json", "--encoder", "t5", "--force"])
    files = ["--train", path.name, "-o", "out", "--force"]
    main(["train", "m.json", *files, *QUICK, *options])
    metrics: dict[str, float] = json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]
    return metrics


def test_texts_are_learnt_predicted_and_served(place: Path) -> None:
    path = write_requests(place / "a.jsonl")
    write_encoder_decoder(place / "t5", path.read_text().splitlines())
    assert train("generation", path, "--epochs", "15")["exact_match"] > 90
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])
    rows = read_rows(place / "p.jsonl")
    assert rows[0]["prediction"] == rows[0]["target"] == "Ada : call"
    predictor = Predictor(TrainedModel.open("out"))
    sources = [row["source"] for row in rows[:9]]
    together = predictor.predict(sources)
    for source, item in zip(sources, together, strict=True):
        (alone,) = predictor.predict([source])
        assert alone.prediction == item.prediction
        assert alone.confidence == pytest.approx(item.confidence, rel=1e-4)
    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    bundle = load(place / "bundle")
    found = bundle.predict(sources)
    assert [item["text"] for item in found] == [item.prediction for item in together]
    assert found[0]["confidence"] == pytest.approx(together[0].confidence, rel=1e-3)
    assert bundle.predict(sources[:1])[0]["text"] == found[0]["text"]
    assert load(place / "bundle", sizes=[8, 16]).predict(sources[:3])[2]["text"] == found[2]["text"]
    assert Response(bundle="b", predictions=found[:1]).predictions
    small = ["--variant", "int8", "--max-drop", "50"]
    main(["export", "out", "--to", "small", "--data", "a.jsonl", *small])
    assert {path.name for path in (place / "small").glob("*.onnx")} == {"model.onnx", "text.onnx"}


@pytest.mark.parametrize("constrained", [True, False])
def test_labels_are_learnt_as_texts(place: Path, constrained: bool) -> None:
    rows = [json.dumps({"text": text, "label": label}) for text, label in make_texts(100, 0)]
    (place / "a.jsonl").write_text("\n".join(rows) + "\n")
    write_encoder_decoder(place / "t5", rows)
    choice = ["--set", f"heads.label.constrained={json.dumps(constrained)}"]
    metrics = train("classification", place / "a.jsonl", "--epochs", "12", *choice)
    assert metrics["accuracy"] > 90
    texts = [json.loads(row)["text"] for row in rows[:6]]
    trained = TrainedModel.open("out")
    own = Predictor(trained).predict([*texts, "xyz"])
    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    found = load(place / "bundle").predict([*texts, "xyz"])
    assert [item["label"] for item in found] == [item.prediction for item in own]
    assert [item["confidence"] for item in found] == pytest.approx(
        [item.confidence for item in own], rel=1e-3
    )
    # a label that is never written again is a wrong answer where anything can be written
    head = trained.model.heads["label"]
    head.spelling = [[5, 5, 1]] * len(head.spelling)  # type: ignore[union-attr, assignment]
    silent = Predictor(trained).predict(texts)
    assert all((item.prediction == "") != constrained for item in silent)
    assert Predictor(trained).measure(place / "a.jsonl")["accuracy"] < 50
