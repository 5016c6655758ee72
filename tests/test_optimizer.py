import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.recipe import (
    ConstantSchedule,
    ExponentialSchedule,
    OptimizerConfig,
    WarmupConstantSchedule,
    WarmupCosineSchedule,
    WarmupLinearSchedule,
)
from nlp_core.training.optimizer import (
    LearningRate,
    WeightAverage,
    build_optimizer,
    set_learning_rate,
    update_weights,
)


def test_warmup_rises_to_the_peak_and_falls_to_the_end() -> None:
    schedule = WarmupLinearSchedule(name="warmup_linear", warmup=0.2)
    rates = LearningRate(schedule, 1.0, steps_per_epoch=5, epochs=2)
    found = [rates.at(step) for step in range(10)]
    assert found == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_warmup_rises_to_a_rate_that_stays() -> None:
    schedule = WarmupConstantSchedule(name="warmup_constant", warmup=0.25)
    rates = LearningRate(schedule, 1.0, steps_per_epoch=4, epochs=2)
    assert [rates.at(step) for step in range(8)] == [0.5, 1.0, *[1.0] * 6]


def test_warmup_falls_along_the_cosine_as_in_torch() -> None:
    schedule = WarmupCosineSchedule(name="warmup_cosine", warmup=0.2)
    rates = LearningRate(schedule, 0.3, steps_per_epoch=5, epochs=2)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    expected = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    assert [rates.at(0), rates.at(1)] == pytest.approx([0.15, 0.3])
    for step in range(2, 10):
        assert rates.at(step) == pytest.approx(expected.get_last_lr()[0])
        optimizer.step()
        expected.step()


def test_exponential_decays_from_its_start_epoch_to_its_floor() -> None:
    schedule = ExponentialSchedule(name="exponential", gamma=0.5, start_epoch=2, min_lr=0.2)
    rates = LearningRate(schedule, 1.0, steps_per_epoch=1, epochs=6)
    assert [rates.at(step) for step in range(6)] == [1.0, 1.0, 0.5, 0.25, 0.2, 0.2]


def test_constant_stays() -> None:
    rates = LearningRate(ConstantSchedule(name="constant"), 0.1, steps_per_epoch=3, epochs=2)
    assert {rates.at(step) for step in range(6)} == {0.1}


def test_embeddings_have_their_own_rate_and_frozen_weights_none() -> None:
    frozen = WordEmbedding(5, dim=2, trainable=False)
    model = nn.ModuleList([WordEmbedding(5, dim=2), frozen, nn.Linear(2, 2)])
    config = OptimizerConfig(name="adam", lr=0.1, embedding_lr_scale=0.2)
    optimizer = build_optimizer(config, model)
    set_learning_rate(optimizer, 0.1)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rates[id(model[0].weight)] == pytest.approx(0.02)
    assert rates[id(model[2].weight)] == pytest.approx(0.1)
    assert id(frozen.weight) not in rates


def test_average_follows_the_weights_by_hand() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 1.0)
    average = WeightAverage(layer, decay=0.9)
    nn.init.constant_(layer.weight, 2.0)
    average.update(layer, num_updates=1)  # decay min(0.9, 2 / 11)
    assert average.state["weight"].item() == pytest.approx(2 - 2 / 11)
    average.update(layer, num_updates=1000)
    assert average.state["weight"].item() == pytest.approx(2 - 0.9 * 2 / 11)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adamax", "lamb"])
def test_every_optimizer_lowers_a_quadratic(name: str) -> None:
    layer = nn.Linear(3, 1, bias=False)
    optimizer = build_optimizer(OptimizerConfig.model_validate({"name": name, "lr": 0.05}), layer)
    before = layer.weight.square().sum().item()
    for _ in range(20):
        set_learning_rate(optimizer, 0.05)
        optimizer.zero_grad()
        layer.weight.square().sum().backward()
        update_weights(optimizer)
    assert layer.weight.square().sum().item() < 0.5 * before
    assert torch.isfinite(layer.weight).all()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adamax", "lamb"])
def test_update_weights_is_the_step_of_torch(name: str) -> None:
    config = OptimizerConfig.model_validate({"name": name, "lr": 0.05, "weight_decay": 0.1})
    ours = nn.Linear(3, 2)
    theirs = copy.deepcopy(ours)
    optimizer, reference = build_optimizer(config, ours), build_optimizer(config, theirs)
    for _ in range(3):
        for layer in [ours, theirs]:
            layer.zero_grad()
            layer.weight.square().sum().backward()
        update_weights(optimizer)
        reference.step()
    assert torch.equal(ours.weight, theirs.weight)


def test_momentum_begins_with_the_first_gradient_of_each_weight() -> None:
    config = OptimizerConfig.model_validate({"name": "sgd", "lr": 0.1, "momentum": 0.9})
    shared, late = nn.Linear(2, 2), nn.Linear(2, 2)
    ours = nn.ModuleList([shared, late])
    theirs = copy.deepcopy(ours)
    optimizer = build_optimizer(config, ours)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, fused=False)
    for used in ([0], [0, 1], [1]):
        for layers in (ours, theirs):
            layers.zero_grad()
            torch.stack([layers[idx].weight.square().sum() for idx in used]).sum().backward()
        update_weights(optimizer)
        reference.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_an_optimizer_imports_no_compiler() -> None:
    code = """
import sys, nlp_core.training.cell
from torch import nn
from nlp_core.config.recipe import OptimizerConfig
from nlp_core.training.determinism import seed_everything
from nlp_core.training.optimizer import build_optimizer, update_weights
seed_everything(1)
layer = nn.Linear(2, 1)
optimizer = build_optimizer(OptimizerConfig(name="adam", lr=0.1), layer)
layer.weight.sum().backward()
update_weights(optimizer)
optimizer.zero_grad()
optimizer.load_state_dict(optimizer.state_dict())
print([name for name in ["torch._dynamo", "torch._inductor", "pandas"] if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
