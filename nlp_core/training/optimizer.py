"""Optimisers, LAMB among them, and learning-rate schedules of a recipe."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Adamax, AdamW, Optimizer

from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.recipe import (
    ConstantSchedule,
    ExponentialSchedule,
    OptimizerConfig,
    Schedule,
    WarmupConstantSchedule,
    WarmupCosineSchedule,
    WarmupLinearSchedule,
)
from nlp_core.encoders.pretrained import PretrainedEncoder

FIRST_DECAY = 0.9  # of the mean gradient

# torch wraps the methods of an optimiser for its compiler, which the first call of one imports: 2 s
# of a start-up, and nothing here is compiled. The mark says that these are wrapped already.
for _method in (
    Optimizer.add_param_group,
    Optimizer.load_state_dict,
    Optimizer.state_dict,
    Optimizer.zero_grad,
):
    _plain = getattr(_method, "__wrapped__", _method)
    setattr(_plain, "__dynamo_disable", _plain)


def build_optimizer(config: OptimizerConfig, model: nn.Module) -> Optimizer:
    """Build the optimiser over the trained weights, in groups that are trained alike.

    Each group carries `scale`, its factor on the learning rate.
    """
    decay, groups = config.weight_decay, _group_weights(config, model)
    more: dict[str, Any] = {} if config.eps is None else {"eps": config.eps}
    if config.second_decay is not None:
        more["betas"] = (FIRST_DECAY, config.second_decay)
    # fused: one pass over memory, 0.17 of the time of the plain loop on a CPU
    if config.name == "sgd":
        momentum = config.momentum
        sgd = SGD(groups, lr=config.lr, momentum=momentum, weight_decay=decay, fused=True)
        if momentum:
            # the fused one starts all of them or none, and a task's head may wait for its turn
            for parameter in (item for group in sgd.param_groups for item in group["params"]):
                sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return sgd
    if config.name == "adamax":
        return Adamax(groups, lr=config.lr, weight_decay=decay)  # torch has no fused one
    if config.name == "lamb":
        return Lamb(groups, config.lr, weight_decay=decay, **more)
    adam = Adam if config.name == "adam" else AdamW
    return adam(groups, lr=config.lr, weight_decay=decay, fused=True, **more)


def _group_weights(config: OptimizerConfig, model: nn.Module) -> list[dict[str, Any]]:
    """Return the trained weights by their learning rate and decay; word embeddings come last."""
    words = {id(p) for m in model.modules() if isinstance(m, WordEmbedding) for p in m.parameters()}
    scales = dict.fromkeys(words, config.embedding_lr_scale)
    for module in model.modules():
        if isinstance(module, PretrainedEncoder):
            whole, decay = config.encoder_lr_scale or 1.0, config.layer_decay
            if decay is None:
                scales |= {id(p): whole for p in module.encoder.parameters()}
            else:
                depths = module.count_layers_above()
                scales |= {id(p): whole * decay**depth for p, depth in depths}
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            is_decayed = config.decayed is None or parameter.ndim > 1
            decay = config.weight_decay if is_decayed else 0.0
            key = id(parameter) in words, scales.get(id(parameter), 1.0), decay
            groups.setdefault(key, []).append(parameter)
    # stable: the groups of weights of one rank stay in the order of the model
    return [
        {"params": groups[key], "scale": key[1], "weight_decay": key[2]}
        for key in sorted(groups, key=lambda key: key[0])
    ]


@dataclass(frozen=True)
class LearningRate:
    """The learning rate at each step; `max_steps` may end training before the last epoch."""

    schedule: Schedule
    peak: float
    steps_per_epoch: int
    epochs: int
    max_steps: int | None = None

    @property
    def num_steps(self) -> int:
        total = self.steps_per_epoch * self.epochs
        return total if self.max_steps is None else min(total, self.max_steps)

    def at(self, step: int) -> float:
        match self.schedule:
            case ConstantSchedule():
                return self.peak
            case WarmupConstantSchedule(warmup=warmup):
                return self._rise(step, warmup) or self.peak
            case WarmupLinearSchedule(warmup=warmup):
                left, fall = self._count_fall(step, warmup)
                return self._rise(step, warmup) or self.peak * left / fall
            case WarmupCosineSchedule(warmup=warmup):
                left, fall = self._count_fall(step, warmup)
                return (
                    self._rise(step, warmup)
                    or self.peak * (1 - math.cos(math.pi * left / fall)) / 2
                )
            case ExponentialSchedule(gamma=gamma, start_epoch=start, min_lr=floor):
                finished = step // self.steps_per_epoch
                return max(self.peak * gamma ** max(finished - start + 1, 0), floor)

    def _rise(self, step: int, warmup: float) -> float:
        """Return the learning rate of a step of the warm-up; 0 after it."""
        rise = math.ceil(self.num_steps * warmup)
        return self.peak * (step + 1) / rise if step < rise else 0.0

    def _count_fall(self, step: int, warmup: float) -> tuple[int, int]:
        """Return the steps from this one to the end, and all those after the warm-up."""
        rise = math.ceil(self.num_steps * warmup)
        return self.num_steps - step, max(self.num_steps - rise, 1)


@torch.no_grad()
def update_weights(optimizer: Optimizer) -> None:
    """Take one step along the gradients: `optimizer.step()` without its import of a compiler."""
    inspect.unwrap(type(optimizer).step)(optimizer)


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group["scale"]


class WeightAverage:
    """An exponential moving average of a model's floating-point state.

    a <- d a + (1 - d) w with d = min(decay, (1 + n) / (10 + n)) after n updates, so that the first
    weights are forgotten soon.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = {name: value.clone() for name, value in _floating(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module, num_updates: int) -> None:
        decay = min(self.decay, (1 + num_updates) / (10 + num_updates))
        current = _floating(model)
        torch._foreach_lerp_(list(self.state.values()), list(current.values()), 1 - decay)

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, average in self.state.items():
            average.copy_(state[name])


def _floating(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: value.detach()
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }


class Lamb(Optimizer):
    """Move each parameter x by lr * |x| / |u| along u = m / (sqrt(v) + eps) + decay * x.

    m and v are the means of the gradient and of its square, with the correction for their start at
    zero; `betas` are their decays. Where |x| or |u| is 0, the factor |x| / |u| is 1.

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
