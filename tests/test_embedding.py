"""`reglue embed`: vectors of texts by a trained model, a cell's layers or a bare encoder."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import guess_texts
from nlp_core.data.user_task import build_user_task
from nlp_core.errors import ConfigError
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import read_plan
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.tiny_encoder import make_tokenizer, write_encoder
from tests.user_commands import fail
from tests.user_files import QUICK, SMALL, read_rows, write_pairs, write_slots, write_tsv

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["the good film", "a sad film", "great", "the bad films fine nice poor sad awful"]


@pytest.fixture
def encoder(place: Path) -> Path:
    return write_encoder(place)


def embed(source: object, *options: str, data: str = "in.txt", to: str = "out.npy") -> str:
    main(["embed", str(source), "--data", data, "-o", to, *options])
    return to


def say_states(encoder: Path, text: str) -> np.ndarray:
    """Return what transformers itself computes of one text, [pieces, D]."""
    model: Any = AutoModel.from_pretrained(encoder).eval()
    ids = make_tokenizer().encode(text).ids
    with torch.no_grad():
        states: np.ndarray = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    return states


@pytest.mark.parametrize("layer", [None, "first", "max", "encoder"])
def test_an_encoder_gives_what_transformers_computes(
    encoder: Path, layer: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_text("\n".join(TEXTS) + "\n")
    wanted = [say_states(encoder, text) for text in TEXTS]
    if layer == "encoder":
        rows = read_rows(Path(embed(encoder, "--layer", layer, to="out.jsonl")))
        assert [row["1"] for row in rows] == TEXTS
        for row, states in zip(rows, wanted, strict=True):
            np.testing.assert_allclose(row["embedding"], states, atol=1e-5)
        return
    found = np.load(embed(encoder, *(["--layer", layer] if layer else [])))
    reduce = {"first": lambda rows: rows[0], "max": lambda rows: rows.max(0)}
    pooled = [reduce.get(str(layer), lambda rows: rows.mean(0))(states) for states in wanted]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, pooled, atol=1e-5)
    assert "out.npy: 4 rows, 8 numbers each" in capsys.readouterr().out


def test_rows_of_every_form_keep_their_order_and_columns(encoder: Path, place: Path) -> None:
    rows = [{"id": idx, "text": text, "label": idx % 2} for idx, text in enumerate(TEXTS * 400)]
    (place / "in.txt").write_text("".join(f"{row['text']}\n" for row in rows))
    (place / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = "".join(f"{row['id']}\t{row['text']}\t{row['label']}\n" for row in rows)
    (place / "in.tsv").write_text(f"id\ttext\tlabel\n{lines}")
    (place / "in.csv").write_text(f"id,text,label\n{lines}".replace("\t", ","))
    (place / "one.csv").write_text("text\n" + "".join(f"{row['text']}\n" for row in rows))
    day = datetime.date(2026, 1, 2)
    pq.write_table(pa.Table.from_pylist([row | {"day": day} for row in rows]), "in.parquet")
    wanted = np.load(embed(encoder))
    assert wanted.shape == (1600, 8)
    np.testing.assert_allclose(wanted[:4], wanted[-4:], atol=1e-6)
    for name in ("in.jsonl", "in.tsv", "in.csv", "one.csv", "in.parquet"):
        found = np.load(embed(encoder, data=name, to=f"{name}.npy"))
        np.testing.assert_array_equal(found, wanted)
    said = read_rows(Path(embed(encoder, data="in.parquet", to="out.jsonl")))
    assert said[5] | {"embedding": []} == rows[5] | {"day": "2026-01-02", "embedding": []}
    np.testing.assert_allclose([row["embedding"] for row in said], wanted, rtol=1e-5)
    assert guess_texts(place / "in.txt").texts == ["1"]


def test_what_a_head_reads_is_what_it_predicts_from(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=60, header="text\tlabel")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    main(["train", "m.json", "--train", "a.tsv", "-o", "out", *QUICK[:-2], "--epochs", "2"])
    main(["predict", "out", "--data", "a.tsv", "-o", "p.tsv", "--confidence-of", "food"])
    vectors = torch.from_numpy(np.load(embed("out", data="a.tsv")))
    weights = load_file(place / "out/model.safetensors")
    (weight,) = (
        value for name, value in weights.items() if name.startswith("heads") and value.ndim == 2
    )
    (bias,) = (
        value for name, value in weights.items() if name.startswith("heads") and value.ndim == 1
    )
    chances = torch.softmax(vectors @ weight.T + bias, 1)
    place_of = Predictor(TrainedModel.open("out")).labels.index("food")
    said = [float(row["confidence_of_food"]) for row in read_rows(place / "p.tsv")]
    np.testing.assert_allclose(chances[:, place_of].numpy(), said, atol=1e-4)
    predictor = Predictor(TrainedModel.open("out"))
    texts = [row["text"] for row in read_rows(place / "a.tsv")][:7]
    for text, vector in zip(texts, predictor.embed(texts), strict=True):
        np.testing.assert_allclose(predictor.embed([text])[0], vector, atol=1e-6)
    assert predictor.embed([]) == []
    with pytest.raises(ConfigError, match="found a text, expected a list"):
        predictor.embed(texts[0])


def test_tokens_and_pairs_have_vectors_of_their_layers(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_slots(place / "s.tsv")
    main(["new", "intent_slots", "--train", "s.tsv", "-o", "s.json"])
    main(["train", "s.json", "--train", "s.tsv", "-o", "slots", *SMALL, "--epochs", "1"])
    rows = read_rows(Path(embed("slots", "--layer", "lstm", data="s.tsv", to="o.jsonl")))
    assert [np.array(row["embedding"]).shape for row in rows[:2]] == [(4, 12), (4, 12)]
    write_pairs(place / "p.jsonl", rows=40)
    main(["new", "matching", "--train", "p.jsonl", "-o", "p.json"])
    main(["train", "p.json", "--train", "p.jsonl", "-o", "pairs", *SMALL, "--epochs", "1"])
    assert len(np.load(embed("pairs", data="p.jsonl"))) == 40
    message = fail(capsys, "embed", "slots", "--data", "s.tsv", "-o", "o.npy", "--layer", "lstm")
    assert "a vector for each place of a text" in message
    assert not (place / "o.npy").exists()


def test_what_does_not_fit_is_refused_and_nothing_is_written(
    encoder: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "in.tsv").write_text("text\tembedding\nthe film\t1\ngood\t2\n")
    (place / "empty.tsv").write_text("text\tlabel\n")
    call = ["embed", str(encoder), "--data", "in.tsv", "-o"]
    assert "found a column 'embedding'" in fail(capsys, *call, "o.npy")
    assert "ends in .npy or .jsonl" in fail(capsys, *call, "o.csv")
    assert "names the file that is read" in fail(capsys, *call, "in.tsv")
    assert "--task: " in fail(capsys, *call, "o.npy", "--task", "rte")
    assert "--seed: " in fail(capsys, *call, "o.npy", "--seed", "2")
    assert "--plugin: " in fail(capsys, *call, "o.npy", "--plugin", "x.py")
    assert "Did you mean 'encoder'?" in fail(capsys, *call, "o.npy", "--layer", "encodr")
    assert "no column 'txt'" in fail(capsys, *call, "o.npy", "--set", "data.texts.0=txt")
    assert "found only a header" in fail(capsys, *call[:3], "empty.tsv", "-o", "o.npy")
    assert "no such file" in fail(capsys, *call[:3], "none.txt", "-o", "o.npy")
    assert "found no config.json" in fail(capsys, "embed", str(place), *call[2:], "o.npy")
    assert not [*place.glob("o.*"), *place.glob(".o.*")]


def test_a_grid_is_no_vector(place: Path) -> None:
    plan = read_plan(ROOT / "zoo/wikiqa/matchpyramid.json")
    data = DataConfig(kind="ranking", format="tsv", texts=["a", "b"], label="c")
    targets = {"label": ["0", "1"]}
    featurizer, task = Featurizer(plan, {}, targets), build_user_task(data, targets, "m", {})
    trained = TrainedModel(place, "m", nn.Identity(), featurizer, task, data)  # type: ignore[arg-type]
    found = Predictor(trained)
    assert found.find_layer() == "pair"
    with pytest.raises(ConfigError, match="found 'grid_conv', a layer of grids"):
        found.find_layer("grid_conv")
    choices = data.model_copy(update={"choices": ["b", "d"]})
    with pytest.raises(ConfigError, match="chooses among candidates"):
        Predictor(trained, choices).find_layer()
