"""Training on word vectors that are perturbed against the model: FreeLB and FGM.

Dropout: all passes of a step over a batch use the masks of its first pass, so that they differ by
the perturbation only; where that is 0, they are equal to the last bit, dropout or not. Torch's
global generator moves on as in a plain step.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from nlp_core.blocks.random_state import get_random_state
from nlp_core.config.adversarial import FgmConfig, FreeLBConfig
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.objective import (
    AdversarialObjective,
    Ball,
    Noise,
    Perturbed,
    intercept,
    repeat_pass,
)

Perturb = Callable[[int, Tensor, Tensor], Perturbed]
"""From the number of a call of a word table, its vectors and the mask of its real words to their
perturbation."""


class LossPass(NamedTuple):
    """A pass whose gradients were added to those of the weights.

    Attributes:
        loss: of the pass, times its share.
        gradients: of the loss, by each perturbation of a call of a word table.
    """

    loss: float
    perturbed: list[Perturbed]
    gradients: list[Tensor]


class LossObjective(AdversarialObjective):
    """Losses of passes over perturbed word vectors, each of which trains the weights."""

    def pass_perturbed(self, batch: Batch, share: float, perturb: Perturb) -> LossPass:
        """Add a pass's gradients, of its loss times `share`, to those of the weights."""
        perturbed: list[Perturbed] = []

        def change(idx: int, vectors_BTD: Tensor, mask_BT: Tensor) -> Tensor:
            item = perturb(idx, vectors_BTD.detach(), mask_BT)
            perturbed.append(item._replace(delta=item.delta.requires_grad_()))
            return vectors_BTD + item.delta

        with intercept(self.tables, change):
            loss = share * self.model.loss(batch)
        value = self.add_gradients(loss)
        gradients = [item.delta.grad for item in perturbed]
        return LossPass(value, perturbed, [g for g in gradients if g is not None])


class FreeLB(LossObjective):
    """Free large-batch adversarial training: every step of the ascent trains the weights.

    mean_k loss(x + delta_k), k = 0 ... K - 1; delta_0 is uniform noise, and delta_{k+1} is delta_k
    moved by step_size g_k / |g_k|, g_k the gradient of the k-th loss, and projected onto the ball.

    Source: Zhu et al. 2020 (FreeLB), algorithm 1; one dropout mask for all K: section 3.3.
    """

    def __init__(self, model: GraphModel, noise: Noise, config: FreeLBConfig) -> None:
        super().__init__(model, noise)
        self.config = config
        self.ball = Ball(config.norm, config.level, config.epsilon)

    def backward(self, batch: Batch, step: int) -> float:
        steps, random_state = self.config.steps, get_random_state()
        self.noise.begin(step)

        def start(idx: int, vectors_BTD: Tensor, mask_BT: Tensor) -> Perturbed:
            return self.noise.draw_uniform(vectors_BTD, mask_BT, ball=self.ball)

        done = self.pass_perturbed(batch, 1 / steps, start)
        loss = done.loss
        for _ in range(steps - 1):
            with repeat_pass(self.model, random_state):
                done = self.pass_perturbed(batch, 1 / steps, self._ascend(done))
            loss += done.loss
        return loss

    def _ascend(self, done: LossPass) -> Perturb:
        """Return the perturbations one step up the gradients of a pass."""
        moved = [
            self.ball.ascend(item, gradient, self.config.step_size)
            for item, gradient in zip(done.perturbed, done.gradients, strict=True)
        ]
        return lambda idx, vectors_BTD, mask_BT: moved[idx]


class Fgm(LossObjective):
    """Fast gradient method: the loss, and the loss where one step against the model leads.

    loss(x) + weight loss(x + epsilon g / |g|_2), g the gradient of loss(x), held constant.

    Source: Miyato et al. 2017 (adversarial training methods for semi-supervised text
        classification), section 3.
    Note: word vectors are perturbed as they are; the paper first makes each number of them mean 0
        and variance 1 over the vocabulary.
    """

    def __init__(self, model: GraphModel, noise: Noise, config: FgmConfig) -> None:
        super().__init__(model, noise)
        self.weight = config.weight
        self.ball = Ball("l2", config.level, config.epsilon)

    def backward(self, batch: Batch, step: int) -> float:
        random_state = get_random_state()

        def start(idx: int, vectors_BTD: Tensor, mask_BT: Tensor) -> Perturbed:
            return Perturbed(torch.zeros_like(vectors_BTD), mask_BT)

        clean = self.pass_perturbed(batch, 1.0, start)
        moved = [
            self.ball.point(gradient, item.mask, self.ball.radius)
            for item, gradient in zip(clean.perturbed, clean.gradients, strict=True)
        ]
        with repeat_pass(self.model, random_state):
            found = self.pass_perturbed(batch, self.weight, lambda idx, vectors, mask: moved[idx])
        return clean.loss + found.loss
