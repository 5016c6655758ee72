"""Learning rates of a recipe: a curve over the steps for each schedule, by name.

The first step of a warm-up is above 0: step s of r has (s + 1) / r of the highest rate. Curves that
torch has are torch's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from nlp_core.config.optimizer import SwaConfig
from nlp_core.config.schedule import (
    CyclicSchedule,
    ExponentialSchedule,
    OneCycleSchedule,
    PlateauSchedule,
    Schedule,
    WarmupInverseSqrtSchedule,
    WarmupPolynomialSchedule,
)
from nlp_core.errors import ConfigError

Scores = Sequence[float]
Curve = Callable[[int, Scores], float]
"""Return the learning rate of a step, counted from 0, after validations with some scores, of which
more is better."""


@dataclass(frozen=True)
class LearningRate:
    """The learning rate at each step; `max_steps` may end training before the last epoch.

    Attributes:
        steps_per_epoch: the same number for each epoch, or one for each of them.
        swa: averaging of weights, which may set the rate of the last steps.

    Raises:
        ConfigError: no step counts in the average of weights.
    """

    schedule: Schedule
    peak: float
    steps_per_epoch: int | Sequence[int]
    epochs: int
    max_steps: int | None = None
    swa: SwaConfig | None = None

    def __post_init__(self) -> None:
        if self.swa is not None and 0 < self.num_steps < self.swa_start + self.swa.every:
            raise ConfigError(
                f"recipe.swa: found start {self.swa.start} and every {self.swa.every} of "
                f"{self.num_steps} steps, so no weights count in the mean; expected a smaller "
                "start or every, or a longer training."
            )

    @property
    def num_steps(self) -> int:
        steps = self.steps_per_epoch
        total = steps * self.epochs if isinstance(steps, int) else sum(steps)
        return total if self.max_steps is None else min(total, self.max_steps)

    @property
    def swa_start(self) -> int:
        """The first step whose weights may count in the average."""
        return math.ceil(self.num_steps * self.swa.start) if self.swa else self.num_steps

    def at(self, step: int, scores: Scores = ()) -> float:
        """Return the learning rate of a step.

        Args:
            scores: of the validations so far; more is better.
        """
        if self.swa is None or self.swa.lr is None or step < self.swa_start:
            return self.curve(step, scores)
        # as torch's SWALR, which has no rate for a single step
        done = min((step - self.swa_start + 1) / max(self.swa.anneal, 1), 1.0)
        before = self.curve(max(self.swa_start - 1, 0), scores)
        return self.swa.lr + (before - self.swa.lr) * (1 + math.cos(math.pi * done)) / 2

    @cached_property
    def curve(self) -> Curve:
        return CURVES[self.schedule.name](self, self.schedule)

    def count_rise(self, warmup: float) -> int:
        """Return the steps of a warm-up."""
        return math.ceil(self.num_steps * warmup)

    def find_epoch(self, step: int) -> int:
        """Return how many epochs are done before a step."""
        steps = self.steps_per_epoch
        if isinstance(steps, int):
            return step // steps
        return sum(end <= step for end in accumulate(steps))


Fall = Callable[[float, int, int], float]
"""Return the learning rate after a warm-up, from its peak, the steps left and those of the fall."""


def _rise_and(fall: Fall) -> Callable[[LearningRate, Any], Curve]:
    def build(rates: LearningRate, schedule: Any) -> Curve:  # Any: a schedule with a warm-up
        rise = rates.count_rise(schedule.warmup)
        span = max(rates.num_steps - rise, 1)

        def at(step: int, scores: Scores) -> float:
            if step < rise:
                return rates.peak * (step + 1) / rise
            return fall(rates.peak, rates.num_steps - step, span)

        return at

    return build


def _keep_rate(rates: LearningRate, schedule: object) -> Curve:
    return lambda step, scores: rates.peak


def _fall_by_power(rates: LearningRate, schedule: WarmupPolynomialSchedule) -> Curve:
    def fall(peak: float, left: int, span: int) -> float:
        return schedule.min_lr + (peak - schedule.min_lr) * math.pow(left / span, schedule.power)

    return _rise_and(fall)(rates, schedule)


def _fall_by_root(rates: LearningRate, schedule: WarmupInverseSqrtSchedule) -> Curve:
    rise = rates.count_rise(schedule.warmup)

    def at(step: int, scores: Scores) -> float:
        return rates.peak * min((step + 1) / rise, math.sqrt(rise / (step + 1)))

    return at


def _fall_by_epoch(rates: LearningRate, schedule: ExponentialSchedule) -> Curve:
    def at(step: int, scores: Scores) -> float:
        falls = max(rates.find_epoch(step) - schedule.start_epoch + 1, 0)
        return max(rates.peak * float(schedule.gamma**falls), schedule.min_lr)

    return at


def _replay(scheduler: LRScheduler, optimizer: Optimizer) -> Curve:
    """Return the curve of a scheduler of torch, which knows only the next step."""
    rates = [float(optimizer.param_groups[0]["lr"])]
    optimizer._opt_called = True  # type: ignore[attr-defined]  # torch warns of steps without it

    def at(step: int, scores: Scores) -> float:
        while len(rates) <= step:
            scheduler.step()
            rates.append(float(optimizer.param_groups[0]["lr"]))
        return rates[step]

    return at


def _cycle(rates: LearningRate, schedule: CyclicSchedule) -> Curve:
    optimizer = _build_placeholder(rates)
    cyclic = CyclicLR(
        optimizer,
        schedule.min_lr,
        rates.peak,
        step_size_up=schedule.rise,
        step_size_down=schedule.fall,
        mode=schedule.mode,
        gamma=schedule.gamma or 1.0,
        cycle_momentum=False,
    )
    return _replay(cyclic, optimizer)


def _cycle_once(rates: LearningRate, schedule: OneCycleSchedule) -> Curve:
    if schedule.rise * max(rates.num_steps, 2) <= 1:
        raise ConfigError(
            f"schedule.rise: found {schedule.rise:g} of {rates.num_steps} steps, expected more "
            "than one step; train longer or raise it."
        )
    optimizer = _build_placeholder(rates)
    one_cycle = OneCycleLR(
        optimizer,
        rates.peak,
        total_steps=max(rates.num_steps, 2),
        pct_start=schedule.rise,
        anneal_strategy=schedule.shape,
        div_factor=schedule.start_factor,
        final_div_factor=schedule.end_factor,
        cycle_momentum=False,
    )
    return _replay(one_cycle, optimizer)


def _wait_for_plateaus(rates: LearningRate, schedule: PlateauSchedule) -> Curve:
    optimizer = _build_placeholder(rates)
    plateau = ReduceLROnPlateau(
        optimizer,
        mode="max",
        factor=schedule.factor,
        patience=schedule.patience,
        threshold=schedule.threshold,
        threshold_mode="abs",
        cooldown=schedule.cooldown,
        min_lr=schedule.min_lr,
        eps=0.0,
    )
    read = 0

    def at(step: int, scores: Scores) -> float:
        nonlocal read
        for score in scores[read:]:
            plateau.step(score)
        read = len(scores)
        return float(optimizer.param_groups[0]["lr"])

    return at


def _build_placeholder(rates: LearningRate) -> Optimizer:
    """Return an optimiser of nothing that matters, whose rate a scheduler of torch may set."""
    return SGD([torch.zeros(1)], lr=rates.peak)


CURVES: Mapping[str, Callable[[LearningRate, Any], Curve]] = {  # Any: the schedule of that name
    "constant": _keep_rate,
    "warmup_constant": _rise_and(lambda peak, left, span: peak),
    "warmup_linear": _rise_and(lambda peak, left, span: peak * left / span),
    "warmup_cosine": _rise_and(
        lambda peak, left, span: peak * (1 - math.cos(math.pi * left / span)) / 2
    ),
    "warmup_polynomial": _fall_by_power,
    "warmup_inverse_sqrt": _fall_by_root,
    "exponential": _fall_by_epoch,
    "cyclic": _cycle,
    "one_cycle": _cycle_once,
    "plateau": _wait_for_plateaus,
}
