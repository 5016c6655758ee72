"""Optimisers that no library of the lock has."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

State = dict[str, Any]  # Any: tensors and options, as torch has it


class _OwnOptimizer(Optimizer):
    """Moves one parameter at a time."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the gradients are evaluated once"
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group, self.state[parameter])

    def _move(self, parameter: Tensor, gradient: Tensor, group: State, state: State) -> None:
        raise NotImplementedError


class AdaBelief(_OwnOptimizer):
    """Move x by lr * m / (sqrt(s) + eps) and by lr * decay * x.

    m is the mean of the gradient and s that of (gradient - m)^2 + eps, both with the correction for
    their start at zero.

    Source: Zhuang et al. 2020 (AdaBelief Optimizer), algorithm 2, with decoupled weight decay.
    """

    def __init__(
        self,
        params: Iterable[Any],  # Any: parameters or dicts of them, as torch has it
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-16,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def _move(self, parameter: Tensor, gradient: Tensor, group: State, state: State) -> None:
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["spread"] = (torch.zeros_like(parameter) for _ in range(2))
        first, second = group["betas"]
        state["step"] += 1
        count = float(state["step"])
        mean = state["mean"].lerp_(gradient, 1 - first)
        gap = gradient - mean
        spread = state["spread"].mul_(second).addcmul_(gap, gap, value=1 - second)
        spread.add_(group["eps"])
        root = (spread / (1 - second**count)).sqrt_().add_(group["eps"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, root, value=-group["lr"] / (1 - first**count))


class Madgrad(_OwnOptimizer):
    """Average the gradients from the first weights on, scaled by the cube root of their squares.

    z = x_0 - s / (cbrt(v) + eps), where s and v are the sums of l g and l g^2 and l is the learning
    rate times the root of the step; x moves to momentum * x + (1 - momentum) * z.

    Source: Defazio and Jelassi 2021 (Adaptivity without Compromise), algorithm 1.
    """

    def __init__(
        self,
        params: Iterable[Any],  # Any: parameters or dicts of them, as torch has it
        lr: float,
        *,
        momentum: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "eps": eps, "weight_decay": weight_decay}
        )

    def _move(self, parameter: Tensor, gradient: Tensor, group: State, state: State) -> None:
        if not state:
            state["step"] = torch.zeros(())
            state["sum"], state["square"] = (torch.zeros_like(parameter) for _ in range(2))
            state["first"] = parameter.detach().clone()
        state["step"] += 1
        rate = group["lr"] * float(state["step"]) ** 0.5
        gradient = gradient.add(parameter, alpha=group["weight_decay"])
        total = state["sum"].add_(gradient, alpha=rate)
        square = state["square"].addcmul_(gradient, gradient, value=rate)
        root = square.pow(1 / 3).add_(group["eps"])
        parameter.lerp_(state["first"].addcdiv(total, root, value=-1.0), 1 - group["momentum"])
