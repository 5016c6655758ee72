"""The model that pre-training trains: an encoder, and the heads that it learns from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from nlp_core.config.model import parse_model
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.encoders.folder import find_width
from nlp_core.encoders.pretrained import PretrainedEncoder, save_encoder
from nlp_core.files import write_text
from nlp_core.kinds import LABEL, MASKED, MASKED_LANGUAGE_MODEL, PAIR_CLASSIFICATION, Kind
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_shared_model
from nlp_core.models.plan import plan_model
from nlp_core.models.replacement import ENCODER, PIECE, ReplacedPieces, build_replaced_pieces
from nlp_core.models.saving import HEADS, load_pretrained_head, save_tensors

PAIR, PAIRS = "pair", "pairs"
ANSWERS = ["no", "yes"]
"""The labels of a pair of segments, in the order of their ids."""


@dataclass(frozen=True)
class PretrainingModel:
    """An encoder and its heads."""

    model: GraphModel
    pieces: GraphModel
    """The part that predicts masked pieces."""
    pairs: GraphModel | None
    """The part that predicts the answers of pairs; None: there are no pairs."""

    @property
    def encoder(self) -> Any:  # Any: a class of its own for each sort of encoder
        block = self.model.blocks[ENCODER]
        assert isinstance(block, PretrainedEncoder), type(block)
        return block.encoder

    def save(self, folder: Path, tokenizer: str) -> None:
        save_encoder(self.encoder, folder)
        write_text(folder / "tokenizer.json", tokenizer)
        if isinstance(self.model, ReplacedPieces):
            return  # the generator's head does not fit the encoder
        weights: dict[str, Tensor] = self.model.heads[PIECE].state_dict()
        if self.pairs is not None:
            pair = self.model.heads[PAIR].state_dict()
            weights |= {f"{PAIR}.{name}": weight for name, weight in pair.items()}
        save_tensors(folder / HEADS, weights)


def build_pretraining_model(
    config: EncoderConfig, architecture: Mapping[str, Any], tokenizer: str, *, task: str, where: str
) -> PretrainingModel:
    """Build encoder and heads, with the weights of init where it has them.

    Args:
        architecture: the configuration of transformers.
        tokenizer: as JSON.
        where: begins an error message.

    Raises:
        ConfigError: the encoder cannot share its embeddings with a generator.
    """
    if config.replacement is not None:
        shared = build_replaced_pieces(config, architecture, tokenizer, task=task, where=where)
        return PretrainingModel(shared, shared.select(shared.plan.for_task(task)), None)
    dim, length = find_width(architecture), max(phase.length for phase in config.phases)
    layers = [{"name": ENCODER, "block": "pretrained_encoder", "inputs": ["texts"], "dim": dim}]
    layers[0] |= {"max_length": length}
    piece = {"head": "masked_language_model", "inputs": [ENCODER], "task": task}
    heads: dict[str, Any] = {PIECE: piece | config.masking.model_dump()}
    targets: dict[str, dict[str, list[str]]] = {task: {MASKED: []}}
    kinds: dict[str | None, Kind] = {task: MASKED_LANGUAGE_MODEL}
    if config.pairs is not None:
        layers.append({"name": "first", "block": "pooling", "inputs": [ENCODER], "pool": "first"})
        # Devlin et al. 2019 (BERT), appendix A.1
        pair = {"head": "classification", "hidden_dims": [dim], "activation": "tanh"}
        heads[PAIR] = {**pair, "inputs": ["first"], "task": PAIRS}
        targets[PAIRS], kinds[PAIRS] = {LABEL: ANSWERS}, PAIR_CLASSIFICATION
    about = {"description": "pre-training", "source": config.source}
    graph = {**about, "inputs": {"texts": "texts"}, "layers": layers, "heads": heads}
    plan = plan_model(parse_model(graph, where), where=where)
    options, init = {"max_length": length}, Path(config.init)
    if config.is_from_scratch:
        note = {"tokenizer": tokenizer, "config": dict(architecture)}
        vocabulary = PieceVocabulary.from_note(note, options, init)
    else:
        vocabulary = PieceVocabulary.learn([], options, init)
    featurizers: dict[str | None, Featurizer] = {
        name: Featurizer(plan.for_task(name), {ENCODER: vocabulary}, labels)
        for name, labels in targets.items()
    }
    model = build_shared_model(plan, featurizers, kinds)
    parts = {name: model.select(plan.for_task(name)) for name in targets}
    load_pretrained_head(model, init)
    if PAIRS in parts and (init / HEADS).exists():
        start, weights = f"{PAIR}.", load_file(init / HEADS)
        kept = {name: weights[name] for name in weights if name.startswith(start)}
        if kept:  # the encoder was pretrained with such a head
            model.heads[PAIR].load_state_dict(
                {name.removeprefix(start): weight for name, weight in kept.items()}
            )
    return PretrainingModel(model, parts[task], parts.get(PAIRS))
