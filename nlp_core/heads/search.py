"""Search for the likeliest answer that a head writes step by step.

Shape letters: B batch, K hypotheses of an example, R all hypotheses (B times K), A choices of a
step, S steps.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from reglue_runtime import search as runtime


@runtime_checkable
class Writer(Protocol):
    """Hypotheses that are written step by step; those of an example are K rows in a run."""

    @property
    def done(self) -> Tensor:
        """Which hypotheses are complete, [R]."""

    def score(self) -> Tensor:
        """Return the log probability of each choice, -inf where it is impossible, [R, A]."""

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        """Let each row go on from another one of its example, by a choice or STAY."""


class BestChoices(NamedTuple):
    """The best hypothesis of each example.

    Attributes:
        choices: [B, S], STAY after the end.
        log_prob: of the whole, [B].
    """

    choices: Tensor
    log_prob: Tensor

    def join(self) -> Tensor:
        """Return log probability and choices of each answer as numbers, [B, 1 + S]."""
        return torch.cat([self.log_prob.unsqueeze(1), self.choices.double()], 1)


class _ArrayWriter:
    """A writer of tensors, as the search of the runtime has it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @property
    def done(self) -> np.ndarray:
        return self._writer.done.cpu().numpy()

    def score(self) -> np.ndarray:
        return self._writer.score().double().cpu().numpy()

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> None:
        self._writer.advance(torch.from_numpy(parent_R), torch.from_numpy(choice_R))


@torch.no_grad()
def search(
    writer: Writer,
    *,
    batch: int,
    beam: int,
    max_steps: int,
    penalty: float = 0.0,
    top_p: float | None = None,
    draw: runtime.Draw | None = None,
) -> BestChoices:
    """Return the likeliest answers, or drawn ones; see `reglue_runtime.search.search`."""
    found = runtime.search(
        _ArrayWriter(writer),
        batch=batch,
        beam=beam,
        max_steps=max_steps,
        penalty=penalty,
        top_p=top_p,
        draw=draw,
    )
    return BestChoices(*map(torch.from_numpy, found))
