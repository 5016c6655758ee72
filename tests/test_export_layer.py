"""`reglue export --layer`: bundles that give vectors of texts, and search with them."""

import json
from pathlib import Path

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.files import digest_file
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from reglue_runtime.service.schema import Embedding
from tests.test_retrieval import PASSAGES, place, trained
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail

__all__ = ["place", "trained"]


def list_found(capsys: pytest.CaptureFixture[str], model: str, index: str) -> list[str]:
    """Return the passages of a query, with their ranks and scores."""
    capsys.readouterr()
    main(["retrieve", model, index, "which parcel ship ?", "-k", "4"])
    return capsys.readouterr().out.splitlines()


@pytest.fixture(scope="module")
def towers(trained: Path) -> list[str]:
    """Bundles of the two towers of a retrieval model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trained)
        (head,) = json.loads(Path("model.json").read_text())["heads"].values()
        query, passage = head["inputs"]
        for layer, target in ((query, "query.bundle"), (passage, "passage.bundle")):
            main(["export", "faq", "--layer", layer, "--data", "pairs.tsv", "--to", target])
    return ["query.bundle", "passage.bundle"]


def test_the_towers_search_like_the_trained_model(
    towers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    query, passage = towers
    column = ["--column", "passage"]
    main(["index", passage, "--data", "pairs.tsv", "-o", "towers.index", *column])
    assert "Next: reglue retrieve QUERY_BUNDLE towers.index" in capsys.readouterr().out
    assert list_found(capsys, query, "towers.index") == list_found(capsys, "faq", "faq.index")
    # an index knows the weights, not the form in which they were exported
    assert list_found(capsys, query, "faq.index") == list_found(capsys, "faq", "faq.index")


def test_a_tower_is_refused_in_place_of_the_other(
    towers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    query, passage = towers
    said = fail(capsys, "index", query, "--data", "pairs.tsv", "--column", "passage", "-o", "x")
    assert "query.bundle: found the bundle of queries, expected that of passages" in said
    assert not Path("x").exists()
    said = fail(capsys, "retrieve", passage, "faq.index", "which parcel ship ?")
    assert "passage.bundle: found the bundle of passages, expected that of queries" in said


def test_a_tower_reads_one_text_and_gives_a_vector_of_length_1(towers: list[str]) -> None:
    for name, column in zip(towers, ["text_a", "text_b"], strict=True):
        bundle = load(name)
        assert (bundle.kind, bundle.manifest.texts) == ("embedding", [column])
        (one,), (same,) = bundle.predict([PASSAGES[0]]), bundle.predict([{column: PASSAGES[0]}])
        assert one == same
        Embedding.model_validate(one)
        assert np.linalg.norm(one["embedding"]) == pytest.approx(1.0, abs=1e-5)
        card = (Path(name) / "README.md").read_text()
        assert "embedding model, exported by Reglue as float32" in card
        assert "--layer" in card


def test_a_layer_is_that_of_the_trained_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = str(write_encoder(tmp_path))
    texts = ["a good film", "the bad film", "good"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    files = ["--data", str(tmp_path / "texts.txt")]
    main(["embed", encoder, *files, "-o", str(tmp_path / "right.npy"), "--layer", "max"])
    target = str(tmp_path / "bundle")
    main(["export", encoder, "--layer", "max", *files, "--to", target])
    weights = load(target).manifest.heads[0]["weights"]
    assert weights == f"{digest_file(Path(encoder, 'model.safetensors'))} max"
    assert "the same vector for 3 of 3 examples" in capsys.readouterr().out
    found = [item["embedding"] for item in load(target).predict(texts)]
    np.testing.assert_allclose(found, np.load(tmp_path / "right.npy"), atol=1e-5)
    drop = ["--variant", "int8", "--max-drop", "20", "--force"]
    main(["export", encoder, "--layer", "max", *files, "--to", target, *drop])
    assert "int8, a mean cosine of" in capsys.readouterr().out


def test_vectors_that_differ_too_much_write_no_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = str(write_encoder(tmp_path))
    (tmp_path / "texts.txt").write_text("a good film\nthe bad film\n")
    target = tmp_path / "bundle"
    command = ["export", encoder, "--layer", "mean", "--data", str(tmp_path / "texts.txt")]
    tight = [*command, "--to", str(target), "--variant", "int8", "--max-drop", "0"]
    assert "expected 100 at least; no bundle was written" in fail(capsys, *tight)
    assert not target.exists()


def test_any_model_gives_the_vectors_that_embed_gives(towers: list[str]) -> None:
    rows = [f"{'good' if idx % 2 else 'bad'} film {idx % 5}\t{idx % 2}\n" for idx in range(20)]
    Path("reviews.tsv").write_text("text\tlabel\n" + "".join(rows))
    main(["new", "classification", "--train", "reviews.tsv", "-o", "reviews.json"])
    main(["train", "reviews.json", "--train", "reviews.tsv", "-o", "reviews", "--epochs", "1"])
    predictor = Predictor(TrainedModel.open("reviews"))
    layer = predictor.find_layer()
    files = ["--data", "reviews.tsv", "--to", "reviews.bundle"]
    main(["export", "reviews", "--layer", layer, *files])
    texts = ["good film 1", "a film that nobody saw"]
    found = [item["embedding"] for item in load("reviews.bundle").predict(texts)]
    np.testing.assert_allclose(found, np.stack(predictor.embed(texts)), atol=1e-5)
    note = json.loads(Path("reviews.bundle/bundle.json").read_text())
    assert "calibration" not in note
    assert note["heads"][0]["similarity"] == "cosine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["faq", "--layer", "nothing", "--data", "pairs.tsv"], "found 'nothing', no layer of"),
        (["faq", "--layer", "word", "--data", "pairs.tsv"], "a layer with more than one vector"),
        (["encoder", "--layer", "mean"], "--data: found none, expected a file of texts"),
        (["faq", "--data", "pairs.tsv"], "export a tower with --layer"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fail(capsys, "export", *arguments, "--to", "x")
    assert not Path("x").exists()


def test_a_bundle_without_vectors_cannot_search(
    towers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    note = json.loads(Path("query.bundle/bundle.json").read_text())
    del note["heads"][0]["weights"]
    Path("other.bundle").mkdir()
    for path in Path("query.bundle").iterdir():
        Path("other.bundle", path.name).write_bytes(path.read_bytes())
    Path("other.bundle/bundle.json").write_text(json.dumps(note))
    found = fail(capsys, "index", "other.bundle", "--data", "pairs.tsv", "-o", "x")
    Path("other.bundle/model.onnx").write_bytes(b"cut")
    broken = fail(capsys, "index", "other.bundle", "--data", "pairs.tsv", "-o", "x")
    assert "the file was changed or not copied completely" in broken
    assert "expected one of vectors, which `reglue export --layer` writes" in found
