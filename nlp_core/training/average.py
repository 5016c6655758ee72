"""Averages of the weights over the steps, which are measured and kept in place of the last ones."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.optim.swa_utils import get_swa_multi_avg_fn, update_bn

from nlp_core.blocks.random_state import get_random_state, set_random_state
from nlp_core.config.optimizer import SCHEDULE_FREE
from nlp_core.config.recipe import RecipeConfig
from nlp_core.training.optimizer import hold_frozen_statistics

NUMBER = "num_averaged"
"""The key of a plain mean's number of weights, in a checkpoint."""
State = dict[str, Tensor]


class AveragedWeights(Protocol):
    """An average of a model's floating-point state.

    Attributes:
        is_recent: whether it follows the weights so closely that the statistics of batch
            normalisation can be averaged too; if not, they are computed again.
    """

    is_recent: bool

    @property
    def state(self) -> State:
        """What a checkpoint keeps."""

    @property
    def weights(self) -> State:
        """Return the weights to measure and keep, by name; empty: those of the model itself."""

    def update(self, model: nn.Module, num_updates: int) -> None:
        """Take in the weights of a step."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""


class WeightAverage:
    """An exponential moving average of a model's floating-point state.

    a <- d a + (1 - d) w with d = min(decay, (1 + n) / (10 + n)) after n updates, so that the first
    weights are forgotten soon.
    """

    is_recent = True

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = {name: value.clone() for name, value in _floating(model).items()}
        parameters = model.named_parameters(remove_duplicate=False)
        frozen = {name for name, item in parameters if not item.requires_grad}
        # a large frozen table of word vectors would take a third of a small network's step
        self.moving = [name for name in self.state if name not in frozen]

    @property
    def weights(self) -> State:
        return self.state

    @torch.no_grad()
    def update(self, model: nn.Module, num_updates: int) -> None:
        decay = min(self.decay, (1 + num_updates) / (10 + num_updates))
        current = _floating(model)
        average = [self.state[name] for name in self.moving]
        torch._foreach_lerp_(average, [current[name] for name in self.moving], 1 - decay)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, average in self.state.items():
            average.copy_(state[name])


class StochasticAverage:
    """The mean of a model's floating-point state over every n-th step from one on.

    Source: Izmailov et al. 2018, algorithm 1, with torch's swa_utils.
    """

    is_recent = False

    def __init__(self, start: int, every: int) -> None:
        self.start, self.every = start, every
        self.number = 0
        self.weights: State = {}

    @property
    def state(self) -> State:
        return self.weights | {NUMBER: torch.tensor(self.number)}

    @torch.no_grad()
    def update(self, model: nn.Module, num_updates: int) -> None:
        if num_updates <= self.start or (num_updates - self.start) % self.every:
            return
        current = _floating(model)
        if not self.weights:
            self.weights = {name: value.clone() for name, value in current.items()}
        else:
            add = get_swa_multi_avg_fn()  # type: ignore[no-untyped-call]
            # a checkpoint has the names in another order, and its tensors are on the CPU
            self.weights = {
                name: value.to(current[name].device) for name, value in self.weights.items()
            }
            add(list(self.weights.values()), [current[name] for name in self.weights], self.number)
        self.number += 1

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weights = {name: value.clone() for name, value in state.items() if name != NUMBER}
        self.number = int(state[NUMBER])


class ScheduleFreeAverage:
    """The weights that a schedule-free optimiser averages, which it keeps in its own state."""

    is_recent = False

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.state: State = {}

    @property
    def weights(self) -> State:
        raw = _floating(self.model)
        kept = {name: value.clone() for name, value in raw.items()}
        self.optimizer.eval()  # type: ignore[attr-defined]
        found = {name: value.clone() for name, value in raw.items()}
        self.optimizer.train()  # type: ignore[attr-defined]
        with torch.no_grad():  # back to the last bit, which train() does not lead
            torch._foreach_copy_(list(raw.values()), list(kept.values()))
        return found

    def update(self, model: nn.Module, num_updates: int) -> None:
        """Do nothing: the optimiser has done it."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: the optimiser's state has it."""


def build_average(
    recipe: RecipeConfig, model: nn.Module, optimizer: Optimizer, swa_start: int
) -> AveragedWeights | None:
    """Return the average that a recipe asks for.

    Args:
        swa_start: steps before the first one that counts in a plain mean.
    """
    if recipe.ema_decay:
        return WeightAverage(model, recipe.ema_decay)
    if recipe.swa is not None:
        return StochasticAverage(swa_start, recipe.swa.every)
    if recipe.optimizer.name == SCHEDULE_FREE:
        return ScheduleFreeAverage(model, optimizer)
    return None


def measure_statistics(model: nn.Module, passes: Iterable[Callable[[], object]], seed: int) -> None:
    """Compute the statistics of batch normalisation for the present weights.

    Batch normalisations with frozen weights keep theirs.

    Args:
        passes: calls that pass batches through the model.
        seed: of the dropout of the passes; torch's global generator is left as it was.
    """
    random_state = get_random_state()
    torch.manual_seed(seed)
    model.train()
    hold_frozen_statistics(model)
    update_bn(passes, _Caller(model))
    set_random_state(random_state)


class _Caller(nn.Module):
    """What torch calls with each batch: it makes the call that it gets.

    Its parts are the batch normalisations that are not held, since torch resets all parts.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.norms = nn.ModuleList(
            item for item in model.modules() if isinstance(item, _BatchNorm) and item.training
        )

    @torch.no_grad()
    def forward(self, call: Callable[[], object]) -> None:
        call()


def _floating(model: nn.Module) -> State:
    return {
        name: value.detach()
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
