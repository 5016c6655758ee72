"""Small models of each kind, a project with them, and what trains and kills a run of a cell."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.files import digest_file
from nlp_core.models.batch import EncodedSplit
from nlp_core.objectives.objective import Objective
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.run import prepare_tasks
from tests.tiny import make_recipe, write_task, write_vectors


def layer(name: str, block: str, *inputs: str, **options: object) -> dict[str, object]:
    return {"name": name, "block": block, "inputs": list(inputs), **options}


def model(inputs: dict[str, str], layers: list[dict[str, object]], head: str) -> dict[str, object]:
    heads = {"out": {"head": head, "inputs": [layers[-1]["name"]]}}
    return {"inputs": inputs, "layers": layers, "heads": heads}


PAIR = {"first": "tokens_a", "second": "tokens_b"}
MODELS = {
    "classification": model(
        {"words": "tokens"},
        [
            layer("word", "word_embedding", "words", dim=8, vectors="8d"),
            layer("drop", "dropout", "word", p=0.2),
            layer("lstm", "bilstm", "drop", hidden_dim=6),
            layer("top", "pooling", "lstm", pool="max"),
        ],
        "classification",
    ),
    "multi_label": model(
        {"words": "tokens"},
        [
            layer("word", "word_embedding", "words", dim=8, vectors="8d"),
            layer("top", "pooling", "word", pool="max"),
        ],
        "multi_label",
    ),
    "tagging": model(
        {"words": "tokens", "characters": "tokens.characters"},
        [
            layer("word", "word_embedding", "words", dim=8, vectors="8d", rare_unknown_prob=0.5),
            layer("character", "char_cnn", "characters", dim=4, filters=5),
            layer("both", "concat", "word", "character"),
            layer("lstm", "bilstm", "both", hidden_dim=6),
        ],
        "crf_tagging",
    ),
    "ranking": model(
        PAIR,
        [
            layer("word", "word_embedding", "first", dim=8, vectors="8d", trainable=False),
            layer("word_b", "word", "second"),
            layer("cnn", "conv_pooling", "word", filters=6, windows=[1, 2]),
            layer("cnn_b", "cnn", "word_b"),
            layer("pair", "combination", "cnn", "cnn_b", operations=["origin", "product"]),
        ],
        "classification",
    ),
    "pair_regression": model(
        PAIR,
        [
            layer("word", "word_embedding", "first", dim=8),
            layer("word_b", "word", "second"),
            layer("mean", "pooling", "word", pool="mean"),
            layer("mean_b", "pooling", "word_b", pool="mean"),
            layer("pair", "concat", "mean", "mean_b"),
        ],
        "regression",
    ),
}
FIRST_METRIC = {
    "classification": "accuracy",
    "multi_label": "micro_f1",
    "tagging": "f1",
    "ranking": "auc",
    "pair_regression": "pearson",
}


class KilledError(Exception):
    """Stands for a kill signal in the middle of a run."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with word vectors; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    for kind, graph in MODELS.items():
        path = tmp_path / "zoo" / f"{kind}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"description": kind, "source": "a test", **graph}))
    return tmp_path


def make_cell(project: Path, kind: str, *, held_out: bool = False, **recipe: object) -> Cell:
    if not (project / "data/processed" / f"tiny_{kind}").exists():
        write_task(project, kind, held_out=held_out)
    return read_cell("tiny", make_params(kind, make_recipe(**recipe)))


def make_params(kind: str, recipe: RecipeConfig, seeds: tuple[int, ...] = (1, 2)) -> Params:
    experiment = ExperimentConfig(
        table="sample",
        model=f"zoo/{kind}.json",
        data=f"tiny_{kind}",
        init="data/processed/tiny_vectors",
        recipe="short",
        seeds=list(seeds),
    )
    return Params(
        numerics=1,
        tasks=["tiny_vectors", f"tiny_{kind}"],
        tables=["sample"],
        recipes={"short": recipe},
        experiments={"tiny": experiment},
    )


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): digest_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make_trainer(cell: Cell, checkpoint: Path) -> Trainer:
    seed_everything(7)
    model, _, tasks = prepare_tasks(cell)
    return Trainer(model, tasks, recipe=cell.recipe, seed=7, checkpoint=checkpoint)


def check_resume(start: Callable[[Path], Trainer], folder: Path, killed_at: int) -> None:
    """Fail unless a run that is killed after a step ends as an undisturbed one.

    Args:
        start: returns the run, given the path of its checkpoint.
        folder: for checkpoints.
        killed_at: the step.
    """
    whole = start(folder / "whole.safetensors").run()

    def kill(step: int) -> None:
        if step == killed_at:
            raise KilledError

    path = folder / "killed.safetensors"
    with pytest.raises(KilledError):
        start(path).run(kill)
    resumed = start(path)
    torch.rand(100)  # what another process would have drawn
    ended = resumed.run()
    assert ended.progress == whole.progress
    torch.testing.assert_close(ended.states, dict(whole.states), rtol=0, atol=0)


def find_train(trainer: Trainer) -> EncodedSplit:
    """Return the training split of the one task of a run."""
    (item,) = trainer.tasks.values()
    return item.train


def find_objective(trainer: Trainer) -> Objective:
    """Return what a step of the one task of a run trains on."""
    (objective,) = trainer.objectives.values()
    return objective


def take_step(trainer: Trainer, rows: np.ndarray) -> None:
    """Train the one task of a run on some rows."""
    (name,) = trainer.tasks
    trainer.step(name, rows)
