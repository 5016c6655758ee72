"""Averages of weights by hand, and a run that ends with each of them."""

import pytest
import torch
from torch import nn

from nlp_core.blocks.masking import MaskedBatchNorm
from nlp_core.config.optimizer import OptimizerConfig
from nlp_core.training.average import (
    ScheduleFreeAverage,
    StochasticAverage,
    WeightAverage,
    measure_statistics,
)
from nlp_core.training.optimizer import build_optimizer, update_weights


def test_average_follows_the_weights_by_hand() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 1.0)
    average = WeightAverage(layer, decay=0.9)
    nn.init.constant_(layer.weight, 2.0)
    average.update(layer, num_updates=1)  # decay min(0.9, 2 / 11)
    assert average.state["weight"].item() == pytest.approx(2 - 2 / 11)
    average.update(layer, num_updates=1000)
    assert average.state["weight"].item() == pytest.approx(2 - 0.9 * 2 / 11)


def test_average_spends_no_time_on_frozen_weights() -> None:
    layer = nn.Linear(2, 1)
    layer.bias.requires_grad_(False).zero_()
    average = WeightAverage(layer, decay=0.9)
    nn.init.constant_(layer.bias, 1.0)  # as no step would; an update would follow it
    average.update(layer, num_updates=1)
    assert average.weights["bias"].item() == 0
    assert set(average.weights) == {"weight", "bias"}


def test_a_plain_mean_counts_every_second_step_from_its_start() -> None:
    layer = nn.Linear(1, 1, bias=False)
    average = StochasticAverage(start=2, every=2)
    for step in range(1, 9):
        nn.init.constant_(layer.weight, float(step))
        average.update(layer, step)
        if step == 6:
            resumed = StochasticAverage(start=2, every=2)
            resumed.restore(average.state)
            average = resumed
        if step == 3:
            assert average.weights == {}
    assert average.weights["weight"].item() == pytest.approx((4 + 6 + 8) / 3)


def test_a_schedule_free_average_leaves_the_weights_to_the_bit() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    config = OptimizerConfig(name="adamw_schedule_free", lr=0.1)
    optimizer = build_optimizer(config, layer)
    for _ in range(4):
        layer.zero_grad()
        layer.weight.square().sum().backward()
        update_weights(optimizer)
    before = layer.weight.detach().clone()
    found = ScheduleFreeAverage(layer, optimizer).weights["weight"]
    assert torch.equal(layer.weight, before)
    z = optimizer.state[layer.weight]["z"]
    # y = 0.1 z + 0.9 x
    torch.testing.assert_close(0.1 * z + 0.9 * found, before)


def test_a_restored_mean_follows_the_weights_to_their_device() -> None:
    layer = nn.Linear(1, 1)
    average, resumed = StochasticAverage(start=0, every=1), StochasticAverage(start=0, every=1)
    average.update(layer, 1)
    resumed.restore(average.state)  # on the CPU, as a checkpoint is
    resumed.update(layer.to("meta"), 2)  # which stands for a GPU
    assert {value.device.type for value in resumed.weights.values()} == {"meta"}


def test_statistics_of_frozen_normalisations_stay() -> None:
    frozen, trained = MaskedBatchNorm(2), MaskedBatchNorm(2)
    frozen.requires_grad_(False)
    nn.init.constant_(frozen.running_mean, 7.0)
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    passes = [lambda: trained(frozen(x, None), None)]
    measure_statistics(nn.ModuleList([frozen, trained]), passes, seed=1)
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
    assert trained.running_mean is not None
    assert trained.running_mean.tolist() == pytest.approx([2 - 7, 3 - 7], abs=1e-3)  # eps


def test_statistics_are_the_means_over_all_batches() -> None:
    norm = MaskedBatchNorm(2)
    nn.init.constant_(norm.running_mean, 7.0)
    batches = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 0.0], [7.0, 2.0]])]
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    passes = [lambda batch=batch: norm(batch, None) for batch in batches]
    measure_statistics(nn.ModuleList([norm]), passes, seed=1)
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == pytest.approx([(2 + 6) / 2, (3 + 1) / 2])
    assert norm.momentum == 0.1
    assert torch.equal(torch.rand(2), expected)
