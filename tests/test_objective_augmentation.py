"""Cut-off, mixup and altered copies: what a step trains on, and what cannot be trained so."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from nlp_core.config.augmentation import CutoffConfig, MixupConfig
from nlp_core.errors import ConfigError
from nlp_core.objectives.augmentation import Cutoff, Mixup
from nlp_core.objectives.objective import Noise
from nlp_core.training.run import prepare_tasks
from tests.test_grouped_training import use
from tests.tiny import make_recipe
from tests.tiny_training import (
    check_resume,
    find_train,
    make_cell,
    make_trainer,
    project,
    take_step,
)

__all__ = ["project"]

METHODS: dict[str, dict[str, object]] = {
    "cutoff": {"name": "cutoff", "share": 0.3, "weight": 1.0},
    "mixup": {"name": "mixup", "alpha": 1.0},
    "eda": {"name": "eda", "copies": 1, "swap_prob": 0.3, "delete_prob": 0.1},
}
ROWS = np.arange(8)


@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_ends_as_an_undisturbed_one(project: Path, name: str) -> None:
    cell = make_cell(project, "classification", augmentation=METHODS[name], epochs=2)
    check_resume(partial(make_trainer, cell), project, killed_at=7 if name != "eda" else 15)
    assert cell.key != make_cell(project, "classification", epochs=2).key


def test_altered_copies_are_trained_on_and_measured_nowhere(project: Path) -> None:
    cell = make_cell(project, "classification", augmentation=METHODS["eda"])
    _, _, (task,) = prepare_tasks(cell, 1)
    assert 48 < len(task.train.split) <= 96
    assert {len(task.splits[name].split) for name in ("dev", "test")} == {20}
    assert len(task.train.targets["label"][np.arange(60)]) == 60


@pytest.mark.parametrize("kind", ["classification", "tagging", "ranking"])
def test_cutoff_adds_the_loss_without_some_vectors(project: Path, kind: str) -> None:
    trainer = make_trainer(make_cell(project, kind), project / "c")
    model = next(iter(trainer.tasks.values())).trained_model
    batch = find_train(trainer).batch(ROWS)
    model.eval()
    plain = float(model.loss(batch).detach())
    config = CutoffConfig(name="cutoff", share=0.5, weight=2.0)
    objective = Cutoff(model, Noise(1), config)
    seen: list[torch.Tensor] = []
    cut = objective._cut

    def watch(call: int, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        seen.append(cut(call, vectors, mask))
        return seen[-1]

    objective._cut = watch  # type: ignore[method-assign]
    value = objective.backward(batch, 0)
    assert value > plain
    gone = torch.cat([(item == 0).all(-1).flatten() for item in seen]).float().mean()
    assert 0.3 < float(gone) < 0.8


def test_mixup_mixes_vectors_and_losses_by_the_same_share(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(make_cell(project, "classification"), project / "c")
    model = next(iter(trainer.tasks.values())).trained_model
    batch = find_train(trainer).batch(ROWS)
    model.eval()
    read: list[torch.Tensor] = []
    head = next(iter(model.heads.values()))
    head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].detach()))
    scores = model(batch)
    losses = [float(model.sum_losses(scores, batch).detach())]
    mixup = Mixup(model, Noise(1), MixupConfig(name="mixup", alpha=0.0001))
    value = mixup.backward(batch, 0)
    # with alpha near 0 one example is all of the mixture
    own, order = read[0], [row.tolist() for row in read[0]]
    assert sorted(row.tolist() for row in own) == sorted(order)
    assert value == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize("kind", ["tagging", "ranking"])
def test_mixup_needs_one_vector_of_an_example(project: Path, kind: str) -> None:
    if kind == "ranking":
        use(project, "margin")
    cell = make_cell(project, kind, augmentation=METHODS["mixup"])
    with pytest.raises(ConfigError, match=r"head 'out': found one that reads tokens.*take cutoff"):
        make_trainer(cell, project / "c")


def test_what_changes_a_step_comes_alone() -> None:
    fgm = {"name": "fgm", "weight": 1.0, "epsilon": 1.0, "level": "sentence"}
    for name in ("cutoff", "mixup"):
        with pytest.raises(ValidationError, match=f"adversarial with the augmentation {name}"):
            make_recipe(adversarial=fgm, augmentation=METHODS[name])
    assert make_recipe(adversarial=fgm, augmentation=METHODS["eda"]).augmentation is not None
    distillation = {"name": "kl", "temperature": 2.0, "weight": 0.5}
    with pytest.raises(ValidationError, match="found augmentation with a distillation"):
        make_recipe(distillation=distillation, augmentation=METHODS["eda"])


@pytest.mark.parametrize("name", ["cutoff", "mixup"])
def test_two_runs_take_the_same_steps(project: Path, name: str) -> None:
    cell = make_cell(project, "classification", augmentation=METHODS[name])
    weights = []
    for run in ("a", "b"):
        trainer = make_trainer(cell, project / run)
        take_step(trainer, ROWS)
        weights.append([item.detach().clone() for item in trainer.model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))
