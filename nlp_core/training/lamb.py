"""LAMB: Adam whose step is, for each weight matrix, in proportion to the matrix itself."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class Lamb(Optimizer):
    """Move each parameter x by lr * |x| / |u| along u = m / (sqrt(v) + eps) + decay * x.

    m and v are the means of the gradient and of its square, with the correction for their start at
    zero. Where |x| or |u| is 0, the factor |x| / |u| is 1.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: decay of the two means, each in [0, 1).
        eps: added to the root.
        weight_decay: decay of x, at least 0.

    Source: You et al. 2020 (Large Batch Optimization for Deep Learning), algorithm 2, with the
        identity for its function phi.
    """

    def __init__(
        self,
        params: Iterable[Any],  # Any: parameters or dicts of them, as torch has it
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "LAMB evaluates its gradients once"
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None, parameter.shape
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        first, second = group["betas"]
        state["step"] += 1
        count = float(state["step"])
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (square / (1 - second**count)).sqrt_().add_(group["eps"])
        update = (mean / (1 - first**count)).div_(root)
        update.add_(parameter, alpha=group["weight_decay"])
        size, length = float(parameter.norm()), float(update.norm())
        trust = size / length if size > 0 and length > 0 else 1.0
        parameter.sub_(update, alpha=group["lr"] * trust)
