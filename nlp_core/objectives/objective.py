"""What a step trains on: the loss of a model, or more than that at perturbed word vectors.

A model may have several word tables, and read one several times in a pass (texts a and b); each
call has a perturbation of its own. Only word vectors are perturbed, where they leave their table:
what a block adds to them later (positions, segments, a normalisation) stays as it is.

Shape letters: B batch, T tokens, D width.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.random_state import get_random_state, set_random_state
from nlp_core.config.adversarial import Level, Norm
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel, find_word_tables

NOISE_STREAM = 1
ORDERS = {"inf": float("inf"), "l2": 2.0, "l1": 1.0}

Change = Callable[[int, Tensor, Tensor], Tensor]
"""From the number of a call, its vectors [B, T, D] and the mask of its real words [B, T] to the
vectors that the model uses instead."""


class Perturbed(NamedTuple):
    """A perturbation of one call of a word table: `delta` [B, T, D], 0 at padding."""

    delta: Tensor
    mask: Tensor


@contextmanager
def intercept(tables: Sequence[nn.Module], change: Change) -> Iterator[None]:
    """Change the word vectors of the passes inside, at each call of a table in their order."""
    calls = itertools.count()

    def hook(table: nn.Module, inputs: tuple[Tensor, ...], vectors_BTD: Tensor) -> Tensor:
        padding = table.padding_idx
        assert isinstance(padding, int), type(table)
        return change(next(calls), vectors_BTD, inputs[0] != padding)

    handles = [table.register_forward_hook(hook) for table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def repeat_pass(model: nn.Module, random_state: Tensor) -> Iterator[None]:
    """Let a further pass over a batch draw what the first one drew, and leave no trace.

    Running statistics of batch normalisation do not move, and torch's global generator is restored.

    Args:
        random_state: of torch's global generator, before the first pass.
    """
    normalisations = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [module.momentum for module in normalisations]
    state = get_random_state()
    set_random_state(random_state)
    for module in normalisations:
        module.momentum = 0.0
    try:
        yield
    finally:
        set_random_state(state)
        for module, momentum in zip(normalisations, momenta, strict=True):
            module.momentum = momentum


@contextmanager
def freeze(model: nn.Module) -> Iterator[None]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


@dataclass(frozen=True)
class Ball:
    """How far each token's vector, or each text's vectors together, may be moved.

    Attributes:
        level: token: each vector [D] has its ball; sentence: all vectors of a text [T, D] share
            one, so that a token of a longer text moves less.
    """

    norm: Norm
    level: Level
    radius: float

    def measure(self, delta_BTD: Tensor) -> Tensor:
        """Return the norm of each token [B, T, 1] or each text [B, 1, 1]."""
        return self._measure(delta_BTD, self.norm)

    def project(self, delta_BTD: Tensor) -> Tensor:
        """Return the perturbations moved into the ball; what is inside stays.

        inf: each number is clipped; l2: the vector is shortened; both are the nearest points of the
        ball. l1: the vector is shortened too, which keeps the direction of the ascent; the nearest
        point would be 0 in most of its numbers.
        """
        if self.norm == "inf":
            return delta_BTD.clamp(-self.radius, self.radius)
        size = self.measure(delta_BTD)
        return delta_BTD * torch.where(size > self.radius, self.radius / size, 1.0)

    def direct(self, gradient_BTD: Tensor) -> Tensor:
        """Return gradients scaled to length 1 in the norm; those of 0 stay 0.

        What overflowed becomes 0: float16 has such gradients until its loss scale has settled, and
        their step is skipped.
        """
        gradient_BTD = gradient_BTD.nan_to_num(0.0, 0.0, 0.0)
        # first by the greatest number: the squares of a gradient of 1e-25 are 0
        top = self._measure(gradient_BTD, "inf")
        scaled_BTD = gradient_BTD / torch.where(top == 0, 1.0, top)
        return scaled_BTD / self.measure(scaled_BTD).clamp(min=1.0)

    def ascend(self, perturbed: Perturbed, gradient_BTD: Tensor, length: float) -> Perturbed:
        """Return a perturbation one step of some length up a gradient, inside the ball."""
        direction_BTD = self.direct(zero_padding(gradient_BTD, perturbed.mask))
        delta_BTD = self.project(perturbed.delta.detach() + length * direction_BTD)
        return Perturbed(delta_BTD, perturbed.mask)

    def point(self, gradient_BTD: Tensor, mask_BT: Tensor, length: float) -> Perturbed:
        """Return perturbations of some length along a gradient; none where it is 0."""
        direction_BTD = self.direct(zero_padding(gradient_BTD, mask_BT))
        return Perturbed(length * direction_BTD, mask_BT)

    def _measure(self, delta_BTD: Tensor, norm: Norm) -> Tensor:
        axes = (-1,) if self.level == "token" else tuple(range(1, delta_BTD.ndim))
        size: Tensor = torch.linalg.vector_norm(delta_BTD, ORDERS[norm], axes, keepdim=True)
        return size


class Noise:
    """Where perturbations start: a generator of its own, seeded at each step of training.

    A resumed run draws the same numbers, and each process (`rank`) of a run draws others, or each
    shard of a batch.
    """

    def __init__(self, seed: int, rank: int = 0) -> None:
        self.seed = seed
        self.rank = rank
        self.generator = torch.Generator()
        self._step: int | None = None
        self.begin(0)

    def begin(self, step: int) -> None:
        """Seed a step, once: the parts of its batch draw one after the other."""
        if step != self._step:
            self._step = step
            stream = np.random.SeedSequence([self.seed, NOISE_STREAM, self.rank, step])
            self.generator.manual_seed(int(stream.generate_state(1)[0]))

    def enter(self, shard: int) -> None:
        """Let a shard of a step draw its own numbers, whichever process computes it."""
        self.rank, self._step = shard, None

    def draw_normal(self, like_BTD: Tensor, mask_BT: Tensor, *, std: float) -> Perturbed:
        drawn_BTD = self._draw(torch.randn, like_BTD)
        return Perturbed(zero_padding(std * drawn_BTD, mask_BT), mask_BT)

    def draw_uniform(self, like_BTD: Tensor, mask_BT: Tensor, *, ball: Ball) -> Perturbed:
        """Return numbers that are uniform in +-radius / sqrt(N), and inside the ball.

        N counts the numbers of a ball: D, or D times the real words of a text.

        Source: Zhu et al. 2020 (FreeLB), algorithm 1, line 4.
        """
        drawn_BTD = 2 * self._draw(torch.rand, like_BTD) - 1
        count = torch.full_like(drawn_BTD[..., :1], drawn_BTD.shape[-1])
        if ball.level == "sentence":
            axes = tuple(range(1, drawn_BTD.ndim))
            count = zero_padding(count, mask_BT).sum(axes, keepdim=True).clamp(min=1)
        delta_BTD = zero_padding(ball.radius * drawn_BTD / count.sqrt(), mask_BT)
        return Perturbed(ball.project(delta_BTD), mask_BT)

    def _draw(self, draw: Callable[..., Tensor], like_BTD: Tensor) -> Tensor:
        # drawn on the generator's device, so that the numbers are the same on every device
        place = {"generator": self.generator, "device": self.generator.device}
        return draw(like_BTD.shape, **place).to(like_BTD)


class Objective:
    """The loss of the model on a batch, as it is.

    Attributes:
        scale: what makes a loss larger, so that float16 can hold its gradients; the run that set
            it scales them back.
        noise: the generator of what the method draws; None: it draws nothing.
    """

    noise: Noise | None = None

    def __init__(self, model: GraphModel) -> None:
        self.model = model
        self.scale: Callable[[Tensor], Tensor] = lambda loss: loss

    def begin(self, step: int) -> None:
        """Prepare for a step of the run, whichever task it trains."""

    def backward(self, batch: Batch, step: int) -> float:
        return self.add_gradients(self.model.loss(batch))

    def add_gradients(self, loss: Tensor) -> float:
        self.scale(loss).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def state(self) -> dict[str, Tensor]:
        """Return what a resumed run needs to continue with the same bits."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""


class AdversarialObjective(Objective):
    """What all methods share: the word tables, and the noise that perturbations start from."""

    noise: Noise

    def __init__(self, model: GraphModel, noise: Noise) -> None:
        super().__init__(model)
        self.tables = find_word_tables(model)
        self.noise = noise
