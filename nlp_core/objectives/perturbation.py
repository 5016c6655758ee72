"""Perturb the word vectors of any model: where they are, how far they may move, which way.

A model may have several word tables, and read one several times in a pass (texts a and b); each
call has a perturbation of its own. Only word vectors are perturbed, where they leave their table:
what a block adds to them later (positions, segments, a normalisation) is computed as ever.

Shape letters: B batch, T tokens, D width.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
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

NOISE_STREAM = 1
ORDERS = {"inf": float("inf"), "l2": 2.0, "l1": 1.0}

Change = Callable[[int, Tensor, Tensor], Tensor]
"""From the number of a call, its vectors [B, T, D] and the mask of its real words [B, T] to the
vectors that the model goes on with."""


class Perturbed(NamedTuple):
    """A perturbation of one call of a word table.

    Attributes:
        delta: what is added to the vectors, [B, T, D]; zeros at padding.
        mask: True at real words, [B, T].
    """

    delta: Tensor
    mask: Tensor


@contextmanager
def intercept(tables: Sequence[nn.Module], change: Change) -> Iterator[None]:
    """Change the word vectors of the passes inside.

    Args:
        tables: the word tables of the model.
        change: called for each call of a table, in the order of the pass.
    """
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

    Dropout masks and replaced rare words are those of the first pass, running statistics of batch
    normalisation do not move, and torch's global generator is afterwards as it was.

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
    """Build no gradients of weights in the passes inside."""
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
        norm: inf, the greatest absolute number; l2, Euclidean; l1, the sum of absolute numbers.
        level: token: each vector [D] has its ball; sentence: all vectors of a text [T, D] share
            one, which is the wider the longer the text.
        radius: of the ball, at least 0.
    """

    norm: Norm
    level: Level
    radius: float

    def measure(self, delta_BTD: Tensor) -> Tensor:
        """Return the norm of each token [B, T, 1] or each text [B, 1, 1]."""
        return self._measure(delta_BTD, self.norm)

    def project(self, delta_BTD: Tensor) -> Tensor:
        """Return the perturbations moved into the ball; what is inside stays.

        inf: each number is clipped, l2: the vector is shortened; both are the nearest points of the
        ball. l1: the vector is shortened too. The nearest point would need a sort of every vector
        and be 0 in most of its numbers; the shortened one keeps the direction of the ascent, which
        is what a perturbation is for, and is in the ball as well.
        """
        if self.norm == "inf":
            return delta_BTD.clamp(-self.radius, self.radius)
        size = self.measure(delta_BTD)
        return delta_BTD * torch.where(size > self.radius, self.radius / size, 1.0)

    def direct(self, gradient_BTD: Tensor) -> Tensor:
        """Return gradients made as long as 1 in the norm; those of 0 stay 0.

        What overflowed is 0: float16 gives such gradients until its scale has settled, and the step
        they belong to is left out.
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

    So a resumed run draws the same, and each process of a run its own.

    Args:
        seed: of the run; the numbers are other ones than those of the weights and of dropout.
        rank: number of the process in the run.
    """

    def __init__(self, seed: int, rank: int = 0) -> None:
        self.seed = seed
        self.rank = rank
        self.generator = torch.Generator()
        self._step: int | None = None
        self.begin(0)

    def begin(self, step: int) -> None:
        """Begin the numbers of a step; within it, the parts of a batch draw one after the other."""
        if step != self._step:
            self._step = step
            stream = np.random.SeedSequence([self.seed, NOISE_STREAM, self.rank, step])
            self.generator.manual_seed(int(stream.generate_state(1)[0]))

    def draw_normal(self, like_BTD: Tensor, mask_BT: Tensor, *, std: float) -> Perturbed:
        """Return normal numbers at real words, and zeros at padding."""
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
        """Return numbers that are the same for every device."""
        place = {"generator": self.generator, "device": self.generator.device}
        return draw(like_BTD.shape, **place).to(like_BTD)
