import copy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import nn

from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.optimizer import OptimizerConfig, OptimizerName
from nlp_core.errors import ConfigError
from nlp_core.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from nlp_core.training.optimizer import (
    OPTIMIZERS,
    build_optimizer,
    set_learning_rate,
    update_weights,
)


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


def test_a_model_without_a_weight_to_train_is_an_error() -> None:
    frozen = WordEmbedding(5, dim=2, trainable=False)
    with pytest.raises(ConfigError, match="found a model without a weight to train"):
        build_optimizer(OptimizerConfig(name="adam", lr=0.1), nn.ModuleList([frozen]))


@pytest.mark.parametrize("key", ["encoder_lr_scale", "layer_decay", "embedding_lr_scale"])
def test_rates_of_a_layer_that_is_not_there_are_an_error(key: str) -> None:
    config = OptimizerConfig.model_validate({"name": "adam", "lr": 0.1, key: 0.5})
    with pytest.raises(ConfigError, match=f"recipe.optimizer.{key}: found 0.5 for a model without"):
        build_optimizer(config, nn.Linear(2, 2))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_lowers_a_quadratic(name: str) -> None:
    layer = nn.Linear(3, 1, bias=False)
    lr = 20.0 if name == "adadelta" else 0.05  # whose first steps are 0.003 of it
    optimizer = build_optimizer(OptimizerConfig.model_validate({"name": name, "lr": lr}), layer)
    before = layer.weight.square().sum().item()
    for _ in range(20):
        set_learning_rate(optimizer, lr)
        optimizer.zero_grad()
        layer.weight.square().sum().backward()
        update_weights(optimizer)
    assert layer.weight.square().sum().item() < 0.5 * before
    assert torch.isfinite(layer.weight).all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_update_weights_is_the_step_of_torch(name: str) -> None:
    decay = 0.0 if name == "rprop" else 0.1
    config = OptimizerConfig.model_validate({"name": name, "lr": 0.05, "weight_decay": decay})
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


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_on_from_a_checkpoint_with_the_same_bits(
    name: str, tmp_path: Path
) -> None:
    config = OptimizerConfig.model_validate({"name": name, "lr": 0.05})

    def step(layer: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        layer.zero_grad()
        layer.weight.square().sum().backward()
        update_weights(optimizer)

    whole, path = nn.Linear(3, 2), tmp_path / "checkpoint.safetensors"
    optimizer = build_optimizer(config, whole)
    for _ in range(3):
        step(whole, optimizer)
    states = {"model": whole.state_dict()}
    save_checkpoint(path, Progress(), states, optimizer, [torch.get_rng_state()])
    resumed = nn.Linear(3, 2)
    again = build_optimizer(config, resumed)
    _, states = load_checkpoint(path, again)
    resumed.load_state_dict(states["model"])
    for _ in range(2):
        step(whole, optimizer)
        step(resumed, again)
    assert torch.equal(whole.weight, resumed.weight)


def test_every_name_of_a_recipe_has_an_optimizer() -> None:
    assert set(OPTIMIZERS) == set(get_args(OptimizerName))


def test_every_optimizer_of_torch_that_steps_along_one_dense_gradient_has_a_name() -> None:
    others = {"Optimizer", "LBFGS", "Muon", "SparseAdam"}  # line search, matrices only, sparse
    names = {name for name, item in vars(torch.optim).items() if isinstance(item, type)} - others
    assert {name.lower() for name in names} <= set(OPTIMIZERS)


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ({"name": "radam", "second_decay": 0.99}, partial(torch.optim.RAdam, betas=(0.9, 0.99))),
        (
            {"name": "nadam", "first_decay": 0.8, "decoupled": True},
            partial(torch.optim.NAdam, betas=(0.8, 0.999), decoupled_weight_decay=True),
        ),
        ({"name": "adafactor"}, torch.optim.Adafactor),
        ({"name": "adagrad", "eps": 1e-6}, partial(torch.optim.Adagrad, eps=1e-6)),
        (
            {"name": "rmsprop", "momentum": 0.9, "eps": 1e-6},
            partial(torch.optim.RMSprop, momentum=0.9, eps=1e-6),
        ),
        ({"name": "adadelta", "eps": 1e-5}, partial(torch.optim.Adadelta, eps=1e-5)),
        ({"name": "asgd"}, torch.optim.ASGD),
        (
            {"name": "sgd", "momentum": 0.9, "nesterov": True},
            partial(torch.optim.SGD, momentum=0.9, nesterov=True),
        ),
    ],
)
def test_options_have_the_meaning_of_torch(
    values: dict[str, object], reference: Callable[..., torch.optim.Optimizer]
) -> None:
    config = OptimizerConfig.model_validate({"lr": 0.05, "weight_decay": 0.1, **values})
    ours = nn.Linear(3, 2)
    theirs = copy.deepcopy(ours)
    optimizer = build_optimizer(config, ours)
    other = reference(theirs.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(8):
        for layer in (ours, theirs):
            layer.zero_grad()
            layer(torch.ones(1, 3)).square().sum().backward()
        update_weights(optimizer)
        other.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_lion_moves_by_the_sign_by_hand() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 1.0)
    config = OptimizerConfig(name="lion", lr=0.1, weight_decay=0.5)
    optimizer = build_optimizer(config, layer)
    for gradient in (3.0, -1.0):
        layer.weight.grad = torch.full((1, 1), gradient)
        update_weights(optimizer)
    # 0.95 - 0.1; the mean is 0.03, and 0.9 * 0.03 - 0.1 is below 0: 0.95 * 0.85 + 0.1
    assert layer.weight.item() == pytest.approx(0.9075)


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
from nlp_core.config.optimizer import OptimizerConfig
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
