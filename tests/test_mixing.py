"""Which task each step of an epoch trains."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from nlp_core.config.recipe import Mixing
from nlp_core.data.mixing import Batches, count_steps, draw_batches, order_tasks

SIZES = {"big": 90, "small": 9, "tiny": 1}
ALL: list[dict[str, Any]] = [
    {"name": "proportional"},
    {"name": "uniform"},
    {"name": "temperature", "alpha": 0.5},
    {"name": "annealed", "last_alpha": 0.2},
    {"name": "main_ratio", "main": "small", "ratio": 2.0},
    {"name": "sequential"},
]


def make(values: dict[str, Any]) -> Mixing:
    mixing: Mixing = TypeAdapter(Mixing).validate_python(values)
    return mixing


def count(values: dict[str, Any], epoch: int = 1) -> Counter[str]:
    return Counter(order_tasks(make(values), SIZES, seed=1, epoch=epoch, epochs=5))


@pytest.mark.parametrize("values", ALL, ids=lambda values: str(values["name"]))
def test_every_epoch_has_the_same_number_of_steps(values: dict[str, Any]) -> None:
    assert {count(values, epoch).total() for epoch in range(1, 6)} == {
        count_steps(make(values), SIZES)
    }


@pytest.mark.parametrize("values", ALL, ids=lambda values: str(values["name"]))
def test_the_order_depends_on_seed_and_epoch_alone(values: dict[str, Any]) -> None:
    def order(seed: int, epoch: int) -> list[str]:
        return order_tasks(make(values), SIZES, seed=seed, epoch=epoch, epochs=5)

    assert order(1, 2) == order(1, 2)
    if values["name"] != "sequential":
        assert order(1, 2) != order(2, 2)
        assert order(1, 2) != order(1, 3)


def test_proportional_has_every_batch_once() -> None:
    assert count({"name": "proportional"}) == SIZES


def test_sequential_has_one_task_after_the_other() -> None:
    steps = order_tasks(make({"name": "sequential"}), SIZES, seed=1, epoch=1, epochs=1)
    assert steps == ["big"] * 90 + ["small"] * 9 + ["tiny"]


def test_uniform_gives_all_the_same_but_for_rounding() -> None:
    assert sorted(count({"name": "uniform"}).values()) == [33, 33, 34]


def test_temperature_by_hand() -> None:
    # 1 each, and of the other 97 in proportion to sqrt(90), 3 and 1: 68.2, 21.6, 7.2
    assert count({"name": "temperature", "alpha": 0.5}) == {"big": 69, "small": 23, "tiny": 8}


def test_annealed_goes_from_proportional_towards_uniform() -> None:
    shares = [
        count({"name": "annealed", "last_alpha": 0.0}, epoch)["tiny"] for epoch in range(1, 6)
    ]
    assert shares == sorted(shares)
    assert shares[0] <= 2
    assert shares[-1] >= 33


def test_main_ratio_has_the_main_task_whole_and_others_by_ratio() -> None:
    found = count({"name": "main_ratio", "main": "small", "ratio": 2.0})
    assert found["small"] == 9
    assert found.total() == 27


def test_main_ratio_takes_no_more_than_there_is() -> None:
    assert count({"name": "main_ratio", "main": "big", "ratio": 2.0}) == SIZES


def test_a_second_pass_is_another_order_than_any_epoch_has() -> None:
    asked = []

    def order(number: int) -> Batches:
        asked.append(number)
        return [np.array([number, idx]) for idx in range(3)]

    found = draw_batches(order, 7, epoch=2, epochs=4)
    assert asked == [2, 6, 10]
    assert [batch.tolist() for batch in found] == [
        [2, 0],
        [2, 1],
        [2, 2],
        [6, 0],
        [6, 1],
        [6, 2],
        [10, 0],
    ]
