"""The learning rate of each step, by hand and against torch and transformers."""

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR
from transformers import get_inverse_sqrt_schedule, get_polynomial_decay_schedule_with_warmup

from nlp_core.config.base import parse_config
from nlp_core.config.optimizer import SwaConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.config.schedule import (
    BatchGrowthConfig,
    ConstantSchedule,
    CyclicSchedule,
    ExponentialSchedule,
    OneCycleSchedule,
    PlateauSchedule,
    WarmupConstantSchedule,
    WarmupCosineSchedule,
    WarmupInverseSqrtSchedule,
    WarmupLinearSchedule,
    WarmupPolynomialSchedule,
)
from nlp_core.errors import ConfigError
from nlp_core.training.schedule import CURVES, LearningRate
from tests.tiny import make_recipe


def make_optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)


def list_rates(scheduler: lr_scheduler.LRScheduler, number: int) -> list[float]:
    found = []
    for _ in range(number):
        found.append(float(scheduler.get_last_lr()[0]))
        scheduler.optimizer.step()
        scheduler.step()
    return found


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


def test_polynomial_falls_as_in_transformers() -> None:
    schedule = WarmupPolynomialSchedule(
        name="warmup_polynomial", warmup=0.2, power=2.0, min_lr=0.01
    )
    rates = LearningRate(schedule, 0.3, steps_per_epoch=5, epochs=2)
    theirs = get_polynomial_decay_schedule_with_warmup(make_optimizer(), 2, 10, 0.01, 2.0)
    assert [rates.at(0), rates.at(1)] == pytest.approx([0.15, 0.3])
    found = [rates.at(step) for step in range(2, 10)]
    assert found == pytest.approx(list_rates(theirs, 10)[2:])


def test_inverse_root_falls_as_in_transformers_one_step_on() -> None:
    schedule = WarmupInverseSqrtSchedule(name="warmup_inverse_sqrt", warmup=0.25)
    rates = LearningRate(schedule, 0.3, steps_per_epoch=16, epochs=1)
    theirs = list_rates(get_inverse_sqrt_schedule(make_optimizer(), 4), 17)
    assert [rates.at(step) for step in range(16)] == pytest.approx(theirs[1:])


@pytest.mark.parametrize(
    ("mode", "gamma"), [("triangular", None), ("triangular2", None), ("exp_range", 0.9)]
)
def test_cycles_are_those_of_torch(mode: str, gamma: float | None) -> None:
    schedule = CyclicSchedule.model_validate(
        {"name": "cyclic", "min_lr": 0.1, "rise": 2, "fall": 3, "mode": mode, "gamma": gamma}
    )
    rates = LearningRate(schedule, 0.3, steps_per_epoch=12, epochs=1)
    theirs = lr_scheduler.CyclicLR(
        make_optimizer(), 0.1, 0.3, 2, 3, mode, gamma or 1.0, cycle_momentum=False
    )
    found = [rates.at(step) for step in range(12)]
    assert found == pytest.approx(list_rates(theirs, 12))
    assert rates.at(7) == found[7]  # an earlier step again
    if mode == "triangular":
        assert found[:6] == pytest.approx([0.1, 0.2, 0.3, 0.7 / 3, 0.5 / 3, 0.1])


def test_one_cycle_ends_far_below_its_start() -> None:
    schedule = OneCycleSchedule(name="one_cycle", rise=0.25)
    rates = LearningRate(schedule, 0.5, steps_per_epoch=10, epochs=2)
    found = [rates.at(step) for step in range(20)]
    assert (found[0], max(found), found[-1]) == pytest.approx((0.02, 0.5, 0.02 / 1e4))


@pytest.mark.parametrize(("steps", "rise"), [(10, 0.1), (2, 0.5), (3, 0.3)])
def test_a_rise_of_no_more_than_one_step_is_an_error(steps: int, rise: float) -> None:
    schedule = OneCycleSchedule(name="one_cycle", rise=rise)
    with pytest.raises(ConfigError, match="expected more than one step"):
        LearningRate(schedule, 1.0, steps, 1).at(0)


def test_plateau_waits_and_multiplies_by_hand() -> None:
    schedule = PlateauSchedule(name="plateau", factor=0.5, patience=1, threshold=1.0, min_lr=0.2)
    rates = LearningRate(schedule, 1.0, steps_per_epoch=10, epochs=1)
    scores = [50.0, 50.5, 50.9, 60.0, 60.0, 59.0, 1.0, 2.0]
    found = [rates.at(number, scores[:number]) for number in range(9)]
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2]
    again = LearningRate(schedule, 1.0, steps_per_epoch=10, epochs=1)
    assert again.at(8, scores) == 0.2  # a resumed run


def test_epochs_may_have_different_numbers_of_steps() -> None:
    schedule = ExponentialSchedule(name="exponential", gamma=0.5)
    rates = LearningRate(schedule, 1.0, steps_per_epoch=[3, 2, 1], epochs=3)
    assert rates.num_steps == 6
    assert [rates.at(step) for step in range(6)] == [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]


def test_the_rate_of_an_average_is_that_of_torch() -> None:
    swa = SwaConfig(start=0.5, every=1, lr=0.05, anneal=3)
    constant = ConstantSchedule(name="constant")
    rates = LearningRate(constant, 0.3, steps_per_epoch=10, epochs=1, swa=swa)
    theirs = list_rates(SWALR(make_optimizer(), 0.05, anneal_epochs=3), 6)
    assert [rates.at(step) for step in range(5)] == [0.3] * 5
    assert [rates.at(step) for step in range(5, 10)] == pytest.approx(theirs[1:])


def test_a_mean_of_weights_that_no_step_reaches_is_an_error() -> None:
    constant = ConstantSchedule(name="constant")
    LearningRate(constant, 0.3, steps_per_epoch=50, epochs=2, swa=SwaConfig(start=0.9, every=10))
    swa = SwaConfig(start=0.9, every=11)
    with pytest.raises(ConfigError, match=r"start 0.9 and every 11 of 100 steps, so no weights"):
        LearningRate(constant, 0.3, steps_per_epoch=50, epochs=2, swa=swa)
    # a model that is only measured has no steps
    LearningRate(constant, 0.3, steps_per_epoch=50, epochs=0, swa=swa)


def test_batches_grow_by_hand() -> None:
    linear = BatchGrowthConfig(name="linear", last=40, epochs=3)
    found = [8 * linear.find_factor(8, epoch) for epoch in range(1, 6)]
    assert found == pytest.approx([8.0, 8 + 32 / 3, 8 + 64 / 3, 40.0, 40.0])
    exponential = BatchGrowthConfig(name="exponential", last=32, epochs=2)
    assert [8 * exponential.find_factor(8, e) for e in (1, 2, 3)] == pytest.approx([8, 16, 32])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": {"name": "cyclic", "min_lr": 0.1, "rise": 2}}, "expected at most 0.01"),
        (
            {"schedule": {"name": "cyclic", "min_lr": 0.0, "rise": 2, "gamma": 0.5}},
            "exp_range needs a gamma",
        ),
        ({"swa": {"start": 0.5, "every": 1}}, "found ema_decay and swa, expected one"),
        (
            {
                "ema_decay": None,
                "optimizer": {"name": "adamw_schedule_free", "lr": 0.1},
            },
            "expected constant or warmup_constant",
        ),
        ({"optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True}}, "a momentum of 0"),
        ({"optimizer": {"name": "adam", "lr": 0.1, "decoupled": True}}, "only radam and nadam"),
        ({"swa": {"start": 0.5, "every": 1, "anneal": 2}}, "no lr to reach"),
    ],
)
def test_wrong_combinations_are_errors(changes: dict[str, object], message: str) -> None:
    values = make_recipe().model_dump(mode="json") | changes
    with pytest.raises(ConfigError, match=message):
        parse_config(values, RecipeConfig, where="a recipe")


def test_every_schedule_of_a_recipe_has_a_curve() -> None:
    values = make_recipe().model_dump(mode="json") | {"schedule": {"name": "other"}}
    with pytest.raises(ConfigError) as found:
        parse_config(values, RecipeConfig, where="a recipe")
    assert [name for name in CURVES if f"'{name}'" not in str(found.value)] == []
