"""LAMB by hand."""

import math

import pytest
import torch
from torch import nn

from nlp_core.training.optimizer import Lamb, update_weights


def test_two_steps_by_hand() -> None:
    x = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Lamb([x], lr=0.1, betas=(0.9, 0.99), eps=0.0, weight_decay=0.5)
    x.grad = torch.tensor([2.0, -1.0])
    update_weights(optimizer)
    # the corrected means are the gradient and its square: m / sqrt(v) = (1, -1); with the decay
    # u = (1 + 1.5, -1 + 2), |u| = sqrt(7.25), |x| = 5
    factor = 0.1 * 5 / math.sqrt(7.25)
    first = [3 - factor * 2.5, 4 - factor * 1.0]
    assert x.tolist() == pytest.approx(first, abs=1e-6)
    x.grad = torch.tensor([0.0, -1.0])
    update_weights(optimizer)
    # m = 0.9 * 0.2 = 0.18 and -0.19, corrected by 0.19; v = 0.99 * 0.04 and 0.0199, by 0.0199
    ratio = [0.18 / 0.19 / math.sqrt(0.0396 / 0.0199), -1.0]
    u = [ratio[0] + 0.5 * first[0], ratio[1] + 0.5 * first[1]]
    factor = 0.1 * math.hypot(*first) / math.hypot(*u)
    second = [first[0] - factor * u[0], first[1] - factor * u[1]]
    assert x.tolist() == pytest.approx(second, abs=1e-5)


def test_zeros_move_by_the_plain_step() -> None:
    x = nn.Parameter(torch.zeros(3))
    optimizer = Lamb([x], lr=0.1, eps=0.0)
    x.grad = torch.tensor([1.0, -2.0, 5.0])
    update_weights(optimizer)
    assert x.tolist() == pytest.approx([-0.1, 0.1, -0.1])
    untouched = nn.Parameter(torch.ones(2))
    update_weights(Lamb([untouched], lr=0.1))
    assert untouched.tolist() == [1.0, 1.0]


def test_it_goes_on_from_its_state() -> None:
    values = []
    for is_restored in (False, True):
        x = nn.Parameter(torch.tensor([1.0, 2.0]))
        optimizer = Lamb([x], lr=0.1)
        for step in range(4):
            if is_restored and step == 2:
                state = optimizer.state_dict()
                optimizer = Lamb([x], lr=0.1)
                optimizer.load_state_dict(state)
            x.grad = torch.tensor([step + 1.0, -1.0])
            update_weights(optimizer)
        values.append(x.tolist())
    assert values[0] == values[1]
