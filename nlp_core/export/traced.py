"""A trained model as a module whose arguments are the inputs of its graph.

Shape letters: B batch, T tokens, D width, L labels, V words of the vocabulary, R rows of a table.
"""

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import Block
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.export.inputs import InputPlan
from nlp_core.export.reading import mask_lengths
from nlp_core.heads.sentence import ClassificationHead, MultiLabelHead
from nlp_core.heads.tagging import TaggingHead
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel


class TableEmbedding(Block):
    """A word embedding whose trained rows and vectors are one table."""

    table: Tensor

    def __init__(self, block: WordEmbedding) -> None:
        super().__init__()
        self.register_buffer("table", torch.cat([block.weight.detach(), block.fixed]))

    def forward(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        return functional.embedding(ids_BT, self.table)


class TracedModel(nn.Module):
    """A model on one task that reads a runtime's inputs; the trained model stays unchanged."""

    def __init__(self, model: GraphModel, inputs: InputPlan) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for name, block in self.model.blocks.items():
            if isinstance(block, WordEmbedding):
                self.model.blocks[name] = TableEmbedding(block)
        self.readers = nn.ModuleDict(inputs.readers)
        self.lengths = inputs.lengths
        self.timed = {name: _find_timed(inputs, name) for name in set(self.lengths.values())}

    def forward(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return for each head its scores, as probabilities if it gives any."""
        masks = {}
        for name, lengths in self.lengths.items():
            timed, axis = self.timed[lengths]
            masks[name] = mask_lengths(tensors[lengths], tensors[timed].shape[axis])
        features = {}
        for layer in self.model.plan.layers:
            if layer.name in self.readers:
                mask = masks.get(layer.inputs[0])
                features[layer.name] = self.readers[layer.name](tensors, mask)
        scores = self.model(Batch(features, masks, {}, np.empty(0)))
        return {name: finish(self.model.heads[name], score) for name, (score, _) in scores.items()}


def _find_timed(inputs: InputPlan, lengths: str) -> tuple[str, int]:
    """Return the tensor, and its dimension, that is as long as the longest text."""
    axis = lengths.removesuffix(".lengths")
    for name, plan in inputs.tensors.items():
        for idx, size in enumerate(plan.shape):
            if size in (f"T:{axis}", f"L:{axis}"):
                return name, idx
    raise AssertionError(lengths)


def finish(head: nn.Module, scores: Tensor) -> Tensor:
    """Return the scores of a head as probabilities, if each label has its own."""
    if type(head) in (ClassificationHead, TaggingHead):
        return scores.softmax(-1)
    return scores.sigmoid() if isinstance(head, MultiLabelHead) else scores
