"""Heads whose answers the runtime writes step by step: their weights, and what it may write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlp_core.encoders.encoder_decoder import PretrainedEncoderDecoder
from nlp_core.export.graph import build_decoder_graph
from nlp_core.heads.base import Head
from nlp_core.heads.generation import SequenceHead
from nlp_core.heads.parsing import ExpertHead, SequenceParsingHead
from nlp_core.heads.piece_writing import PretrainedDecoderHead
from nlp_core.models.graph import GraphModel
from reglue_runtime.writing import TextSearch

WRITTEN: dict[type[Head], str] = {
    PretrainedDecoderHead: "pieces",
    SequenceHead: "text",
    SequenceParsingHead: "tree",
}
"""The decoding of each head."""


def build_decoder_graphs(model: GraphModel) -> dict[str, bytes]:
    """Return the graph of the decoder of each head that writes pieces, by its file."""
    names = [name for name, head in model.heads.items() if isinstance(head, PretrainedDecoderHead)]
    return {f"{name}.onnx": build_decoder_graph(_find_decoder(model), name) for name in names}


def describe_writing(
    model: GraphModel, name: str, labels: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Write the files of a head but for its graph, and return how the runtime writes with it."""
    head = model.heads[name]
    if isinstance(head, ExpertHead):
        return describe_writer(head, labels, folder / f"{name}.npy")
    return _describe_pieces(model, name)


def _describe_pieces(model: GraphModel, name: str) -> dict[str, Any]:
    head, layer = model.heads[name], model.plan.writing_layer
    assert isinstance(head, PretrainedDecoderHead), name
    assert layer is not None, name
    return {
        "file": f"{name}.onnx",
        "tokenizer": f"{layer.owner}.tokenizer.json",
        "end": _find_decoder(model).end,
        "search": TextSearch(head.beam, head.penalty, head.max_pieces)._asdict(),
        "labels": [],
    }


def _find_decoder(model: GraphModel) -> PretrainedEncoderDecoder:
    layer = model.plan.writing_layer
    assert layer is not None, model.plan.where
    block = model.blocks[layer.owner]
    assert isinstance(block, PretrainedEncoderDecoder), layer.owner
    return block


def describe_writer(head: ExpertHead, labels: Sequence[str], path: Path) -> dict[str, Any]:
    """Write the weights of the decoders, and return how the runtime reads and searches."""
    states = [decoder.state_dict() for decoder in head.experts]
    flat = torch.cat([item.flatten() for state in states for item in state.values()])
    np.save(path, flat.float().numpy())
    shapes = [[[key, list(item.shape)] for key, item in state.items()] for state in states]
    note: dict[str, Any] = {"file": path.name, "weights": shapes}
    if isinstance(head, SequenceHead):
        return note | {"search": head.search._asdict(), "words": [*labels], "labels": []}
    assert isinstance(head, SequenceParsingHead), type(head)
    search = TextSearch(head.beam)._asdict()
    return note | {"search": search, "rules": head.grammar.describe()}
