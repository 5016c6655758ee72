"""Pre-training by replaced pieces: a small generator fills in masked pieces, a detector finds them.

Shape letters: B batch, T pieces of a window, M masked pieces of a batch, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nlp_core.config.model import parse_model
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.encoders.folder import find_width
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError
from nlp_core.heads.language_model import ROWS_AT_ONCE
from nlp_core.kinds import MASKED, MASKED_LANGUAGE_MODEL, TAGGING, TAGS, Kind
from nlp_core.models.batch import IGNORED, Batch
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, HeadScores, build_shared_model
from nlp_core.models.plan import plan_model

ENCODER, GENERATOR = "encoder", "generator"
"""The layers of the encoder that is kept, and of the one that fills in masked pieces."""
PIECE, DETECTION = "piece", "detection"
"""The heads of generator and encoder."""
TAG_NAMES = ["original", "replaced"]


class ReplacedPieces(GraphModel):
    """Train a generator to predict masked pieces, and a detector to find what it got wrong.

    loss = mean over masked pieces of -log p(piece) + weight * mean over all pieces of the cross
    entropy of "is this piece another one than in the text?". The detector reads the text with each
    masked piece replaced by one that is drawn from the generator's probabilities. No gradient
    passes through the draw. Both share their embeddings.

    Source: Clark et al. 2020 (ELECTRA), sections 2 and 3.2.
    """

    def __init__(self, model: GraphModel) -> None:
        super().__init__(model.plan, {}, {})
        self.blocks, self.heads = model.blocks, model.heads
        encoder, generator = model.blocks[ENCODER], model.blocks[GENERATOR]
        assert isinstance(encoder, PretrainedEncoder), type(encoder)
        assert isinstance(generator, PretrainedEncoder), type(generator)
        del generator.encoder.embeddings
        # not registered a second time, so that weights are named, stored and updated once
        vars(generator.encoder)["embeddings"] = encoder.encoder.embeddings
        tasks = [str(self.plan.heads[name].task) for name in (PIECE, DETECTION)]
        self._parts = tuple(self.select(self.plan.for_task(task)) for task in tasks)

    def score_with_loss(self, batch: Batch) -> tuple[dict[str, HeadScores], Tensor]:
        generator, detector = self._parts
        scores, loss = generator.score_with_loss(batch)
        found, more = detector.score_with_loss(replace_pieces(batch, scores[PIECE][0]))
        return scores | found, loss + more

    def detect(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return for each real piece its tag, [N], and the probabilities of both, [N, 2]."""
        generator, detector = self._parts
        replaced = replace_pieces(batch, generator(batch)[PIECE][0])
        tags_BT, scores_BTL = replaced.targets[TAGS], detector(replaced)[DETECTION][0]
        is_real_BT = tags_BT != IGNORED
        return tags_BT[is_real_BT], scores_BTL[is_real_BT].double().softmax(-1)


def build_replaced_pieces(
    config: EncoderConfig, architecture: Mapping[str, Any], tokenizer: str, *, task: str, where: str
) -> ReplacedPieces:
    """Build encoder and generator with random weights; see `build_pretraining_model`.

    Raises:
        ConfigError: the encoder cannot share its embeddings.
    """
    assert config.replacement is not None
    smaller = _shrink(architecture, config.replacement.generator, where)
    dim, length = find_width(architecture), max(phase.length for phase in config.phases)
    reader = {"block": "pretrained_encoder", "inputs": ["texts"], "max_length": length}
    hidden = {"block": "linear", "inputs": [ENCODER], "hidden_dim": dim, "activation": "gelu"}
    detection = {"head": "tagging", "inputs": ["hidden"], "reduction": "token"}
    weight = config.replacement.weight
    piece = {"head": "masked_language_model", "inputs": [GENERATOR], "task": task}
    about = {"description": "pre-training", "source": config.source, "inputs": {"texts": "texts"}}
    # two graphs, since those of a model file have one encoder
    generator, detector = (
        plan_model(parse_model(about | graph, where), where=where)
        for graph in (
            {
                "layers": [{"name": GENERATOR, "dim": find_width(smaller), **reader}],
                "heads": {PIECE: piece | config.masking.model_dump()},
            },
            {
                "layers": [{"name": ENCODER, "dim": dim, **reader}, {"name": "hidden", **hidden}],
                "heads": {DETECTION: {**detection, "task": DETECTION, "weight": weight}},
            },
        )
    )
    layers, heads = [*detector.layers, *generator.layers], detector.heads | generator.heads
    plan = replace(detector, layers=layers, heads=heads)
    vocabularies: dict[str, Vocabulary] = {
        name: PieceVocabulary.from_note(
            {"tokenizer": tokenizer, "config": dict(values)}, {"max_length": length}, Path()
        )
        for name, values in ((ENCODER, architecture), (GENERATOR, smaller))
    }
    targets = {task: {MASKED: list[str]()}, DETECTION: {TAGS: TAG_NAMES}}
    featurizers: dict[str | None, Featurizer] = {
        name: Featurizer(plan.for_task(name), vocabularies, labels)
        for name, labels in targets.items()
    }
    kinds: dict[str | None, Kind] = {task: MASKED_LANGUAGE_MODEL, DETECTION: TAGGING}
    return ReplacedPieces(build_shared_model(plan, featurizers, kinds))


def replace_pieces(batch: Batch, logits_MV: Float[Tensor, "M V"]) -> Batch:
    """Return a batch whose detector reads drawn pieces in place of the masked ones."""
    assert batch.draws is not None
    ids_BT, *others = batch.features[ENCODER]
    target_BT = batch.targets[MASKED]
    is_masked_BT = target_BT != IGNORED
    right_BT = torch.where(is_masked_BT, target_BT, ids_BT)
    drawn_M = draw_pieces(logits_MV, batch.draws[is_masked_BT.cpu()])
    read_BT = right_BT.clone()
    read_BT[is_masked_BT] = drawn_M.to(read_BT.device)
    tags_BT = torch.where(batch.targets[TAGS] == IGNORED, IGNORED, (read_BT != right_BT).long())
    return replace(
        batch,
        features={**batch.features, ENCODER: (read_BT, *others)},
        targets={**batch.targets, TAGS: tags_BT},
    )


@torch.no_grad()
def draw_pieces(logits_MV: Float[Tensor, "M V"], draws_M: Float[Tensor, " M"]) -> Int[Tensor, " M"]:
    """Draw from a softmax: the piece where the cumulated probability passes a number in [0, 1)."""
    drawn = []
    # on the CPU, where sums have one order
    parts = (torch.split(item, ROWS_AT_ONCE) for item in (logits_MV.cpu(), draws_M))
    for part_MV, at_M in zip(*parts, strict=True):
        total_MV = part_MV.double().softmax(-1).cumsum(-1)
        at_M1 = (at_M * total_MV[:, -1]).unsqueeze(-1)
        drawn.append(torch.searchsorted(total_MV, at_M1, right=True).squeeze(-1))
    return torch.cat(drawn).clamp(max=logits_MV.shape[1] - 1)


def _shrink(architecture: Mapping[str, Any], share: float, where: str) -> dict[str, Any]:
    """Return the configuration of a generator: a share of the heads and of the inner width.

    Raises:
        ConfigError: embeddings of that type cannot be wider than its layers.
    """
    if "embedding_size" not in architecture:
        raise ConfigError(
            f"{where}.replacement: found an encoder of type {architecture['model_type']}, whose "
            "embeddings are as wide as its layers, so a smaller generator cannot share them; "
            "expected electra, roformer or albert."
        )
    num_heads = int(architecture["num_attention_heads"])
    kept = max(1, round(share * num_heads))
    return {
        **architecture,
        "num_attention_heads": kept,
        "hidden_size": int(architecture["hidden_size"]) // num_heads * kept,
        "intermediate_size": max(1, round(share * int(architecture["intermediate_size"]))),
    }
