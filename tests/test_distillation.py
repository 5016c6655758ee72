"""Teachers, their soft labels and students: what is stored, what is refused, what is learnt."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from nlp_core.config.params import Params
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, write_json
from nlp_core.training.cell import Cell, prepare_tasks, read_cell, train_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.teaching import read_teacher, teach
from tests.test_training import MODELS, KilledError, digests, layer, model
from tests.tiny import make_recipe, write_task, write_vectors

KL = {"name": "kl", "temperature": 2.0, "weight": 0.5}
JOINT = model(
    {"words": "tokens"},
    [
        layer("word", "word_embedding", "words", dim=8, vectors="8d"),
        layer("lstm", "bilstm", "word", hidden_dim=6),
        layer("top", "pooling", "lstm", pool="max"),
    ],
    "classification",
)
JOINT["heads"] = {
    "label": {"head": "classification", "inputs": ["top"]},
    "tags": {"head": "tagging", "inputs": ["lstm"]},
}
SOFTMAX = {**MODELS["tagging"], "heads": {"out": {"head": "tagging", "inputs": ["lstm"]}}}
PAIRWISE = {**MODELS["ranking"], "heads": {"out": {"head": "pairwise_ranking", "inputs": ["pair"]}}}
GRAPHS = {**MODELS, "intent_slots": JOINT, "softmax": SOFTMAX, "pairwise": PAIRWISE}
KINDS = {"softmax": "tagging", "pairwise": "ranking"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with word vectors and no task; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    (tmp_path / "zoo").mkdir()
    for name, graph in GRAPHS.items():
        write_json(
            tmp_path / f"zoo/{name}.json", {"description": name, "source": "a test", **graph}
        )
    return tmp_path


def make_params(
    kind: str,
    *,
    teacher: str | None = None,
    distillation: dict[str, Any] | None = None,
    teachers: dict[str, dict[str, Any]] | None = None,
    **recipe: object,
) -> Params:
    """Return a grid of a teacher and a student of one kind of task, which is made where missing.

    Args:
        kind: the student's model, and where it is one the kind.
        teacher: the teacher's model; None: the student's.
        distillation: of the student's recipe.
        teachers: changes to entries of the one teacher's, by name.
        recipe: changes to both recipes.
    """
    data = f"tiny_{KINDS.get(kind, kind)}"
    if not Path("data/processed", data).exists():
        write_task(Path(), KINDS.get(kind, kind))
    cell = {"data": data, "init": "data/processed/tiny_vectors", "table": "sample"}
    base = {"cell": "artifacts/finetune/sample/old", "seeds": [1], "data": data, "set": "tiny"}
    alone = make_recipe(**recipe).model_dump(mode="json")
    return Params.model_validate(
        {
            "numerics": 1,
            "sources": ["tiny_vectors", data],
            "tasks": ["tiny_vectors", data],
            "tables": ["other"],
            "distilled_tables": {"sample": {"metrics": ["auc"]}},
            "recipes": {"alone": alone, "taught": {**alone, "distillation": distillation or KL}},
            "experiments": {
                "old": {
                    **cell,
                    "model": f"zoo/{teacher or kind}.json",
                    "recipe": "alone",
                    "seeds": [1, 2],
                }
            },
            "teachers": {
                name: {**base, **changes} for name, changes in (teachers or {"one": {}}).items()
            },
            "distillations": {
                "young": {
                    **cell,
                    "model": f"zoo/{kind}.json",
                    "recipe": "taught",
                    "seeds": [1],
                    "soft_labels": "artifacts/soft_labels/tiny",
                }
            },
        }
    )


def ask(params: Params) -> Cell:
    """Train the teacher, store what it says, and return the student."""
    train_cell(read_cell("old", params))
    for name in params.teachers:
        teach(read_teacher(name, params))
    return read_cell("young", params)


@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_student_of_every_kind_trains_beside_its_teacher(project: Path, kind: str) -> None:
    params = make_params(kind, distillation={"name": "kl", "temperature": 1.0, "weight": 1.0})
    folder = train_cell(ask(params))
    assert folder == Path("artifacts/distill/sample/young")
    history = (folder / "seed-1/history.jsonl").read_text().splitlines()
    losses = [event["loss"] for event in map(json.loads, history) if event["event"] == "train"]
    assert 0 < losses[-1] < losses[0]
