"""A model graph as a torch module, built from its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from nlp_core import arithmetic
from nlp_core.blocks.base import VECTOR, Block
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.column import TEXTS
from nlp_core.config.model import find_axes
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.heads.base import Decoded, Head
from nlp_core.heads.language_model import LanguageModelHead
from nlp_core.heads.masked_language_model import MaskedLanguageModelHead
from nlp_core.models.batch import Batch, Shares
from nlp_core.models.plan import ModelPlan


class GraphModel(nn.Module):
    """Blocks in the order of their plan, and the heads that read them.

    Args:
        blocks: for each layer that owns parameters its block.
    """

    def __init__(self, plan: ModelPlan, blocks: dict[str, Block], heads: dict[str, Head]) -> None:
        super().__init__()
        arithmetic.install()
        self.plan = plan
        self.blocks = nn.ModuleDict(blocks)
        self.heads = nn.ModuleDict(heads)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and batches are to be."""
        return next(self.parameters()).device

    def select(self, plan: ModelPlan) -> "GraphModel":
        """Return the part of the model that a part of its plan describes: the same parameters."""
        owners = {layer.owner for layer in plan.layers}
        blocks = {name: self._block(name) for name in self.blocks if name in owners}
        return GraphModel(plan, blocks, {name: self._head(name) for name in plan.heads})

    def forward(
        self, batch: Batch, *, informed: bool = False
    ) -> dict[str, tuple[Tensor, Tensor | None]]:
        """Return for each head its scores and the mask of their tokens (None for a vector).

        Args:
            informed: whether heads may read the right answers as an input (teacher forcing).
        """
        values, masks = self.compute_layers(batch)
        scores = {}
        for name, plan in self.plan.heads.items():
            head, mask = self._head(name), masks[plan.inputs[0]]
            inputs = [values[layer] for layer in plan.inputs]
            more = head.read(batch, informed=informed)
            scores[name] = (head(*inputs, mask, *more, *self._find_tables(head)), mask)
        return scores

    def compute_layers(self, batch: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor | None]]:
        """Return the output of each layer, and the mask of its places (None for a vector)."""
        values: dict[str, Tensor] = {}
        masks: dict[str, Tensor | None] = dict.fromkeys(self.plan.inputs)
        masks.update(batch.masks)
        for layer in self.plan.layers:
            block = self._block(layer.owner)
            fields: list[Tensor | None] = []
            for name in layer.inputs:
                raw = name in self.plan.inputs
                fields += batch.features[layer.name] if raw else (values[name],)
                fields.append(masks[name])
            values[layer.name] = block(*fields)
            is_vector = layer.shape.rank == VECTOR
            masks[layer.name] = (
                None if is_vector else block.output_mask(*(masks[name] for name in layer.inputs))
            )
        return values, masks

    def score_with_loss(
        self, batch: Batch
    ) -> tuple[dict[str, tuple[Tensor, Tensor | None]], Tensor]:
        """Return what `forward` gives for the batch, `informed`, and its loss, of one pass.

        That is the sum of the heads' losses, each times its weight.
        """
        scores = self(batch, informed=True)
        return scores, self.sum_losses(scores, batch)

    def loss(self, batch: Batch) -> Tensor:
        return self.score_with_loss(batch)[1]

    def sum_losses(
        self, scores: Mapping[str, tuple[Tensor, Tensor | None]], batch: Batch
    ) -> Tensor:
        """Return the loss of scores that `forward` gave for the batch, `informed`."""
        losses = []
        for name, (score, mask) in scores.items():
            head = self._head(name)
            assert head.target in batch.targets, f"the loss of head '{name}' needs {head.target}"
            where = head.select_where(mask, batch.group)
            loss = head.loss(score, batch.targets[head.target], where)
            loss = self.plan.heads[name].weight * loss
            losses.append(batch.shares.terms[name] * loss if batch.shares else loss)
        return torch.stack(losses).sum()

    def share_terms(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the parts of a step's batch, each with its share of the whole.

        The losses of the parts, and their gradients, then add up to those of the whole batch.
        """
        terms = find_shares([self.count_terms(batch) for batch in batches])
        rows = find_shares([self.count_rows(batch) for batch in batches])
        shares = [Shares(*pair) for pair in zip(terms, rows, strict=True)]
        return [replace(batch, shares=own) for batch, own in zip(batches, shares, strict=True)]

    def count_terms(self, batch: Batch) -> dict[str, float]:
        """Return by head how many terms its loss of a batch is the mean of."""
        return {
            name: float(self._head(name).count_terms(*self._find_target(name, batch)))
            for name in self.plan.heads
        }

    def count_rows(self, batch: Batch) -> dict[str, float]:
        """Return by head how many rows its outputs of a batch have, or a multiple of that."""
        return {
            name: float(self._head(name).count_rows(*self._find_target(name, batch)))
            for name in self.plan.heads
        }

    def _find_target(self, name: str, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what a head's loss reads besides scores: its target, and mask or group."""
        head, axes = self._head(name), self.plan.heads[name].axes
        inputs = [item for item, column in self.plan.inputs.items() if find_axes(column) == axes]
        mask = batch.masks.get(inputs[0]) if inputs else None
        return batch.targets[head.target], head.select_where(mask, batch.group)

    def outputs(
        self, scores: Mapping[str, tuple[Tensor, Tensor | None]], batch: Batch
    ) -> dict[str, Tensor]:
        """Return for each head the logits or values that another pass's can be compared with."""
        found = {}
        for name, (score, mask) in scores.items():
            head = self._head(name)
            found[name] = head.outputs(score, head.select_where(mask, batch.group))
        return found

    def compute_outputs(self, batch: Batch) -> dict[str, Tensor]:
        return self.outputs(self(batch, informed=True), batch)

    def compute_weights(self, batch: Batch) -> dict[str, float]:
        """Return each head's weight, times the share of the batch in the rows of its step."""
        shares = {} if batch.shares is None else batch.shares.rows
        return {name: head.weight * shares.get(name, 1.0) for name, head in self.plan.heads.items()}

    def decode(self, batch: Batch) -> dict[str, Decoded]:
        found = {}
        for name, (score, mask) in self(batch).items():
            head = self._head(name)
            more = [batch.targets[head.target]] if head.decodes_target else []
            found[name] = head.decode(score, mask, *more)
        return found

    def _block(self, name: str) -> Block:
        block = self.blocks[name]
        assert isinstance(block, Block), name
        return block

    def _find_tables(self, head: Head) -> list[Tensor]:
        """Return the table of embeddings that a language model scores words or pieces with."""
        if isinstance(head, MaskedLanguageModelHead):
            return [find_piece_table(self.plan, self.blocks)]
        if not isinstance(head, LanguageModelHead):
            return []
        owner = next(item.owner for item in self.plan.layers if item.name == head.vocabulary)
        block = self.blocks[owner]
        assert isinstance(block, WordEmbedding), head.vocabulary
        return [block.weight]

    def _head(self, name: str) -> Head:
        head = self.heads[name]
        assert isinstance(head, Head), name
        return head


def find_word_tables(model: nn.Module) -> list[nn.Module]:
    """Return the modules that give the blocks of a model their word vectors, each once."""
    tables = [block.find_word_table() for block in model.modules() if isinstance(block, Block)]
    return list({id(table): table for table in tables if table is not None}.values())


def find_shares(counts: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the share of each part in the sum over all parts, by name; 0 of a sum of 0."""
    totals = {name: sum(count[name] for count in counts) or 1.0 for name in counts[0]}
    return [{name: count[name] / totals[name] for name in totals} for count in counts]


def find_piece_table(plan: ModelPlan, blocks: Mapping[str, nn.Module] | nn.ModuleDict) -> Tensor:
    """Return the table of the pieces' vectors of the encoder that reads whole texts."""
    texts = {name for name, column in plan.inputs.items() if column == TEXTS}
    owner = next(layer.owner for layer in plan.layers if texts & set(layer.inputs))
    block = blocks[owner]
    assert isinstance(block, PretrainedEncoder), owner
    table = block.find_word_table().weight
    assert isinstance(table, Tensor), owner
    return table


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Return how many numbers a model holds, and how many of them are trained."""
    sizes = [(item.numel(), item.requires_grad) for item in model.parameters()]
    return {
        "total": sum(size for size, _ in sizes),
        "trainable": sum(size for size, trained in sizes if trained),
    }
