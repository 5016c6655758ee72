import copy
import math

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from nlp_core.training.optimizer import update_weights
from nlp_core.training.own_optimizer import AdaBelief, Madgrad


def walk(build: type[Optimizer], gradients: list[float], **options: object) -> list[float]:
    x = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = build([x], **options)  # type: ignore[arg-type]
    found = []
    for gradient in gradients:
        x.grad = torch.tensor([gradient], dtype=torch.float64)
        update_weights(optimizer)
        found.append(x.item())
    return found


def test_adabelief_by_hand() -> None:
    options = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 0.01, "weight_decay": 0.5}
    found = walk(AdaBelief, [1.0, -2.0], **options)
    # m = 0.1, s = 0.01 * 0.9^2 + 0.01; corrected by 0.1 and 0.01
    first = 2 * 0.95 - 0.1 * 1.0 / (math.sqrt(0.0181 / 0.01) + 0.01)
    mean, spread = 0.09 - 0.2, 0.99 * 0.0181 + 0.01 * (-2 + 0.11) ** 2 + 0.01
    root = math.sqrt(spread / (1 - 0.99**2)) + 0.01
    second = first * 0.95 - 0.1 * mean / (1 - 0.9**2) / root
    assert found == pytest.approx([first, second])


def test_madgrad_by_hand() -> None:
    found = walk(Madgrad, [1.0, -2.0], lr=0.1, momentum=0.5, eps=0.01)
    first = (2 + 2 - 0.1 / (0.1 ** (1 / 3) + 0.01)) / 2
    rate = 0.1 * math.sqrt(2)
    total, square = 0.1 - 2 * rate, 0.1 + 4 * rate
    second = (first + 2 - total / (square ** (1 / 3) + 0.01)) / 2
    assert found == pytest.approx([first, second])


@pytest.mark.parametrize("build", [AdaBelief, Madgrad])
def test_a_resumed_one_goes_on(build: type[Optimizer]) -> None:
    x, y = (nn.Parameter(torch.tensor([3.0, 4.0])) for _ in range(2))
    one, other = build([x], lr=0.1), build([y], lr=0.1)  # type: ignore[call-arg]
    for step in range(4):
        if step == 2:
            other.load_state_dict(copy.deepcopy(one.state_dict()))
            y.data.copy_(x.data)
        for parameter in (x, y):
            parameter.grad = 2 * parameter.detach()
        update_weights(one)
        if step >= 2:
            update_weights(other)
    assert x.equal(y)
