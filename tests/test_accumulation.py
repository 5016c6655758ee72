"""The batch of a step in parts: the same update as that of the whole batch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nlp_core.models.batch import Batch
from nlp_core.training.loop import Trainer
from tests.test_adversarial import METHODS
from tests.test_grouped_training import HEADS, use
from tests.tiny_training import (
    MODELS,
    KilledError,
    find_train,
    make_cell,
    make_trainer,
    project,
    take_step,
)

__all__ = ["project"]
WHOLE = np.arange(24)


def set_heads(root: Path, kind: str, **heads: dict[str, Any]) -> None:
    path = root / f"zoo/{kind}.json"
    graph = json.loads(path.read_text())
    (read,) = (head["inputs"] for head in graph["heads"].values())
    graph["heads"] = {name: {"inputs": read, **head} for name, head in heads.items()}
    path.write_text(json.dumps(graph))


def take_gradients(trainer: Trainer, rows: np.ndarray) -> dict[str, Tensor]:
    take_step(trainer, rows)
    named = trainer.model.named_parameters()
    return {name: item.grad.double() for name, item in named if item.grad is not None}


def read_parts(trainer: Trainer, rows: np.ndarray) -> list[Batch]:
    (item,) = trainer.tasks.values()
    parts = item.split_rows(rows, trainer.num_parts)
    return item.trained_model.share_terms([item.train.batch(part) for part in parts])


def compare(root: Path, kind: str, rows: np.ndarray = WHOLE, **recipe: object) -> None:
    path = root / f"zoo/{kind}.json"
    path.write_text(path.read_text().replace('"p": 0.2', '"p": 0.0'))
    recipe = {"batch_size": len(rows), "clip_norm": None, "ema_decay": None, **recipe}
    losses, gradients = [], []
    for parts in (None, 1, 3, 5):
        trainer = make_trainer(make_cell(root, kind, accumulate=parts, **recipe), root / "x")
        gradients.append(take_gradients(trainer, rows))
        losses.append(trainer.progress.losses[0])
    for parts in (1, 2, 3):
        # float32: sums in another order
        torch.testing.assert_close(gradients[parts], gradients[0], rtol=1e-4, atol=1e-6)
        assert losses[parts] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_parts_add_up_to_the_whole(project: Path, kind: str) -> None:
    compare(project, kind)


@pytest.mark.parametrize(
    "head",
    [
        {"head": "classification", "class_weights": [0.2, 3.0]},
        {"head": "classification", "loss": {"name": "focal"}, "class_weights": [0.2, 3.0]},
    ],
)
def test_parts_of_weighted_labels(project: Path, head: dict[str, Any]) -> None:
    set_heads(project, "classification", out=head)
    compare(project, "classification")


@pytest.mark.parametrize("reduction", ["sentence", "token"])
@pytest.mark.parametrize("head", ["tagging", "crf_tagging"])
def test_parts_of_sentences_of_different_lengths(project: Path, head: str, reduction: str) -> None:
    set_heads(project, "tagging", out={"head": head, "reduction": reduction})
    compare(project, "tagging")


@pytest.mark.parametrize("head", sorted(HEADS))
def test_parts_hold_whole_questions(project: Path, head: str) -> None:
    use(project, head)
    compare(project, "ranking")
    trainer = make_trainer(make_cell(project, "ranking", accumulate=3), project / "y")
    group = find_train(trainer).split.group
    assert group is not None
    parts = read_parts(trainer, WHOLE)
    seen = [set(group[part.rows]) for part in parts]
    assert len(parts) == 3
    if head in ("margin", "listwise", "logistic"):
        assert not seen[0] & seen[1]


def test_a_part_knows_its_share_of_tokens(project: Path) -> None:
    set_heads(project, "tagging", out={"head": "tagging", "reduction": "token"})
    trainer = make_trainer(make_cell(project, "tagging", accumulate=2), project / "x")
    first, second = read_parts(trainer, WHOLE)
    tokens = [int(part.masks["words"].sum()) for part in (first, second)]
    for part, number in zip((first, second), tokens, strict=True):
        assert part.shares is not None
        assert part.shares.terms["out"] == pytest.approx(number / sum(tokens))
        assert part.shares.rows == part.shares.terms


def test_the_average_of_the_proximal_term_moves_once_a_step(project: Path) -> None:
    ends = []
    for parts in (None, 3):
        cell = make_cell(
            project, "classification", accumulate=parts, adversarial=METHODS["smart_proximal"]
        )
        trainer = make_trainer(cell, project / "x")
        take_step(trainer, WHOLE)
        objective: Any = next(iter(trainer.objectives.values()))
        ends.append(objective.average.weights)
    torch.testing.assert_close(ends[0], ends[1])


def test_more_parts_than_examples_are_as_many_as_there_are(project: Path) -> None:
    trainer = make_trainer(make_cell(project, "classification", accumulate=9), project / "x")
    assert [len(part.rows) for part in read_parts(trainer, np.arange(4))] == [1] * 4


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_sixteen_bits_train_close_to_float32(project: Path, low: str) -> None:
    ends = []
    for precision in (None, low):
        cell = make_cell(project, "pair_regression", precision=precision, clip_norm=None)
        trainer = make_trainer(cell, project / "x")
        if trainer.scaler is not None:  # the first scale is one that overflows here
            trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": 64.0})
        ends.append(take_gradients(trainer, WHOLE))
        assert all(item.dtype == torch.float32 for item in trainer.model.parameters())
    assert any(not torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    for name, expected in ends[0].items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(ends[1][name], expected, rtol=0.05, atol=0.05 * scale + 1e-6)


@pytest.mark.parametrize("method", ["smart", "vat"])
def test_sixteen_bits_find_the_perturbations_of_float32(
    project: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    for precision in (None, "bfloat16"):
        cell = make_cell(
            project, "pair_regression", precision=precision, adversarial=METHODS[method]
        )
        trainer = make_trainer(cell, project / "x")
        objective: Any = next(iter(trainer.objectives.values()))
        find = objective.find_perturbations
        monkeypatch.setattr(
            objective,
            "find_perturbations",
            lambda *a, find=find: found.append(find(*a)) or found[-1],
        )
        take_step(trainer, WHOLE)
    plain, low = (item[0] for item in found)
    assert plain.delta.any()
    assert low.delta.equal(plain.delta)


def test_an_update_that_overflows_is_left_out_and_the_next_is_not(project: Path) -> None:
    cell = make_cell(project, "pair_regression", precision="float16", clip_norm=None)
    trainer = make_trainer(cell, project / "x")
    assert trainer.scaler is not None
    trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": 1e38})
    before = {name: item.detach().clone() for name, item in trainer.model.named_parameters()}
    take_step(trainer, WHOLE)
    assert trainer.progress.step == 1
    assert all(item.equal(before[name]) for name, item in trainer.model.named_parameters())
    assert trainer.scaler.get_scale() == pytest.approx(0.5e38)
    trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": 1024.0})
    take_step(trainer, WHOLE)
    assert any(not item.equal(before[name]) for name, item in trainer.model.named_parameters())


def test_a_killed_run_in_float16_ends_as_an_undisturbed_one(project: Path) -> None:
    cell = make_cell(project, "pair_regression", precision="float16", validations_per_epoch=2)
    whole = make_trainer(cell, project / "whole.safetensors").run()

    def kill(step: int) -> None:
        if step == 7:
            raise KilledError

    path = project / "killed.safetensors"
    with pytest.raises(KilledError):
        make_trainer(cell, path).run(kill)
    ended = make_trainer(cell, path).run()
    assert ended.progress == whole.progress
    for name, value in whole.states["honest"].items():
        assert value.equal(ended.states["honest"][name]), name
