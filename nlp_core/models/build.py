"""Build the torch module of a model: its blocks, with their vectors, and its heads."""

from collections.abc import Mapping

import torch
from torch import nn

from nlp_core.blocks.base import Block
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.data.vocabulary import Vocabulary, WordVocabulary
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads.base import Head
from nlp_core.heads.language_model import LanguageModelHead
from nlp_core.heads.masked_language_model import MaskedLanguageModelHead
from nlp_core.kinds import Kind
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, find_piece_table
from nlp_core.models.plan import HeadPlan, LayerPlan, ModelPlan

PASSAGE = "tokens_b"
"""The column that the answers of the kind span are stretches of."""


def build_model(plan: ModelPlan, featurizer: Featurizer, *, kind: Kind) -> GraphModel:
    """Build the model of one task; see `build_shared_model`.

    Args:
        plan: the checked model file, whose heads name no task.
    """
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
    vocabularies = next(iter(featurizers.values())).vocabularies
    blocks: dict[str, Block] = {}
    for layer in plan.layers:
        if layer.is_owner:
            vocabulary = vocabularies.get(layer.name)
            if vocabulary is None:
                dims = [shape.dim for shape in layer.shapes]
                blocks[layer.name] = layer.block(*dims, **layer.options)
            else:
                blocks[layer.name] = _start(plan, layer, vocabulary)
    for layer in plan.raw_layers:
        block = blocks[layer.owner]
        vocabulary = vocabularies[layer.owner]
        if isinstance(block, WordEmbedding) and isinstance(vocabulary, WordVocabulary):
            fill_embedding(block, vocabulary)
    heads = {}
    for name, head in plan.heads.items():
        if head.task not in kinds:
            raise ConfigError(
                f"{plan.where}: head '{name}': task: found '{head.task}', which the experiment has "
                f"no data of. {suggest(str(head.task), [str(task) for task in kinds])}"
            )
        featurizer, kind = featurizers[head.task], kinds[head.task]
        heads[name] = _build_head(plan, head, featurizer, kind, blocks)
    for task, featurizer in featurizers.items():
        _check_targets(featurizer, kinds[task])
    return GraphModel(plan, blocks, heads)


def _start(plan: ModelPlan, layer: LayerPlan, vocabulary: Vocabulary) -> Block:
    try:
        return layer.block.start(vocabulary, **layer.options)
    except ConfigError as err:
        raise ConfigError(f"{plan.where}: layer '{layer.name}': {err}") from err


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
    try:
        is_causal = issubclass(head.head, LanguageModelHead)
        targets = featurizer.targets[head.head.target]
        num_labels = len(featurizer.predicted_words if is_causal else targets)
        widths = [shape.dim for shape in head.shapes]
        if issubclass(head.head, MaskedLanguageModelHead):
            return head.head(*widths, *find_piece_table(plan, blocks).shape, **head.options)
        return head.head(*widths, num_labels, **head.options)
    except ConfigError as err:
        raise ConfigError(f"{place}: {err}") from err


def _check_targets(featurizer: Featurizer, kind: Kind) -> None:
    """Refuse a model that leaves a target of the task out, or predicts one twice."""
    plan = featurizer.plan
    for target in featurizer.targets:
        heads = [name for name, head in plan.heads.items() if head.head.target == target]
        if len(heads) != 1:
            found = f"the heads {', '.join(sorted(heads))}" if heads else "no head"
            raise ConfigError(
                f"{plan.where}: heads: found {found} for the {target} of a task of kind {kind}, "
                "expected exactly one."
            )


def fill_embedding(block: WordEmbedding, vocabulary: WordVocabulary) -> None:
    """Give a word embedding its pretrained vectors and its list of rare words."""
    if vocabulary.table is not None:
        vectors = torch.from_numpy(vocabulary.table.vectors)
        block.load_vectors(vectors, torch.from_numpy(vocabulary.rows()))
    block.mark_rare(torch.from_numpy(vocabulary.rare()))
