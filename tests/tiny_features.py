"""Tasks with features of tokens: their preprocessing, a cell on one, and its training."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nlp_core.config.dataset import DatasetConfig
from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.data.preprocess import preprocess_source
from nlp_core.models.saving import load_model
from nlp_core.prediction.split_prediction import predict, score_predictions
from nlp_core.report.cell import CellTask, read_predictions
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from tests.tiny import make_recipe, write_vectors
from tests.tiny_source import build, put

TAGGING: dict[str, Any] = {
    "kind": "tagging",
    "reader": {
        "name": "conll",
        "columns": 4,
        "scheme": "BIO",
        "docstart": "drop",
        "features": {"chunk": 2, "pos": 1},
    },
    "tokens": "spaces",
    "labels": ["Q"],
    "scheme": "BIO",
    "metrics": ["f1"],
    "splits": {
        "train": {"file": "train.txt", "rows": 40},
        "dev": {"file": "test.txt", "rows": 20},
        "test": {"file": "test.txt", "rows": 20},
    },
    "select_split": "dev",
    "report_split": "test",
}
TEXT: dict[str, Any] = {
    "kind": "classification",
    "reader": {"name": "tsv", "texts": ["text"], "label": "label"},
    "tokens": "spaces",
    "labels": ["no", "yes"],
    "metrics": ["accuracy"],
    "splits": {
        "train": {"file": "train.tsv", "rows": 60},
        "dev": {"file": "test.tsv", "rows": 30},
        "test": {"file": "test.tsv", "rows": 30},
    },
    "select_split": "dev",
    "report_split": "test",
}


def change(task: dict[str, Any], **reader: object) -> dict[str, Any]:
    """Return a copy of a task with other options of its reader."""
    task = deepcopy(task)
    task["reader"].update(reader)
    return task


def preprocess(root: Path, task: dict[str, Any], files: dict[str, str]) -> Path:
    """Write a task's files, preprocess them as data/processed/d and return the folder."""
    put(root / "data", files)
    dataset: DatasetConfig = build({"task": task}, sorted(files))
    preprocess_source("d", dataset, root / "data")
    return root / "data/processed/d"


def make_cell(root: Path, graph: dict[str, Any], **recipe: object) -> Cell:
    """Write a model file and return the cell that trains it on data/processed/d."""
    (root / "zoo").mkdir(exist_ok=True)
    (root / "zoo/model.json").write_text(json.dumps({"description": "d", "source": "s", **graph}))
    if not (root / "data/processed/tiny_vectors").exists():
        write_vectors(root)
    experiment = ExperimentConfig(
        table="sample",
        model="zoo/model.json",
        data="d",
        init="data/processed/tiny_vectors",
        recipe="short",
        seeds=[1],
    )
    options: dict[str, object] = {"epochs": 6, "optimizer": {"name": "adam", "lr": 0.03}}
    params = Params(
        numerics=1,
        tasks=["d", "tiny_vectors"],
        tables=["sample"],
        recipes={"short": make_recipe(**(options | recipe))},
        experiments={"tiny": experiment},
    )
    return read_cell("tiny", params)


def train(cell: Cell) -> dict[str, float]:
    """Train a cell, check that the saved model predicts the same, return its test metrics.

    Files that layers name are out of reach when the model is read back.
    """
    folder = train_cell(cell)
    files = {path: path.read_bytes() for path in cell.plan.files}
    for path in files:
        path.unlink()
    kinds = {None: cell.task.kind}
    model, featurizers = load_model(folder / "seed-1", cell.plan, kinds=kinds, init=cell.init)
    split = featurizers[None].encode(cell.task.read_split("test"))
    found = predict(model, split, cell.task.targets)
    for path, content in files.items():
        path.write_bytes(content)
    note = json.loads((folder / "cell.json").read_text())["tasks"]["d"]
    path = folder / "seed-1/predictions/d.parquet"
    written = {
        item.split: item.predictions
        for item in read_predictions(path, CellTask(**note), "finetune@tiny")
    }
    assert list(written["test"].prediction) == found.prediction
    return score_predictions(cell.task, found)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
