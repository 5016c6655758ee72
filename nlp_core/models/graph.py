"""A model graph as a torch module: its blocks, with their vectors, and its heads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from nlp_core import arithmetic
from nlp_core.blocks.base import VECTOR, Block
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.column import TEXTS
from nlp_core.config.model import find_axes
from nlp_core.data.vocabulary import Vocabulary, WordVocabulary
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads.base import Decoded, Head
from nlp_core.heads.language_model import LanguageModelHead, MaskedLanguageModelHead
from nlp_core.heads.piece_writing import LabelTextHead
from nlp_core.kinds import HISTORY, LABEL, SENTENCES, Kind
from nlp_core.models.batch import Batch, Shares
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import HeadPlan, LayerPlan, ModelPlan

PASSAGE = "tokens_b"
"""The column that the answers of the kind span are stretches of."""
Layers = tuple[dict[str, Tensor], dict[str, Tensor | None]]
"""The outputs of layers, and their masks."""
HeadScores = tuple[Tensor, Tensor | None]
"""The scores of a head, and the mask of their tokens (None for a vector)."""


class GraphModel(nn.Module):
    """Blocks in the order of their plan, and the heads that read them.

    Args:
        blocks: for each layer that owns parameters its block.
    """

    def __init__(
        self, plan: ModelPlan, blocks: Mapping[str, Block], heads: Mapping[str, Head]
    ) -> None:
        super().__init__()
        arithmetic.install()
        self.plan = plan
        self.blocks = nn.ModuleDict(blocks)
        self.heads = nn.ModuleDict(heads)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and batches are to be; tables of words may stay on the CPU."""
        devices = (item.device for item in self.parameters())
        return next((item for item in devices if item.type != "cpu"), torch.device("cpu"))

    @property
    def scored(self) -> "GraphModel":
        """The graph whose scores a bundle decodes: itself; of an ensemble, that of its members."""
        return self

    def select(self, plan: ModelPlan) -> "GraphModel":
        """Return the part of the model that a part of its plan describes: the same parameters."""
        owners = {layer.owner for layer in plan.layers}
        blocks = {name: self._block(name) for name in self.blocks if name in owners}
        return GraphModel(plan, blocks, {name: self.head(name) for name in plan.heads})

    def forward(self, batch: Batch, *, informed: bool = False) -> dict[str, HeadScores]:
        """Return the scores of each head.

        Args:
            informed: whether heads may read the right answers as an input (teacher forcing).
        """
        layers = self.compute_layers(batch)
        return {name: self.score(name, layers, batch, informed) for name in self.plan.heads}

    def score(self, name: str, layers: Layers, batch: Batch, informed: bool) -> HeadScores:
        """Return the scores of a head for the layers of a batch."""
        values, masks = layers
        head, inputs = self.head(name), self.plan.heads[name].inputs
        mask = masks[inputs[0]]
        more = head.read(batch, informed=informed)
        scores = head(*(values[key] for key in inputs), mask, *more, *self._find_tables(head))
        return scores, mask

    def compute_layers(self, batch: Batch) -> Layers:
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

    def _find_tables(self, head: Head) -> list[Tensor | Block]:
        """Return the table that a language model scores with, or the decoder that a head uses."""
        if head.writes_pieces:
            layer = self.plan.writing_layer
            assert layer is not None, self.plan.where
            return [self._block(layer.owner)]
        if isinstance(head, MaskedLanguageModelHead):
            return [find_piece_table(self.plan, self.blocks)]
        if not isinstance(head, LanguageModelHead):
            return []
        owner = next(item.owner for item in self.plan.layers if item.name == head.vocabulary)
        block = self.blocks[owner]
        assert isinstance(block, WordEmbedding), head.vocabulary
        return [block.weight.to(self.device)]

    def score_with_loss(self, batch: Batch) -> tuple[dict[str, HeadScores], Tensor]:
        """Return what `forward` gives for the batch, `informed`, and the loss of these scores."""
        scores = self(batch, informed=True)
        return scores, self.sum_losses(scores, batch)

    def loss(self, batch: Batch) -> Tensor:
        return self.score_with_loss(batch)[1]

    def sum_losses(self, scores: Mapping[str, HeadScores], batch: Batch) -> Tensor:
        """Return the weighted sum of the heads' losses of scores of an `informed` pass."""
        losses = []
        for name, (score, mask) in scores.items():
            head = self.head(name)
            assert head.target in batch.targets, f"the loss of head '{name}' needs {head.target}"
            where = head.select_where(mask, batch.group)
            loss = head.loss(score, batch.targets[head.target], where)
            loss = self.plan.heads[name].weight * loss
            losses.append(batch.shares.terms[name] * loss if batch.shares else loss)
        return torch.stack(losses).sum()

    def share_terms(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the parts of a step's batch, each with its share of the whole.

        The losses of the parts, and their gradients, then add up to those of the whole batch. In
        training the heads take in all parts, of which this process may compute only some.
        """
        for head in map(self.head, self.heads):
            for batch in batches if head.training else ():
                head.remember(batch.targets[head.target])
        terms = find_shares([self.count_terms(batch) for batch in batches])
        rows = find_shares([self.count_rows(batch) for batch in batches])
        shares = [Shares(*pair) for pair in zip(terms, rows, strict=True)]
        return [replace(batch, shares=own) for batch, own in zip(batches, shares, strict=True)]

    def count_terms(self, batch: Batch) -> dict[str, float]:
        """Return by head how many terms its loss of a batch is the mean of."""
        return {
            name: float(self.head(name).count_terms(*self._find_target(name, batch)))
            for name in self.heads
        }

    def count_rows(self, batch: Batch) -> dict[str, float]:
        """Return by head how many rows its outputs of a batch have, or a multiple of that."""
        return {
            name: float(self.head(name).count_rows(*self._find_target(name, batch)))
            for name in self.heads
        }

    def _find_target(self, name: str, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what a head's loss reads besides scores: its target, and mask or group."""
        head, mask = self.head(name), self.find_mask(name, batch)
        return batch.targets[head.target], head.select_where(mask, batch.group)

    def find_mask(self, name: str, batch: Batch) -> Tensor | None:
        """Return the mask of the places that a head reads; None of a vector."""
        axes = self.plan.heads[name].axes
        inputs = [item for item, column in self.plan.inputs.items() if find_axes(column) == axes]
        return batch.masks.get(inputs[0]) if inputs else None

    def outputs(self, scores: Mapping[str, HeadScores], batch: Batch) -> dict[str, Tensor]:
        """Return for each head the logits or values that another pass's can be compared with."""
        found = {}
        for name, (score, mask) in scores.items():
            head = self.head(name)
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
            head = self.head(name)
            more = [batch.targets[head.target]] if head.decodes_target else []
            found[name] = head.decode(score, mask, *more)
        return found

    def _block(self, name: str) -> Block:
        block = self.blocks[name]
        assert isinstance(block, Block), name
        return block

    def head(self, name: str) -> Head:
        head = self.heads[name]
        assert isinstance(head, Head), name
        return head


def build_model(plan: ModelPlan, featurizer: Featurizer, *, kind: Kind) -> GraphModel:
    """Build the model of one task, whose heads name none; see `build_shared_model`."""
    return build_shared_model(plan, {None: featurizer}, {None: kind})


def build_shared_model(
    plan: ModelPlan, featurizers: Mapping[str | None, Featurizer], kinds: Mapping[str | None, Kind]
) -> GraphModel:
    """Build a model; its random weights come from torch's global generator.

    Args:
        featurizers: for each task its part of the model and the vocabularies, which all share;
            the one task of a model whose heads name none is None.

    Raises:
        ConfigError: a head does not serve tasks of that kind; a target of a task has no head, or
            two of them.
    """
    blocks = _build_blocks(plan, next(iter(featurizers.values())))
    heads = {}
    for name, head in plan.heads.items():
        if head.task not in kinds:
            raise ConfigError(
                f"{plan.where}: head '{name}': task: found '{head.task}', which the experiment has "
                f"no data of. {suggest(str(head.task), [str(task) for task in kinds])}"
            )
        heads[name] = _build_head(plan, head, featurizers[head.task], kinds[head.task], blocks)
    for task, featurizer in featurizers.items():
        _check_targets(featurizer, kinds[task])
    return GraphModel(plan, blocks, heads)


def _build_blocks(plan: ModelPlan, featurizer: Featurizer) -> dict[str, Block]:
    blocks: dict[str, Block] = {}
    for layer in plan.layers:
        if not layer.is_owner:
            continue
        vocabulary = featurizer.vocabularies.get(layer.name)
        if vocabulary is None:
            block = layer.block(*(shape.dim for shape in layer.shapes), **layer.options)
        else:
            block = _start_block(layer, vocabulary, plan.where)
        if isinstance(block, WordEmbedding) and isinstance(vocabulary, WordVocabulary):
            _fill_embedding(block, vocabulary)
        blocks[layer.name] = block
    return blocks


def _start_block(layer: LayerPlan, vocabulary: Vocabulary, where: str) -> Block:
    try:
        dims = (shape.dim for shape in layer.shapes[1:])
        return layer.block.start(vocabulary, *dims, **layer.options)
    except ConfigError as err:
        raise ConfigError(f"{where}: layer '{layer.name}': {err}") from err


def _fill_embedding(block: WordEmbedding, vocabulary: WordVocabulary) -> None:
    """Give a word embedding its pretrained vectors and its list of rare words."""
    if vocabulary.table is not None:
        vectors = torch.from_numpy(vocabulary.table.vectors)
        block.load_vectors(vectors, torch.from_numpy(vocabulary.rows()))
    block.rare = torch.from_numpy(vocabulary.rare())


def _build_head(
    plan: ModelPlan,
    head: HeadPlan,
    featurizer: Featurizer,
    kind: Kind,
    blocks: Mapping[str, nn.Module],
) -> Head:
    place = f"{plan.where}: head '{head.name}'"
    if kind.name not in head.head.kinds:
        raise ConfigError(
            f"{place}: found a head for {', '.join(sorted(head.head.kinds))}, expected one for a "
            f"task of kind {kind}."
        )
    if kind.has_passages and head.axes != (PASSAGE,):
        raise ConfigError(
            f"{place}: inputs: found a layer over {' and '.join(head.axes)}, expected one over "
            f"{PASSAGE}, the text that has the answers."
        )
    if kind.has_sentences and head.axes != (SENTENCES,):
        raise ConfigError(
            f"{place}: inputs: found a layer over {' and '.join(head.axes)}, expected one over "
            f"{SENTENCES}, such as a sentence_encoder."
        )
    copies_pieces = kind.writes_text and head.axes == (TEXTS,) and not head.head.reads_texts
    if head.axes == (HISTORY,) or copies_pieces:
        raise ConfigError(
            f"{place}: inputs: found a layer over {head.axes[0]}, expected one over tokens or "
            "tokens.pieces, whose words the head labels or copies."
        )
    sizes = [shape.dim for shape in head.shapes]
    try:
        if issubclass(head.head, MaskedLanguageModelHead):
            sizes += find_piece_table(plan, blocks).shape
        elif issubclass(head.head, LanguageModelHead):
            sizes.append(len(featurizer.predicted_words))
        else:
            sizes.append(len(featurizer.targets[head.head.target]))
        built = head.head(*sizes, **head.options)
        if isinstance(built, LabelTextHead):
            built.spelling = _spell_labels(featurizer)
        return built
    except ConfigError as err:
        raise ConfigError(f"{place}: {err}") from err


def _spell_labels(featurizer: Featurizer) -> list[list[int]]:
    """Return the pieces that write each label; ConfigError if two have the same ones."""
    labels, pieces = featurizer.targets[LABEL], featurizer.written_pieces
    assert pieces is not None, featurizer.plan.where
    spelt = pieces.spell(labels)
    rows = [spelt.take(np.array([idx]))[0].tolist() for idx in range(len(labels))]
    for idx, row in enumerate(rows):
        if rows.index(row) < idx:
            raise ConfigError(
                f"found the labels '{labels[rows.index(row)]}' and '{labels[idx]}', which the "
                "tokenizer splits into the same pieces, expected different ones; rename one."
            )
    return rows


def _check_targets(featurizer: Featurizer, kind: Kind) -> None:
    """Raise if a model leaves a target of the task out, or predicts one twice."""
    plan = featurizer.plan
    for target in featurizer.targets:
        heads = [name for name, head in plan.heads.items() if head.head.target == target]
        if len(heads) != 1:
            found = f"the heads {', '.join(sorted(heads))}" if heads else "no head"
            raise ConfigError(
                f"{plan.where}: heads: found {found} for the {target} of a task of kind {kind}, "
                "expected exactly one."
            )


def find_word_tables(model: nn.Module) -> list[nn.Module]:
    """Return the modules that give the blocks of a model their word vectors, each once."""
    tables = [block.find_word_table() for block in model.modules() if isinstance(block, Block)]
    return list({id(table): table for table in tables if table is not None}.values())


def find_piece_table(plan: ModelPlan, blocks: Mapping[str, nn.Module] | nn.ModuleDict) -> Tensor:
    """Return the table of the pieces' vectors of the encoder that reads whole texts."""
    texts = {name for name, column in plan.inputs.items() if column == TEXTS}
    owner = next(layer.owner for layer in plan.layers if texts & set(layer.inputs))
    block = blocks[owner]
    assert isinstance(block, PretrainedEncoder), owner
    table = block.find_word_table().weight
    assert isinstance(table, Tensor), owner
    return table


def find_shares(counts: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the share of each part in the sum over all parts, by name; 0 of a sum of 0."""
    totals = {name: sum(count[name] for count in counts) or 1.0 for name in counts[0]}
    return [{name: count[name] / totals[name] for name in totals} for count in counts]


def count_parameters(model: nn.Module) -> dict[str, int]:
    """Return how many numbers a model holds, and how many of them are trained."""
    sizes = [(item.numel(), item.requires_grad) for item in model.parameters()]
    return {
        "total": sum(size for size, _ in sizes),
        "trainable": sum(size for size, trained in sizes if trained),
    }
