"""Adversarial training: what it adds to a loss, what it does not change, and its exact resume."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nlp_core.config.adversarial import ProximalConfig
from nlp_core.errors import ConfigError, TrainingError
from nlp_core.heads import HEADS
from nlp_core.heads.ranking import ListwiseRankingHead
from nlp_core.heads.sentence import ClassificationHead, MultiLabelHead, RegressionHead
from nlp_core.heads.span import SpanHead
from nlp_core.heads.tagging import CRFTaggingHead
from nlp_core.models.batch import Batch
from nlp_core.objectives.objective import Perturbed
from nlp_core.objectives.smoothness import Average, CleanPass, SmoothObjective
from nlp_core.training.cell import Cell
from nlp_core.training.loop import Trainer
from tests import test_span
from tests.test_grouped_training import use
from tests.tiny import make_recipe
from tests.tiny_training import (
    MODELS,
    check_resume,
    find_objective,
    find_train,
    make_cell,
    make_trainer,
    project,
    take_step,
)

__all__ = ["project"]

Values = Mapping[str, object]

PROXIMAL = {"weight": 1.0, "early_momentum": 0.99, "momentum": 0.999, "early_share": 0.1}
SMART: Values = {
    "name": "smart",
    "weight": 5.0,
    "steps": 1,
    "step_size": 0.5,
    "noise_std": 0.01,
    "epsilon": 0.5,
    "norm": "inf",
    "level": "token",
    "divergence": "symmetric_kl",
}
METHODS: dict[str, Values] = {
    "smart": SMART,
    "smart_proximal": {**SMART, "proximal": PROXIMAL},
    "vat": {
        "name": "vat",
        "weight": 1.0,
        "steps": 1,
        "probe": 0.1,
        "epsilon": 2.0,
        "level": "sentence",
    },
    "freelb": {
        "name": "freelb",
        "steps": 2,
        "step_size": 0.5,
        "epsilon": 1.0,
        "norm": "l2",
        "level": "sentence",
    },
    "fgm": {"name": "fgm", "weight": 1.0, "epsilon": 1.0, "level": "sentence"},
}
INTENT_SLOTS = {
    "inputs": {"words": "tokens"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 8},
        {"name": "lstm", "block": "bilstm", "inputs": ["word"], "hidden_dim": 6},
        {"name": "top", "block": "pooling", "inputs": ["lstm"], "pool": "max"},
    ],
    "heads": {
        "intent": {"head": "classification", "inputs": ["top"], "weight": 0.5},
        "slots": {"head": "tagging", "inputs": ["lstm"]},
    },
}
ROWS = np.arange(8)


def start(project: Path, kind: str, method: Values | None, **recipe: object) -> Trainer:
    """Return a trainer before its first step."""
    cell = make_cell(project, kind, adversarial=method, **recipe)
    trainer = make_trainer(cell, project / "x.safetensors")
    trainer.model.train()
    return trainer


def edit(project: Path, kind: str, graph: Mapping[str, object]) -> None:
    values = {"description": kind, "source": "a test", **graph}
    (project / f"zoo/{kind}.json").write_text(json.dumps(values))


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    named = trainer.model.named_parameters()
    return {name: item.grad.clone() for name, item in named if item.grad is not None}


def run_backward(trainer: Trainer, batch: Batch) -> tuple[float, dict[str, Tensor], Tensor]:
    """Return loss, gradients and the global generator afterwards; weights and it are put back."""
    state = torch.get_rng_state()
    trainer.model.zero_grad(set_to_none=True)
    loss = find_objective(trainer).backward(batch, 0)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    return loss, gradients(trainer), after


@pytest.mark.parametrize("kind", [*sorted(MODELS), "intent_slots"])
def test_nothing_perturbed_is_exactly_the_plain_loss(project: Path, kind: str) -> None:
    """With dropout too: all passes of a step have the same masks."""
    edit(project, "intent_slots", INTENT_SLOTS)
    plain = start(project, kind, None)
    batch = find_train(plain).batch(ROWS)
    loss, expected, generator = run_backward(plain, batch)
    still = [{**method, "epsilon": 0.0} for method in METHODS.values()]
    for method in [*still, {**SMART, "noise_std": 0.0}, {**SMART, "noise_std": 0.0, "steps": 3}]:
        trainer = start(project, kind, method)
        found, slopes, after = run_backward(trainer, batch)
        times = 2.0 if method["name"] == "fgm" else 1.0
        assert found == times * loss, method
        assert after.equal(generator), method
        assert slopes.keys() == expected.keys()
        for name, slope in slopes.items():
            # sums of two passes in another order: float32
            torch.testing.assert_close(slope, times * expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [*sorted(MODELS), "intent_slots"])
@pytest.mark.parametrize("method", ["smart", "vat", "fgm"])
def test_the_direction_found_is_worse_than_a_random_one(
    project: Path, kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(project, "intent_slots", INTENT_SLOTS)
    trainer = start(project, kind, METHODS[method])
    batch = find_train(trainer).batch(np.arange(48))
    found, _, _ = run_backward(trainer, batch)
    random = torch.Generator().manual_seed(5)
    ball = find_objective(trainer).ball  # type: ignore[attr-defined]
    tampered = type(ball)

    def point(self: object, gradient: Tensor, mask: Tensor, length: float) -> Perturbed:
        drawn = torch.randn(gradient.shape, generator=random).masked_fill(~mask.unsqueeze(-1), 0.0)
        return Perturbed(length * ball.direct(drawn), mask)

    def ascend(self: object, item: Perturbed, gradient: Tensor, length: float) -> Perturbed:
        return point(self, gradient, item.mask, length)

    monkeypatch.setattr(tampered, "point", point)
    monkeypatch.setattr(tampered, "ascend", ascend)
    assert found > run_backward(trainer, batch)[0]


@pytest.mark.parametrize("case", ["span", "span with none", "listwise"])
@pytest.mark.parametrize("method", ["smart", "vat"])
def test_answers_and_orders_of_candidates_are_compared(
    project: Path, case: str, method: str
) -> None:
    cell: Cell
    if case == "listwise":
        use(project, "listwise")
        cell = make_cell(project, "ranking")
    else:
        test_span.write_graph()
        cell = test_span.make_cell(unanswerable=case != "span")
    values = []
    for changes in (None, {**METHODS[method], "epsilon": 0.0}, METHODS[method]):
        recipe = make_recipe(adversarial=changes)
        trainer = make_trainer(replace(cell, recipe=recipe), project / "x")
        trainer.model.train()
        values.append(run_backward(trainer, find_train(trainer).batch(ROWS))[0])
    plain, still, moved = values
    assert still == plain
    assert moved > plain * (1 + 1e-4)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_training_is_deterministic_and_not_the_plain_one(project: Path, method: str) -> None:
    ends = []
    for values in (METHODS[method], METHODS[method], None):
        trainer = start(project, "classification", values)
        for idx in range(4):
            take_step(trainer, np.arange(8 * idx, 8 * idx + 8))
        ends.append({name: item.clone() for name, item in trainer.model.state_dict().items()})
        generator = torch.get_rng_state()
    first, again, plain = ends
    assert all(first[name].equal(again[name]) for name in plain)
    assert not any(first[name].equal(plain[name]) for name in plain if "lstm" in name)
    assert generator.equal(torch.get_rng_state())


@pytest.mark.parametrize("killed_at", [1, 7, 13])
@pytest.mark.parametrize("method", ["smart_proximal", "freelb"])
def test_a_killed_run_ends_as_an_undisturbed_one(
    project: Path, killed_at: int, method: str
) -> None:
    cell = make_cell(project, "tagging", adversarial=METHODS[method], validations_per_epoch=2)
    check_resume(partial(make_trainer, cell), project, killed_at)


def test_the_ascent_builds_no_gradients_of_weights(project: Path) -> None:
    objective = find_objective(start(project, "tagging", SMART))
    assert isinstance(objective, SmoothObjective)
    batch = find_train(start(project, "tagging", None)).batch(ROWS)
    clean: CleanPass = objective._pass_clean(batch)
    noise = [
        objective.noise.draw_normal(vectors, mask, std=0.1)
        for vectors, mask in zip(clean.vectors, clean.masks, strict=True)
    ]
    found = objective.find_gradients(batch, clean, noise)
    assert all(bool(item.any()) for item in found)
    assert all(item.grad is None for item in objective.model.parameters())
    assert all(item.requires_grad for item in objective.model.parameters())


@pytest.mark.parametrize("method", ["smart", "vat"])
def test_a_lazy_divergence_counts_twice_in_every_second_step(project: Path, method: str) -> None:
    def run(values: Values | None, step: int) -> float:
        trainer = start(project, "tagging", values)
        torch.manual_seed(3)
        return find_objective(trainer).backward(find_train(trainer).batch(ROWS), step)

    plain, always = run(None, 2), run(METHODS[method], 2)
    lazy = {**METHODS[method], "every": 2}
    assert always > plain
    assert run(lazy, 1) == plain == run(lazy, 3)
    assert run(lazy, 2) - plain == pytest.approx(2 * (always - plain), rel=1e-4)


def test_each_text_of_a_pair_has_its_own_perturbation(project: Path) -> None:
    objective = find_objective(start(project, "ranking", SMART))
    assert isinstance(objective, SmoothObjective)
    batch = find_train(start(project, "ranking", None)).batch(ROWS)
    first, second = objective.find_perturbations(batch, objective._pass_clean(batch))
    assert first.delta.shape[:2] == batch.masks["first"].shape
    assert second.delta.shape[:2] == batch.masks["second"].shape
    for item, text in ((first, "first"), (second, "second")):
        assert item.mask.equal(batch.masks[text])
        assert not item.delta[~item.mask].any()
        size = item.delta.abs().amax(-1)[item.mask]
        moved = size > 0.1  # a token that no pooling looks at stays at its noise of 0.01
        assert moved.float().mean() > 0.5
        assert (size[moved] > 0.45).all()
        assert (size <= 0.5).all()


def test_the_average_follows_the_weights_with_two_momenta(project: Path) -> None:
    model = start(project, "ranking", None).model  # whose word vectors are frozen
    config = ProximalConfig(weight=1.0, early_momentum=0.5, momentum=0.75, early_share=0.5)
    average = Average(model, config, num_steps=4)
    name = next(iter(average.weights))
    weight = dict(model.named_parameters())[name]
    first = weight.detach().clone()
    average.update(model, 0)
    assert average.weights[name].equal(first)
    with torch.no_grad():
        weight += 1.0
    for step, gap in ((1, 0.5), (2, 0.625), (3, 0.71875)):
        average.update(model, step)
        torch.testing.assert_close(average.weights[name], first + gap)
    assert "blocks.word.weight" not in average.weights
    assert average.model.get_parameter("blocks.word.weight") is model.get_parameter(
        "blocks.word.weight"
    )
    assert average.model.get_buffer("blocks.word.fixed") is model.get_buffer("blocks.word.fixed")


def test_an_average_equal_to_the_weights_says_the_same_in_spite_of_dropout(project: Path) -> None:
    trainer = start(project, "classification", None)
    batch, model = find_train(trainer).batch(ROWS), trainer.model
    state = torch.get_rng_state()
    said = model.outputs(model(batch, informed=True), batch)["out"]
    config = ProximalConfig(weight=1.0, early_momentum=0.9, momentum=0.9, early_share=0.0)
    average = Average(model, config, num_steps=4)
    found = average.outputs(batch, state)["out"]
    assert found.equal(said)
    assert not found.requires_grad
    assert not said.equal(model.outputs(model(batch, informed=True), batch)["out"])


def test_every_head_but_those_that_score_a_text_can_be_compared() -> None:
    heads = {name: HEADS.get(name) for name in HEADS.names()}
    scoring = {"language_model", "retrieval", "rnng", "seq2seq", "seq2seq_parsing"}
    scoring |= {"nonautoregressive_parsing", "pretrained_decoder", "label_text"}
    assert {name for name, head in heads.items() if not head.comparable} == scoring
    assert all(hasattr(head, "outputs") == head.comparable for head in heads.values())


def test_outputs_leave_padding_and_other_questions_out() -> None:
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    scores = torch.arange(12.0).view(3, 2, 2)
    assert CRFTaggingHead(4, 2).outputs(scores, mask).equal(scores.view(6, 2)[:3])
    span = SpanHead(4, 4, 1).outputs(scores, mask).softmax(-1)
    assert span.shape == (4, 2)
    assert span[2:].tolist() == [[1.0, 0.0], [1.0, 0.0]]
    silent = SpanHead(4, 4, 2).outputs(torch.zeros(3, 3, 2), mask).softmax(-1)
    assert silent[4:].tolist() == [[1.0, 0.0, 0.0]] * 2
    group = torch.tensor([7, 3, 7])
    ranked = ListwiseRankingHead(4, 2).outputs(torch.tensor([1.0, 2.0, 1.0]), group).softmax(-1)
    assert ranked.tolist() == [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
    yes = MultiLabelHead(4, 2).outputs(torch.tensor([[0.3, -2.0]])).softmax(-1)[:, 1]
    torch.testing.assert_close(yes, torch.tensor([0.3, -2.0]).sigmoid())
    values = torch.tensor([0.5, 2.0])
    assert RegressionHead(4).outputs(values).equal(values)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_head_that_cannot_be_compared_is_refused_where_outputs_are(
    project: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClassificationHead, "comparable", False)
    if method in ("freelb", "fgm"):
        take_step(start(project, "classification", METHODS[method]), ROWS)
        return
    with pytest.raises(ConfigError, match=r"classification\.json: head 'out': .* use freelb"):
        start(project, "classification", METHODS[method])


def test_a_model_without_word_vectors_is_refused(project: Path) -> None:
    layers = [
        {"name": "character", "block": "char_cnn", "inputs": ["characters"], "dim": 4},
        {"name": "top", "block": "pooling", "inputs": ["character"], "pool": "max"},
    ]
    heads = {"out": {"head": "classification", "inputs": ["top"]}}
    inputs = {"characters": "tokens.characters"}
    edit(project, "classification", {"inputs": inputs, "layers": layers, "heads": heads})
    with pytest.raises(ConfigError, match=r"found no word vectors .*CharCNN, Pooling.* fgm"):
        start(project, "classification", METHODS["fgm"])


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_loss_that_is_not_finite_stops_the_run(project: Path, method: str) -> None:
    optimizer = {"name": "sgd", "lr": 1e30}
    trainer = start(project, "pair_regression", METHODS[method], optimizer=optimizer)
    with pytest.raises(TrainingError, match="tiny_pair_regression: found a loss of"):
        trainer.run()
