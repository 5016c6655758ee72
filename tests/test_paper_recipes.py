"""Recipes of papers, those of the grid among them, compared with what the papers say."""

from pathlib import Path

import pytest

from nlp_core.config.base import parse_config
from nlp_core.config.params import read_params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.training.schedule import LearningRate

RECIPES = read_params(Path(__file__).parent.parent / "params.yaml").recipes


def decay(peak: float, gamma: float, start: int, floor: float, epoch: int) -> float:
    """Return the rate of an epoch, counted from 0, that falls after each one from `start` on."""
    return max(peak * gamma ** max(epoch - start + 1, 0), floor)


@pytest.mark.parametrize(
    ("optimizer", "schedule", "summed", "start", "floor", "batch", "epochs"),
    [
        # WLSTM cells of conll2003, whose loss is a sum over the batch of 10
        ("sgd 0.015", "exponential 0.95", 10, 1, 1e-5, 10, 50),
        ("sgd 0.005", "exponential 0.95", 10, 1, 1e-5, 10, 100),
        ("adam 0.001", "exponential 0.95", 1, 10, 1e-5, 128, 100),
        ("adam 0.001", "exponential 0.9", 1, 3, 5e-5, 64, 10),
        ("adam 0.001", "constant 1.0", 1, 1, 0.0, 20, 10),
    ],
)
def test_the_rate_of_each_epoch_is_the_published_one(
    optimizer: str,
    schedule: str,
    summed: int,
    start: int,
    floor: float,
    batch: int,
    epochs: int,
) -> None:
    (name, peak), (falls, gamma) = optimizer.split(), schedule.split()
    exponential = {"gamma": float(gamma), "start_epoch": start, "min_lr": summed * floor}
    recipe = parse_config(
        {
            "source": "a paper",
            "optimizer": {"name": name, "lr": summed * float(peak)},
            "schedule": {"name": falls, **(exponential if falls == "exponential" else {})},
            "batch_size": batch,
            "epochs": epochs,
            "bucket_batches": 0,
        },
        RecipeConfig,
        where="a paper",
    )
    check_rates(recipe, float(peak), float(gamma), start, floor, summed)


def test_the_recipe_of_a_cell_is_the_published_one() -> None:
    recipe = RECIPES["conll2003_paper"]
    check_rates(recipe, 0.015, 0.95, 1, 1e-5, 10)
    assert (recipe.batch_size, recipe.epochs) == (10, 100)
    assert recipe.clip_norm is None
    assert recipe.ema_decay is None


def check_rates(
    recipe: RecipeConfig, peak: float, gamma: float, start: int, floor: float, summed: int
) -> None:
    """Compare the rate of each epoch; a loss that is a sum has that much more."""
    steps, count = 7, recipe.epochs
    rates = LearningRate(recipe.schedule, recipe.optimizer.lr, steps_per_epoch=steps, epochs=count)
    found = [rates.at(steps * epoch + steps - 1) for epoch in range(count)]
    expected = [summed * decay(peak, gamma, start, floor, epoch) for epoch in range(count)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["mtdnn_bert", "mtdnn_bert_mtl", "mtdnn_bert_adv"])
def test_bert_is_tuned_as_by_mt_dnn(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe.optimizer.name == "adamax"
    assert recipe.optimizer.lr == 5e-5
    assert (recipe.batch_size, recipe.epochs, recipe.clip_norm) == (32, 5, 1.0)
    assert (recipe.mixing is not None) == name.endswith("_mtl")
    assert (recipe.adversarial is not None) == name.endswith("_adv")
