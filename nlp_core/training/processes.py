"""Training by several processes at once: each takes a part of every batch.

The processes are those of `accelerate launch`. Each holds the whole model and the same weights:
they start from the same seed, add their gradients up and make the same update. A step of N
processes is the step of one on the same batch, whatever N is; only their dropout differs.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nlp_core.blocks.random_state import get_random_state
from nlp_core.training.determinism import CPU, find_device

T = TypeVar("T")
SEED_STRIDE = 1_000_003
"""Between the seeds of the processes' dropout; a prime, so that no two runs share a stream soon."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run, and which of them this is; only the one of rank 0 writes files."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=find_device)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def take_own(self, parts: Sequence[T]) -> list[T]:
        """Return the parts of a batch that are this process's."""
        return list(parts[self.rank :: self.count])

    def seed_dropout(self, seed: int) -> None:
        """Give each process its own random numbers; the first one keeps those of the run."""
        if not self.is_first:
            torch.manual_seed(seed + SEED_STRIDE * self.rank)

    def add_gradients(self, model: nn.Module) -> None:
        """Replace the gradients by their sums over the processes; None where none has one."""
        if self.count == 1:
            return
        trained = [item for item in model.parameters() if item.requires_grad]
        has_one = torch.tensor([float(item.grad is not None) for item in trained])
        numbers = self._add(has_one).tolist()
        asked = [item for item, number in zip(trained, numbers, strict=True) if number > 0]
        if not asked:
            return
        grads = [torch.zeros_like(item) if item.grad is None else item.grad for item in asked]
        summed = self._add(torch.cat([grad.flatten() for grad in grads]))
        parts = torch.split(summed, [item.numel() for item in asked])
        for item, part in zip(asked, parts, strict=True):
            item.grad = part.view_as(item).clone()

    def add_value(self, value: float) -> float:
        if self.count == 1:
            return value
        return float(self._add(torch.tensor(value, dtype=torch.float64)))

    def gather_random_states(self) -> list[Tensor]:
        """Return the state of torch's generator in each process, in the order of their ranks."""
        state = get_random_state()
        if self.count == 1:
            return [state]
        return [item.cpu() for item in self.gather(state)]

    def gather(self, value: Tensor) -> list[Tensor]:
        """Return the values of all processes, which have one shape, in the order of the ranks."""
        from accelerate.utils import gather

        return list(gather(value.unsqueeze(0).to(self.device)))

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Run the body in the first process, and then in the others, which find what it wrote."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def wait(self) -> None:
        if self.count > 1:
            _start().wait_for_everyone()

    def _add(self, value: Tensor) -> Tensor:
        from accelerate.utils import reduce

        total: Tensor = reduce(value.to(self.device, copy=True), "sum")
        return total


def find_processes() -> Processes:
    """Return the processes that `accelerate launch` started; without it, only this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes()
    state = _start()
    return Processes(state.process_index, state.num_processes)


def _start() -> Any:  # Any: accelerate has no types
    # Imported here: it takes half a second, which a single process does not need.
    from accelerate import PartialState

    return PartialState(cpu=find_device().type == CPU)
