"""A grid of a teacher and a student on one task, for the tests of distillation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nlp_core.config.params import Params
from nlp_core.data.soft_labels import SoftLabels, read_soft_labels
from nlp_core.files import write_json
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.teaching import read_teacher, teach
from tests.tiny import make_recipe, write_task, write_vectors
from tests.tiny_training import MODELS, layer, model

KL: dict[str, Any] = {"name": "kl", "temperature": 2.0, "weight": 0.5}
DATA = "tiny_classification"
SMART = {
    "name": "smart",
    "weight": 1.0,
    "steps": 1,
    "step_size": 0.01,
    "noise_std": 0.01,
    "epsilon": 0.02,
    "norm": "inf",
    "level": "token",
    "divergence": "symmetric_kl",
    "proximal": {"weight": 1.0, "early_momentum": 0.9, "momentum": 0.99, "early_share": 0.1},
}
ALTERATION = {"copies": 2, "mask_prob": 0.2, "replace_prob": 0.2, "cut_prob": 0.2, "seed": 1}
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


def make_grid(
    data: str,
    init: str,
    *,
    models: tuple[str, str],
    recipes: Mapping[str, Mapping[str, Any]],
    teachers: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: Sequence[int] = (1,),
) -> Params:
    """Return a grid of the cell `old`, which teaches, and of the student `young`.

    Args:
        data: the task.
        init: vectors or an encoder, under data/processed.
        models: of the teacher and the student, as they are called below zoo/.
        teachers: changes to entries of the one teacher's, by the name of the task that it makes of
            the one before; the student learns the last.
        seeds: that the teacher is trained with.
        recipes: `alone` of the teacher, `taught` of the student.
    """
    cell = {"init": f"data/processed/{init}", "table": "sample"}
    old, young = (f"zoo/{model}.json" for model in models)
    taught: dict[str, dict[str, Any]] = {}
    before = data
    for name, changes in ({"one": {}} if teachers is None else teachers).items():
        teacher = {"cell": "artifacts/cells/sample/old", "seeds": [1], "data": before}
        taught[name], before = {**teacher, **changes}, name
    return Params.model_validate(
        {
            "numerics": 1,
            "tasks": [init, data],
            "tables": ["sample"],
            "metrics": {"sample": ["auc"]},
            "recipes": recipes,
            "taught": taught,
            "experiments": {
                "old": {
                    **cell,
                    "data": data,
                    "model": old,
                    "recipe": "alone",
                    "seeds": list(seeds),
                },
                "young": {**cell, "data": before, "model": young, "recipe": "taught", "seeds": [1]},
            },
        }
    )


def ask(params: Params) -> Cell:
    """Train the teacher, write what it teaches, and return the student."""
    train_cell(read_cell("old", params))
    for name in params.taught:
        teach(read_teacher(name, params))
    return read_cell("young", params)


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
    seeds: tuple[int, ...] = (1,),
    **recipe: object,
) -> Params:
    """Return a grid of a teacher and a student of one kind of task, which is made where missing.

    Args:
        kind: the student's model, and where it is one the kind.
        teacher: the teacher's model; None: the student's.
        distillation: of the student's recipe.
        teachers: changes to entries of the one teacher's, by name.
        seeds: that the teacher is trained with.
        recipe: changes to both recipes.
    """
    data = f"tiny_{KINDS.get(kind, kind)}"
    if not Path("data/processed", data).exists():
        write_task(Path(), KINDS.get(kind, kind))
    alone = make_recipe(**recipe).model_dump(mode="json")
    return make_grid(
        data,
        "tiny_vectors",
        models=(teacher or kind, kind),
        recipes={"alone": alone, "taught": {**alone, "distillation": distillation or KL}},
        teachers=teachers,
        seeds=seeds,
    )


def read_soft(cell: Cell) -> SoftLabels:
    """Return what a student's one task has of soft labels."""
    soft = read_soft_labels(cell.task.folder)
    assert soft is not None
    return soft
