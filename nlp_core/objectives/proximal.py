"""The proximal point term of SMART: outputs that stay near those of the averaged weights."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from nlp_core.config.adversarial import ProximalConfig
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.perturbation import repeat_pass


class Average:
    """A moving average of a model's weights, and the outputs of a model of these weights.

    average <- momentum average + (1 - momentum) weights, before each step; at the first step it is
    the weights themselves, and the term is 0. Buffers and weights that are not trained are shared
    with the model, not copied. What several tasks share has one average, that of the first of them.

    Args:
        model: whose weights are averaged.
        config: of the recipe.
        num_steps: of the whole run.
        copies: what other tasks' averages have copied already, by identity, and takes up the rest;
            None: there is no other task.

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
        trained = {name: item for name, item in self.model.named_parameters() if item.requires_grad}
        self.weights = {name: item.requires_grad_(False) for name, item in trained.items()}
        self.config = config
        self.num_early = config.early_share * num_steps

    @torch.no_grad()
    def update(self, model: GraphModel, step: int) -> None:
        """Move towards the weights of the model, before a step that is counted from 0."""
        is_early = step < self.num_early
        momentum = self.config.early_momentum if is_early else self.config.momentum
        current = dict(model.named_parameters())
        for name, average in self.weights.items():
            average.lerp_(current[name], 1 - momentum)

    def outputs(self, batch: Batch, random_state: Tensor) -> dict[str, Tensor]:
        """Return the outputs for a batch, with the dropout masks of a pass that began so.

        They have no gradient, for no weight here asks for one; `torch.no_grad` would choose other
        kernels of the LSTM, whose last bits differ from those of the model's own pass.
        """
        self.model.train()
        with repeat_pass(self.model, random_state):
            return self.model.compute_outputs(batch)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        for name, average in self.weights.items():
            average.copy_(weights[name])
