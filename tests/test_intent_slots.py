"""Intent and slots in one model: two heads, two targets, one measure of the whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError
from nlp_core.kinds import INTENT_SLOTS
from nlp_core.metrics import Predictions, measure
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.models.plan import read_plan
from nlp_core.models.saving import load_model
from nlp_core.prediction.split_prediction import predict
from nlp_core.report.cell import CellTask, read_predictions
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from tests.tiny import make_recipe, write_task, write_vectors

GRAPH: dict[str, Any] = {
    "description": "joint",
    "source": "a test",
    "inputs": {"words": "tokens"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 8, "vectors": "8d"},
        {"name": "lstm", "block": "bilstm", "inputs": ["word"], "hidden_dim": 6},
        {"name": "whole", "block": "pooling", "inputs": ["lstm"]},
    ],
    "heads": {
        "intent": {"head": "classification", "inputs": ["whole"]},
        "slots": {"head": "crf_tagging", "inputs": ["lstm"]},
    },
}
METRICS = ["frame_accuracy", "intent_accuracy", "slot_f1"]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with word vectors and a joint task; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    write_task(tmp_path, "intent_slots")
    return tmp_path


def write_graph(change: Change = lambda graph: None) -> Path:
    graph: dict[str, Any] = json.loads(json.dumps(GRAPH))
    change(graph)
    path = Path("zoo/joint.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(graph))
    return path


def make_params(**recipe: object) -> Params:
    experiment = ExperimentConfig(
        table="sample",
        model="zoo/joint.json",
        data="tiny_intent_slots",
        init="data/processed/tiny_vectors",
        recipe="short",
        seeds=[1],
    )
    names = ["tiny_vectors", "tiny_intent_slots"]
    return Params(
        numerics=1,
        tasks=names,
        tables=["sample"],
        recipes={"short": make_recipe(**recipe)},
        experiments={"tiny": experiment},
    )


def build(change: Change = lambda graph: None, kind: str = "intent_slots") -> GraphModel:
    plan = read_plan(write_graph(change))
    folder = Path(f"data/processed/tiny_{kind}")
    task = read_task(folder)
    featurizer = Featurizer.build(
        plan, task, task.read_split("train"), Path("data/processed/tiny_vectors")
    )
    torch.manual_seed(1)
    return build_model(plan, featurizer, kind=task.kind)


def use_decoder(graph: dict[str, Any]) -> None:
    graph["heads"]["slots"] = {
        "head": "encoder_decoder_tagging",
        "inputs": ["lstm"],
        "hidden_dim": 12,
        "label_dim": 4,
    }


@pytest.mark.parametrize("change", [lambda graph: None, use_decoder], ids=["crf", "decoder"])
def test_cell_learns_both_targets_and_its_file_is_measured(project: Path, change: Change) -> None:
    write_graph(change)
    recipe = {"epochs": 20, "optimizer": {"name": "adam", "lr": 0.03}}
    cell = read_cell("tiny", make_params(**recipe))
    folder = train_cell(cell)
    note = json.loads((folder / "cell.json").read_text())["tasks"]["tiny_intent_slots"]
    path = folder / "seed-1/predictions/tiny_intent_slots.parquet"
    found = {
        item.split: item.predictions
        for item in read_predictions(path, CellTask(**note), "finetune@tiny")
    }
    scores = measure("intent_slots", METRICS, found["test"])
    assert scores["intent_accuracy"] > 80
    assert scores["slot_f1"] > 80
    assert scores["frame_accuracy"] <= scores["intent_accuracy"]
    events = [
        json.loads(line) for line in (folder / "seed-1/history.jsonl").read_text().splitlines()
    ]
    best = max(e["metrics"]["frame_accuracy"] for e in events if e["event"] == "validate")
    assert measure("intent_slots", METRICS, found["dev"])["frame_accuracy"] == pytest.approx(best)


def test_saved_model_predicts_both_targets_as_the_trained_one(project: Path) -> None:
    write_graph()
    cell = read_cell("tiny", make_params())
    folder = train_cell(cell)
    model, featurizers = load_model(
        folder / "seed-1", cell.plan, kinds={None: INTENT_SLOTS}, init=cell.init
    )
    featurizer = featurizers[None]
    assert featurizer.targets == cell.task.targets
    found = predict(model, featurizer.encode(cell.task.read_split("test")), cell.task.targets)
    rows = pq.read_table(folder / "seed-1/predictions/tiny_intent_slots.parquet").to_pylist()
    rows = [row for row in rows if row["split"] == "test"]
    assert found.prediction == [row["prediction"] for row in rows]
    assert [row["target"] for row in rows] == cell.task.read_split("test").target
    assert all(sum(row["score"]) == pytest.approx(1.0) for row in rows)


def compute_losses(weights: dict[str, float]) -> float:
    def change(graph: dict[str, Any]) -> None:
        for name, weight in weights.items():
            graph["heads"][name]["weight"] = weight

    model = build(change).eval()
    task = read_task(Path("data/processed/tiny_intent_slots"))
    init = Path("data/processed/tiny_vectors")
    featurizer = Featurizer.build(model.plan, task, task.read_split("train"), init)
    encoded = featurizer.encode(task.read_split("dev"))
    return float(model.loss(encoded.batch(torch.arange(6).numpy())).detach())


def test_loss_is_the_weighted_sum_of_the_heads(project: Path) -> None:
    both, intent, slots = (
        compute_losses(weights) for weights in ({}, {"intent": 2.0}, {"slots": 3.0})
    )
    mixed = compute_losses({"intent": 2.0, "slots": 3.0})
    assert intent > both
    # the loss of the intent is (intent - both), that of the slots (slots - both) / 2
    assert both == pytest.approx(intent - both + (slots - both) / 2, rel=1e-5)
    assert mixed == pytest.approx(intent + slots - both, rel=1e-5)


def test_decoder_is_told_right_labels_for_the_loss_and_not_for_predictions(project: Path) -> None:
    model = build(use_decoder).eval()
    task = read_task(Path("data/processed/tiny_intent_slots"))
    init = Path("data/processed/tiny_vectors")
    split = task.read_split("dev")
    encoded = Featurizer.build(model.plan, task, task.read_split("train"), init).encode(split)
    batch = encoded.batch(torch.arange(8).numpy())
    told: list[bool] = []
    model.heads["slots"].register_forward_pre_hook(lambda _, inputs: told.append(len(inputs) == 3))
    model.loss(batch)
    model.decode(batch)
    assert told == [True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: g["heads"].pop("intent"),
            "found no head for the label of a task of kind intent",
        ),
        (
            lambda g: g["heads"].update(more={"head": "tagging", "inputs": ["lstm"]}),
            "found the heads more, slots for the tags of a task of kind intent_slots",
        ),
        (lambda g: g["heads"]["slots"].update(weight=0), "head 'slots': weight: found 0"),
        (lambda g: g["heads"]["slots"].update(weights=2.0), "weights: unknown key"),
    ],
)
def test_heads_that_do_not_fit_the_task_are_refused(
    project: Path, change: Change, message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"zoo/joint\.json: .*{message}") as caught:
        build(lambda graph: (change(graph), drop_unread(graph)))
    assert "\n" not in str(caught.value)


def drop_unread(graph: dict[str, Any]) -> None:
    """Drop layers that no head reads any more, which would be refused first."""
    read = {name for head in graph["heads"].values() for name in head["inputs"]}
    graph["layers"] = [
        item for item in graph["layers"] if item["name"] != "whole" or "whole" in read
    ]


def answers(*rows: tuple[str, str]) -> list[object]:
    return [{"label": label, "tags": tags.split()} for label, tags in rows]


def test_metrics_by_hand() -> None:
    target = answers(("ask", "O B-Q I-Q"), ("book", "B-Q O"), ("ask", "O"), ("ask", "B-Q O"))
    found = answers(("ask", "O B-Q I-Q"), ("book", "O B-Q"), ("book", "O"), ("ask", "B-Q B-Q"))
    predictions = Predictions(["ask", "book"], target, found, scheme="BIO")
    # slots: 3 right ones, 4 found, 2 hits: p = 1/2, r = 2/3
    assert measure("intent_slots", METRICS, predictions) == {
        "frame_accuracy": 25.0,
        "intent_accuracy": 75.0,
        "slot_f1": pytest.approx(100 * 2 * 2 / (3 + 4)),
    }


def test_slot_needs_its_whole_extent_and_type() -> None:
    target = answers(("ask", "B-Q I-Q O"), ("ask", "B-Q O"))
    found = answers(("ask", "B-Q O O"), ("ask", "B-R O"))
    predictions = Predictions(["ask"], target, found, scheme="BIO")
    assert measure("intent_slots", ["slot_f1"], predictions) == {"slot_f1": 0.0}
