"""Heads whose answers the runtime writes step by step: their weights, and what it may write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlp_core.heads.base import Head
from nlp_core.heads.generation import SequenceHead
from nlp_core.heads.parsing import SequenceParsingHead, WritingHead
from reglue_runtime.writing import TextSearch

WRITTEN: dict[type[Head], str] = {SequenceHead: "text", SequenceParsingHead: "tree"}
"""The decoding of each head."""


def describe_writer(head: WritingHead, labels: Sequence[str], path: Path) -> dict[str, Any]:
    """Write the weights of the decoders, and return how the runtime reads and searches."""
    states = [decoder.state_dict() for decoder in head.experts]
    flat = torch.cat([item.flatten() for state in states for item in state.values()])
    np.save(path, flat.float().numpy())
    shapes = [[[key, list(item.shape)] for key, item in state.items()] for state in states]
    note: dict[str, Any] = {"file": path.name, "weights": shapes}
    if isinstance(head, SequenceHead):
        return note | {"search": head.search._asdict(), "words": [*labels], "labels": []}
    assert isinstance(head, SequenceParsingHead), type(head)
    grammar = head.grammar
    rules = {
        "max_open": grammar.max_open,
        "free": grammar.constraint == "none",
        "inside": [row.int().tolist() for row in grammar.list_inside()],
    }
    return note | {"search": TextSearch(head.beam)._asdict(), "rules": rules}
