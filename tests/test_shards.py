"""Shards of a batch: the same bytes for any number of processes, and the gradient of the whole."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Lock

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError
from torch import Tensor

from nlp_core.errors import ConfigError
from nlp_core.training.cell import Cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.processes import Processes
from nlp_core.training.run import prepare_tasks
from tests import test_adversarial, test_objective_augmentation
from tests.test_processes import launch
from tests.tiny import make_recipe, write_task
from tests.tiny_training import (
    MODELS,
    KilledError,
    digests,
    make_cell,
    make_params,
    make_trainer,
    project,
    take_step,
)

__all__ = ["project"]
WHOLE = np.arange(24)
METHODS = {
    **{name: {"adversarial": item} for name, item in test_adversarial.METHODS.items()},
    **{name: {"augmentation": item} for name, item in test_objective_augmentation.METHODS.items()},
}


@dataclass
class Talk:
    """What threads that stand for processes exchange; only one of them computes at a time."""

    count: int
    turn: Lock = field(default_factory=Lock)
    said: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = Barrier(self.count)

    def meet(self) -> None:
        self.turn.release()
        self.barrier.wait(timeout=20)
        self.turn.acquire()


@dataclass(frozen=True)
class Thread(Processes):
    """One of several processes, as a thread."""

    talk: Talk = field(default_factory=lambda: Talk(1))

    def gather(self, value: Tensor, memory: Tensor | None = None) -> list[Tensor]:
        self.talk.said[self.rank] = value.clone()
        self.talk.meet()
        found = [self.talk.said[rank].clone() for rank in range(self.count)]
        self.talk.meet()
        return found

    def wait(self) -> None:
        self.talk.meet()


def train(cell: Cell, count: int, checkpoint: Path, killed_at: int = 0) -> list[Trainer]:
    """Train a cell in some threads, and return the run of each."""
    talk = Talk(count)

    def run(rank: int) -> Trainer:
        with talk.turn:
            seed_everything(7)
            model, _, tasks = prepare_tasks(cell)
            processes = Thread(rank, count, talk=talk)
            trainer = Trainer(
                model, tasks, recipe=cell.recipe, seed=7, checkpoint=checkpoint, processes=processes
            )

            def kill(step: int) -> None:
                if step == killed_at:
                    raise KilledError

            trainer.run(kill)
            return trainer

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def check_same(found: Trainer, expected: Trainer) -> None:
    assert found.progress == expected.progress
    torch.testing.assert_close(found.best_states, expected.best_states, rtol=0, atol=0)
    state = found.model.state_dict()
    torch.testing.assert_close(state, expected.model.state_dict(), rtol=0, atol=0)


def normalise(root: Path, kind: str) -> None:
    """Give the convolutions of a model file batch normalisation."""
    path = root / f"zoo/{kind}.json"
    graph = json.loads(path.read_text())
    for layer in graph["layers"]:
        if layer["block"] == "conv_pooling":
            layer["batch_norm"] = True
    path.write_text(json.dumps(graph))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_every_number_of_processes_gives_the_same_bytes(project: Path, kind: str) -> None:
    normalise(project, kind)
    cell = make_cell(project, kind, shards=4, epochs=1, batch_size=45)
    (expected,) = train(cell, 1, project / "1.safetensors")
    for count in (2, 3):
        for found in train(cell, count, project / f"{count}.safetensors"):
            check_same(found, expected)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_method_draws_the_same_numbers_in_every_process(project: Path, method: str) -> None:
    cell = make_cell(
        project, "classification", shards=3, epochs=1, batch_size=24, **METHODS[method]
    )
    (expected,) = train(cell, 1, project / "1.safetensors")
    for found in train(cell, 2, project / "2.safetensors"):
        check_same(found, expected)


def test_a_run_resumes_with_another_number_of_processes(project: Path) -> None:
    cell = make_cell(project, "classification", shards=4, epochs=2)
    (expected,) = train(cell, 1, project / "whole.safetensors")
    path = project / "killed.safetensors"
    with pytest.raises(KilledError):
        train(cell, 2, path, killed_at=8)
    (found,) = train(cell, 1, path)
    check_same(found, expected)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_shards_add_up_to_the_whole(project: Path, kind: str) -> None:
    path = project / f"zoo/{kind}.json"
    path.write_text(path.read_text().replace('"p": 0.2', '"p": 0.0').replace("0.5", "0.0"))
    gradients, losses = [], []
    for shards in (None, 4):
        trainer = make_trainer(make_cell(project, kind, shards=shards, clip_norm=None), project)
        take_step(trainer, WHOLE)
        named = trainer.model.named_parameters()
        gradients.append({name: item.grad for name, item in named if item.grad is not None})
        losses.append(trainer.progress.losses[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)  # float32 sums
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_statistics_move_by_the_mean_of_the_shards(project: Path) -> None:
    normalise(project, "ranking")
    cell = make_cell(project, "ranking", shards=2)
    trainer = make_trainer(cell, project)
    take_step(trainer, WHOLE)
    moved = []
    for rows in np.array_split(WHOLE, 2):
        part = make_trainer(cell, project)
        (item,) = part.tasks.values()
        part.model.train()
        part.model.loss(item.train.batch(rows))
        moved.append(statistics(part))
    for name, found in statistics(trainer).items():
        expected = (moved[0][name] + moved[1][name]) / 2
        torch.testing.assert_close(found.float(), expected.float())


def statistics(trainer: Trainer) -> Mapping[str, Tensor]:
    found = {k: v for k, v in trainer.model.state_dict().items() if "running" in k or "num" in k}
    assert found
    return found


def test_shards_change_the_key_of_a_cell_only_if_given(project: Path) -> None:
    plain = make_cell(project, "classification")
    assert "shards" not in plain.recipe.describe()
    assert make_cell(project, "classification", shards=2).key != plain.key


def test_a_process_without_a_shard_is_an_error(project: Path) -> None:
    cell = make_cell(project, "classification", shards=2)
    model, _, tasks = prepare_tasks(cell)
    with pytest.raises(ConfigError, match="found 2 shards and 3 processes"):
        Trainer(
            *(model, tasks),
            recipe=cell.recipe,
            seed=1,
            checkpoint=project,
            processes=Processes(0, 3),
        )


def test_shards_and_accumulate_are_an_error() -> None:
    with pytest.raises(ValidationError, match="found shards: 2 with accumulate: 3"):
        make_recipe(shards=2, accumulate=3)


@pytest.mark.slow
def test_real_processes_write_the_same_files(project: Path) -> None:
    write_task(project, "tagging")
    params = make_params("tagging", make_recipe(batch_size=10, shards=4), seeds=(1,))
    (project / "params.yaml").write_text(yaml.safe_dump(params.model_dump(mode="json")))
    found = []
    for number in (1, 2, 4):
        launch(project, number)
        found.append(digests(project / "artifacts/cells"))
        (project / "artifacts").rename(project / f"by-{number}")
    assert found[0]
    assert found[1] == found[0]
    assert found[2] == found[0]
