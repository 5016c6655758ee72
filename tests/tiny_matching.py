"""A grid of a teacher and a student that learns its hidden states and its attention."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nlp_core.config.params import Params
from nlp_core.files import write_json
from tests.tiny import make_recipe, write_task
from tests.tiny_encoder import write_encoder
from tests.tiny_teaching import KL, make_grid
from tests.tiny_training import layer, model

MATCHING: dict[str, Any] = {"layer": "encoder", "hidden": {0: 0, 1: 2}, "attention": {1: 1}}
SMALL: dict[str, Any] = {"max_length": 8, "stride": 2}


def make_model(kind: str, **options: Any) -> dict[str, Any]:
    """Return a model of one encoder: of whole texts, or of tokens in several windows."""
    if kind == "tagging":
        layers = [layer("encoder", "pretrained_encoder", "words", **{"dim": 8, **SMALL, **options})]
        return model({"words": "tokens.pieces"}, layers, "tagging")
    layers = [
        layer("encoder", "pretrained_encoder", "texts", **{"dim": 8, "max_length": 16, **options}),
        layer("top", "pooling", "encoder", pool="first"),
        layer("drop", "dropout", "top", p=0.2),
    ]
    return model({"texts": "texts"}, layers, "classification")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a tiny encoder and one task; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path)
    yield tmp_path
    torch.set_deterministic_debug_mode("default")


def make_params(
    kind: str = "classification",
    *,
    matching: dict[str, Any] | None = MATCHING,
    student: dict[str, Any] | None = None,
    teacher: dict[str, Any] | None = None,
    teachers: dict[str, dict[str, Any]] | None = None,
    seeds: tuple[int, ...] = (1,),
    **recipe: object,
) -> Params:
    """Return a grid of a teacher of two layers and a student of the first of them.

    Args:
        kind: of the task.
        matching: of the student's recipe.
        student: the student's model file.
        teacher: the teacher's model file.
        teachers: changes to entries of the one teacher's, by name.
        seeds: that the teacher is trained with.
        recipe: changes to both recipes.
    """
    data = f"tiny_{kind}"
    if not Path("data/processed", data).exists():
        write_task(Path(), kind)
    files = {
        "old": teacher or make_model(kind),
        "young": student or make_model(kind, num_layers=1, dropout=0.1),
    }
    for name, graph in files.items():
        write_json(Path(f"zoo/{name}.json"), {"description": name, "source": "a test", **graph})
    alone = make_recipe(**{"epochs": 1, **recipe}).model_dump(mode="json")
    taught = {**alone, "distillation": KL | {"matching": matching}}
    return make_grid(
        data,
        "tiny_encoder",
        models=("old", "young"),
        recipes={"alone": alone, "taught": taught},
        teachers=teachers,
        seeds=seeds,
    )


def plain(params: Params) -> Any:
    """Return a grid as YAML holds it, the layers' numbers as numbers."""
    return params.model_dump(mode="python", exclude_none=True)
