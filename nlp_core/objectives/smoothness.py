"""Training on how little outputs move when word vectors are perturbed: SMART and VAT.

The outputs of two passes are compared head by head: the divergence is a mean over a head's rows
(examples, real tokens, labels of an example, questions, ends of an answer, masked pieces), times
the weight of the head's loss, summed over the heads. Heads of one value are compared by the squared
error.

Dropout: as in `adversarial`, all passes use the masks of the first, so that a divergence between
them measures the perturbation and nothing else; it is exactly 0 where nothing is perturbed.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nlp_core.blocks.random_state import get_random_state
from nlp_core.config.adversarial import DivergenceName, ProximalConfig, SmartConfig, VatConfig
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.divergence import mean_divergence
from nlp_core.objectives.objective import (
    AdversarialObjective,
    Ball,
    Noise,
    Perturbed,
    freeze,
    intercept,
    repeat_pass,
)


class Average:
    """A moving average of a model's weights, and the outputs of a model of these weights.

    average <- momentum average + (1 - momentum) weights, before each step; at the first step it is
    the weights themselves, and the term is 0. Buffers and weights that are not trained are shared
    with the model, not copied. What several tasks share has one average, that of the first of them.

    Args:
        copies: the memo of `copy.deepcopy` that the averages of all tasks share; None: one task.

    Source: Jiang et al. 2020 (SMART), section 3.2, the momentum method.
    Note: the average's pass uses the dropout masks of the clean pass, so that equal weights mean
        equal outputs.
    """

    def __init__(
        self,
        model: GraphModel,
        config: ProximalConfig,
        num_steps: int,
        copies: dict[int, object] | None = None,
    ) -> None:
        fixed = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        memo = {} if copies is None else copies
        memo |= {id(item): item for item in [*fixed, *model.buffers()]}
        self.model = copy.deepcopy(model, memo)
        for module in self.model.modules():
            if isinstance(module, nn.RNNBase):
                # a GPU reads these weights from one block of memory, which the copy breaks up
                module.flatten_parameters()
        trained = {name: item for name, item in self.model.named_parameters() if item.requires_grad}
        self.weights = {name: item.requires_grad_(False) for name, item in trained.items()}
        self.config = config
        self.num_early = config.early_share * num_steps

    @torch.no_grad()
    def update(self, model: GraphModel, step: int) -> None:
        is_early = step < self.num_early
        momentum = self.config.early_momentum if is_early else self.config.momentum
        current = dict(model.named_parameters())
        for name, average in self.weights.items():
            average.lerp_(current[name], 1 - momentum)

    def outputs(self, batch: Batch, random_state: Tensor) -> dict[str, Tensor]:
        """Return the outputs for a batch, with the dropout masks that this random state gives."""
        self.model.train()
        # no weight here needs a gradient; torch.no_grad would choose other kernels of the LSTM,
        # whose last bits differ from those of the model's own pass
        with repeat_pass(self.model, random_state):
            return self.model.compute_outputs(batch)


AVERAGE = "average."


class CleanPass(NamedTuple):
    """The pass over the batch as it is.

    Attributes:
        vectors, masks: of each call of a word table, [B, T, D], and where it reads real words.
        outputs: by head logits [N, L] or values [N].
        random_state: of torch's global generator, before the pass.
        is_rounded: whether most of the pass was computed in 16 bits.
    """

    vectors: list[Tensor]
    masks: list[Tensor]
    loss: Tensor
    outputs: dict[str, Tensor]
    random_state: Tensor
    is_rounded: bool


class SmoothObjective(AdversarialObjective, ABC):
    """The loss, and how far the outputs move when the word vectors do.

    loss + weight D(f(x), f(x + delta)). Loss and clean outputs come from one pass. delta is found
    by gradients of D with respect to delta only, computed in float32 whatever the precision of the
    step: 16 bits round the outputs of a small delta to the clean ones.
    """

    def __init__(
        self,
        model: GraphModel,
        noise: Noise,
        config: SmartConfig | VatConfig,
        divergence: DivergenceName,
    ) -> None:
        super().__init__(model, noise)
        self.weight, self.every, self.steps = config.weight, config.every, config.steps
        self.divergence = divergence

    def backward(self, batch: Batch, step: int) -> float:
        self.noise.begin(step)
        clean = self._pass_clean(batch)
        loss = clean.loss + self.add_terms(batch, clean)
        if step % self.every == 0:
            loss = loss + self.every * self.weight * self._move(batch, clean)
        return self.add_gradients(loss)

    def _move(self, batch: Batch, clean: CleanPass) -> Tensor:
        """Return the divergence between the outputs as they are and the perturbed ones."""
        with torch.autocast(clean.loss.device.type, enabled=False):
            found = self.find_perturbations(batch, self._compute_exactly(batch, clean))
        outputs = self._pass_perturbed(batch, clean, clean.vectors, [item.delta for item in found])
        return self._compare(batch, self.choose_reference(clean), outputs)

    def _compute_exactly(self, batch: Batch, clean: CleanPass) -> CleanPass:
        if not clean.is_rounded:
            return clean
        vectors = [item.detach() for item in clean.vectors]
        with freeze(self.model):
            nothing = [torch.zeros_like(item) for item in vectors]
            return clean._replace(outputs=self._pass_perturbed(batch, clean, vectors, nothing))

    def find_perturbations(self, batch: Batch, clean: CleanPass) -> list[Perturbed]:
        starts = zip(clean.vectors, clean.masks, strict=True)
        found = [self.start_perturbation(vectors, mask) for vectors, mask in starts]
        for step in range(self.steps):
            gradients = self.find_gradients(batch, clean, found)
            pairs = zip(found, gradients, strict=True)
            found = [self.move_perturbation(item, gradient, step) for item, gradient in pairs]
        return found

    @abstractmethod
    def start_perturbation(self, vectors_BTD: Tensor, mask_BT: Tensor) -> Perturbed: ...

    @abstractmethod
    def move_perturbation(self, perturbed: Perturbed, gradient_BTD: Tensor, step: int) -> Perturbed:
        """Return a perturbation moved along the gradient of the divergence."""

    def choose_reference(self, clean: CleanPass) -> dict[str, Tensor]:
        """Return the outputs that the perturbed ones are compared with."""
        return clean.outputs

    def add_terms(self, batch: Batch, clean: CleanPass) -> Tensor | float:
        """Return what the method adds to the loss and the divergence."""
        return 0.0

    def find_gradients(
        self, batch: Batch, clean: CleanPass, perturbed: Sequence[Perturbed]
    ) -> tuple[Tensor, ...]:
        deltas = [item.delta.detach().requires_grad_() for item in perturbed]
        vectors = [item.detach() for item in clean.vectors]
        reference = {name: item.detach() for name, item in clean.outputs.items()}
        with freeze(self.model):
            outputs = self._pass_perturbed(batch, clean, vectors, deltas)
            return torch.autograd.grad(self._compare(batch, reference, outputs), deltas)

    def _pass_clean(self, batch: Batch) -> CleanPass:
        random_state = get_random_state()
        vectors: list[Tensor] = []
        masks: list[Tensor] = []

        def record(idx: int, vectors_BTD: Tensor, mask_BT: Tensor) -> Tensor:
            vectors.append(vectors_BTD)
            masks.append(mask_BT)
            return vectors_BTD

        with intercept(self.tables, record):
            scores, loss = self.model.score_with_loss(batch)
        outputs = self.model.outputs(scores, batch)
        is_rounded = torch.is_autocast_enabled(loss.device.type)
        return CleanPass(vectors, masks, loss, outputs, random_state, is_rounded)

    def _pass_perturbed(
        self, batch: Batch, clean: CleanPass, vectors: Sequence[Tensor], deltas: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Return the outputs for the sums of vectors and deltas in the place of looked-up ones."""
        with (
            repeat_pass(self.model, clean.random_state),
            intercept(self.tables, lambda idx, looked_up, mask: vectors[idx] + deltas[idx]),
        ):
            return self.model.compute_outputs(batch)

    def _compare(
        self, batch: Batch, first: Mapping[str, Tensor], second: Mapping[str, Tensor]
    ) -> Tensor:
        weights = self.model.compute_weights(batch)
        parts = [
            weights[name] * mean_divergence(self.divergence, first[name], second[name])
            for name in first
        ]
        return torch.stack(parts).sum()


class Smart(SmoothObjective):
    """Smoothness-inducing regularisation, and the proximal point term where it is asked for.

    loss + weight D(f(x), f(x + delta)) + mu D(f(x), average(x)); delta is normal noise moved by
    `steps` steps of ascent of D, each step_size g / |g| long in the ball's norm, and after each
    step projected onto the ball. Gradients of the weights go through both sides of D.

    Args:
        average: of the proximal point term; None: no such term.

    Source: Jiang et al. 2020 (SMART), sections 3.1 and 3.2.
    Note: the step has a given length; along a plain gradient, which shrinks with the noise, it
        would stay where the noise is.
    """

    def __init__(
        self, model: GraphModel, noise: Noise, config: SmartConfig, average: Average | None
    ) -> None:
        super().__init__(model, noise, config, config.divergence)
        self.config = config
        self.ball = Ball(config.norm, config.level, config.epsilon)
        self.average = average

    def start_perturbation(self, vectors_BTD: Tensor, mask_BT: Tensor) -> Perturbed:
        drawn = self.noise.draw_normal(vectors_BTD, mask_BT, std=self.config.noise_std)
        return drawn._replace(delta=self.ball.project(drawn.delta))

    def move_perturbation(self, perturbed: Perturbed, gradient_BTD: Tensor, step: int) -> Perturbed:
        return self.ball.ascend(perturbed, gradient_BTD, self.config.step_size)

    def begin(self, step: int) -> None:
        if self.average is not None:
            self.average.update(self.model, step)

    def add_terms(self, batch: Batch, clean: CleanPass) -> Tensor | float:
        if self.average is None:
            return 0.0
        averaged = self.average.outputs(batch, clean.random_state)
        return self.average.config.weight * self._compare(batch, clean.outputs, averaged)

    def state(self) -> dict[str, Tensor]:
        weights = {} if self.average is None else self.average.weights
        return {AVERAGE + name: item for name, item in weights.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        weights = {} if self.average is None else self.average.weights
        for name, average in weights.items():
            average.copy_(state[AVERAGE + name])


class Vat(SmoothObjective):
    """Virtual adversarial training: outputs that stay in the direction that changes them most.

    loss + weight KL(f(x) || f(x + epsilon d)), f(x) held constant. d begins as a random direction;
    each power iteration takes d <- g / |g|, with g the gradient of KL(f(x) || f(x + probe d)) by
    probe d, which turns d towards the largest eigenvector of the divergence's curvature.

    Source: Miyato et al. 2017 (adversarial training methods for semi-supervised text
        classification), section 3; the power iteration: Miyato et al. 2016 (distributional
        smoothing with virtual adversarial training), section 2.
    Note: word vectors are perturbed as they are; the paper first makes each number of them mean 0
        and variance 1 over the vocabulary.
    """

    def __init__(self, model: GraphModel, noise: Noise, config: VatConfig) -> None:
        super().__init__(model, noise, config, "kl")
        self.ball = Ball("l2", config.level, config.epsilon)
        self.probe = config.probe

    def start_perturbation(self, vectors_BTD: Tensor, mask_BT: Tensor) -> Perturbed:
        drawn = self.noise.draw_normal(vectors_BTD, mask_BT, std=1.0)
        return self.ball.point(drawn.delta, mask_BT, self.probe)

    def move_perturbation(self, perturbed: Perturbed, gradient_BTD: Tensor, step: int) -> Perturbed:
        length = self.ball.radius if step == self.steps - 1 else self.probe
        return self.ball.point(gradient_BTD, perturbed.mask, length)

    def choose_reference(self, clean: CleanPass) -> dict[str, Tensor]:
        return {name: item.detach() for name, item in clean.outputs.items()}
