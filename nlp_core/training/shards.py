"""Logical shards of every batch, so that any number of processes gives the same bytes.

A batch has the shards that the recipe says, whichever process computes them. Each shard has its own
random numbers, which depend on the seed, the step and the shard only. Gradients and losses are
added up in the order of the shards.

Batch normalisation sees the shards: each of them moves the running statistics from where they were
before the step, and the step moves them by the mean of these moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from nlp_core.blocks.random_state import seed_random_state
from nlp_core.errors import ConfigError
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.objective import Objective
from nlp_core.training.processes import Processes, join_tensors, split_like

SHARD_STREAM = 2
"""Separates the random numbers of shards from those of other draws of a seed."""


class Moves(NamedTuple):
    """What one shard asks a step for, or the sum over several.

    Attributes:
        gradients: of each trained weight; None where it took no part.
        statistics: how far each one of batch normalisation moved.
    """

    loss: float
    gradients: list[Tensor | None]
    statistics: list[Tensor]

    def add(self, other: "Moves") -> "Moves":
        """Return the sum, in the memory of this one."""
        gradients = [
            more if own is None else own if more is None else own.add_(more)
            for own, more in zip(self.gradients, other.gradients, strict=True)
        ]
        if self.statistics:
            torch._foreach_add_(self.statistics, other.statistics)
        return Moves(self.loss + other.loss, gradients, self.statistics)


@dataclass(frozen=True)
class Shards:
    """The shards of a run.

    Raises:
        ConfigError: a process would have no shard.
    """

    number: int
    model: GraphModel
    processes: Processes
    seed: int
    memory: list[Tensor] = field(default_factory=list)
    """What this process gives and what all of them give; kept, since fresh memory costs as much
    time as the exchange."""

    def __post_init__(self) -> None:
        if self.processes.count > self.number:
            raise ConfigError(
                f"recipe.shards: found {self.number} shards and {self.processes.count} processes, "
                "expected a shard for each process at least; start fewer processes."
            )

    def add_gradients(
        self, objective: Objective, own: Sequence[Batch], number: int, step: int
    ) -> float:
        """Set the gradients to those of the whole batch, and return its loss.

        Args:
            own: this process's shards of the batch, dealt in turns.
            number: of shards that the batch has; a small one has fewer than others.
        """
        trained = [item for item in self.model.parameters() if item.requires_grad]
        statistics = self._list_statistics()
        start = [item.clone() for item in statistics]
        count, rank = self.processes.count, self.processes.rank
        total: Moves | None = None
        for turn, first in enumerate(range(0, number, count)):
            loss = 0.0
            if turn < len(own):
                self._seed(objective, step, first + rank)
                loss = objective.backward(own[turn], step)
            moves = Moves(
                loss,
                [item.grad for item in trained],
                [(now - then).float() for now, then in zip(statistics, start, strict=True)],
            )
            for item in trained:
                item.grad = None
            for now, then in zip(statistics, start, strict=True):
                now.copy_(then)
            is_last = first + count >= number
            for found in self._gather(moves, trained, is_last=is_last)[: number - first]:
                total = found if total is None else total.add(found)
        assert total is not None, number
        for item, gradient in zip(trained, total.gradients, strict=True):
            item.grad = gradient
        for now, move in zip(statistics, total.statistics, strict=True):
            now.add_((move / number).to(now.dtype))
        return total.loss

    def _list_statistics(self) -> list[Tensor]:
        layers = [item for item in self.model.modules() if isinstance(item, _BatchNorm)]
        return [statistic for layer in layers for statistic in layer.buffers(recurse=False)]

    def _seed(self, objective: Objective, step: int, shard: int) -> None:
        stream = np.random.SeedSequence([self.seed, SHARD_STREAM, shard, step])
        seed_random_state(int(stream.generate_state(1)[0]))
        if objective.noise is not None:
            objective.noise.enter(shard)

    def _gather(self, moves: Moves, trained: Sequence[Tensor], *, is_last: bool) -> list[Moves]:
        """Return the moves of all processes, in the order of their ranks.

        The last ones of a step stay until those of the next step are written over them.
        """
        if self.processes.count == 1:
            return [moves]
        has_one = [float(item is not None) for item in moves.gradients]
        heads = self.processes.gather(torch.tensor([moves.loss, *has_one], dtype=torch.float64))
        flat = [
            *(
                torch.zeros_like(weight) if item is None else item
                for item, weight in zip(moves.gradients, trained, strict=True)
            ),
            *moves.statistics,
        ]
        size = sum(item.numel() for item in flat)
        if [item.shape[-1] for item in self.memory] != [size, size]:
            empty = flat[0].new_empty(0, device=self.processes.device)
            self.memory[:] = (empty.new_empty(size), empty.new_empty(len(heads), size))
        own, memory = self.memory
        join_tensors(flat, own.device, own)
        bodies = self.processes.gather(own, memory if is_last else None)
        found = []
        for head, body in zip(heads, bodies, strict=True):
            loss, *given = head.tolist()
            shaped = split_like(body, flat)
            summed, moved = shaped[: len(trained)], shaped[len(trained) :]
            gradients = [g if has else None for g, has in zip(summed, given, strict=True)]
            found.append(Moves(loss, gradients, moved))
        return found
