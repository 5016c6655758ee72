"""Training on inputs that are changed inside the model: token cut-off and mixup.

Shape letters: B batch, T tokens, D width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nlp_core.blocks.base import VECTOR
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.random_state import get_random_state
from nlp_core.config.augmentation import CutoffConfig, MixupConfig
from nlp_core.errors import ConfigError
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.objective import (
    AdversarialObjective,
    Noise,
    Objective,
    intercept,
    repeat_pass,
)


class Cutoff(AdversarialObjective):
    """The loss, and the loss without some tokens' vectors; see CutoffConfig."""

    def __init__(self, model: GraphModel, noise: Noise, config: CutoffConfig) -> None:
        super().__init__(model, noise)
        self.config = config

    def backward(self, batch: Batch, step: int) -> float:
        self.noise.begin(step)
        state = get_random_state()
        value = self.add_gradients(self.model.loss(batch))
        with repeat_pass(self.model, state), intercept(self.tables, self._cut):
            loss = self.model.loss(batch)
        return value + self.add_gradients(self.config.weight * loss)

    def _cut(self, call: int, vectors_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        generator = self.noise.generator
        drawn_BT = torch.rand(mask_BT.shape, generator=generator, device=generator.device)
        return zero_padding(vectors_BTD, (drawn_BT >= self.config.share).to(mask_BT.device))


class Mixup(Objective):
    """The loss of mixtures of two examples' vectors; see MixupConfig."""

    noise: Noise

    def __init__(self, model: GraphModel, noise: Noise, config: MixupConfig) -> None:
        super().__init__(model)
        self.noise = noise
        self.config = config

    def backward(self, batch: Batch, step: int) -> float:
        self.noise.begin(step)
        generator = self.noise.generator
        size = len(batch.rows)
        seed = int(torch.randint(1 << 31, (1,), generator=generator))
        share = float(np.random.default_rng(seed).beta(self.config.alpha, self.config.alpha))
        order = torch.randperm(size, generator=generator).to(self.model.device)
        with _mix_inputs(self.model, order, share):
            scores = self.model(batch, informed=True)
        targets = {name: item[order] for name, item in batch.targets.items()}
        others = self.model.sum_losses(scores, replace(batch, targets=targets))
        own = self.model.sum_losses(scores, batch)
        return self.add_gradients(share * own + (1 - share) * others)


@contextmanager
def _mix_inputs(model: GraphModel, order: Tensor, share: float) -> Iterator[None]:
    """Mix the vectors that each head reads with those of other examples."""

    def hook(head: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        vectors_BD, *more = inputs
        return (share * vectors_BD + (1 - share) * vectors_BD[order], *more)

    handles = [head.register_forward_pre_hook(hook) for head in model.heads.values()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def check_mixup(model: GraphModel) -> None:
    """Raise ConfigError unless each head reads one vector of an example."""
    shapes = {layer.name: layer.shape for layer in model.plan.layers}
    for name, head in model.plan.heads.items():
        ranks = [shapes[layer].rank for layer in head.inputs]
        if ranks != [VECTOR] or head.head.grouped:
            raise ConfigError(
                f"{model.plan.where}: head '{name}': found one that reads tokens, several layers "
                "or candidates, and the augmentation mixup mixes the vectors of two examples; take "
                "cutoff or eda."
            )
