"""Small models with random weights as trained ones, with real examples, for the tests of export."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jaxtyping
import torch

from nlp_core.config.user_data import DataConfig
from nlp_core.data.task import Split, read_task
from nlp_core.export.bundle import export_model
from nlp_core.export.parity import Parity
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.prediction.trained_model import TrainedModel

WORDS: dict[str, Any] = {
    "inputs": {"words": "tokens"},
    "layers": [
        {
            "name": "word",
            "block": "word_embedding",
            "inputs": ["words"],
            "dim": 8,
            "vectors": "8d",
            "digits_to_zero": True,
        },
        {"name": "lstm", "block": "bilstm", "inputs": ["word"], "hidden_dim": 6, "num_layers": 2},
        {"name": "whole", "block": "linear_attention", "inputs": ["lstm"]},
    ],
    "heads": {"label": {"head": "classification", "inputs": ["whole"]}},
}
JOINT: dict[str, Any] = {
    "inputs": {"words": "tokens", "letters": "tokens.characters"},
    "layers": [
        *WORDS["layers"][:1],
        {"name": "char", "block": "char_lstm", "inputs": ["letters"], "dim": 4, "hidden_dim": 3},
        {
            "name": "piece",
            "block": "subword_embedding",
            "inputs": ["letters"],
            "dim": 4,
            "num_pieces": 40,
        },
        {"name": "both", "block": "concat", "inputs": ["word", "char", "piece"]},
        {"name": "gru", "block": "bigru", "inputs": ["both"], "hidden_dim": 6},
        {"name": "whole", "block": "pooling", "inputs": ["gru"]},
    ],
    "heads": {
        "intent": {"head": "classification", "inputs": ["whole"]},
        "slots": {"head": "crf_tagging", "inputs": ["gru"]},
    },
}
WINDOWS: dict[str, Any] = {
    "inputs": {"words": "tokens.pieces"},
    "layers": [
        {
            "name": "encoder",
            "block": "pretrained_encoder",
            "inputs": ["words"],
            "dim": 8,
            "max_length": 8,
            "stride": 2,
        }
    ],
    "heads": {"tags": {"head": "tagging", "inputs": ["encoder"]}},
}
APART: dict[str, Any] = {
    "inputs": {"first": "text_a", "second": "text_b", "both": "texts"},
    "layers": [
        {
            "name": "encoder",
            "block": "pretrained_encoder",
            "inputs": ["first"],
            "dim": 8,
            "max_length": 16,
        },
        {"name": "other", "block": "encoder", "inputs": ["second"]},
        {"name": "joint", "block": "encoder", "inputs": ["both"]},
        {"name": "aligned", "block": "cross_attention", "inputs": ["other", "encoder"]},
        {"name": "pair", "block": "combination", "inputs": ["other", "aligned"]},
        {"name": "most", "block": "pooling", "inputs": ["pair"], "pool": "max"},
        {"name": "mean", "block": "pooling", "inputs": ["joint"], "pool": "mean"},
        {"name": "all", "block": "concat", "inputs": ["most", "mean"]},
    ],
    "heads": {"score": {"head": "regression", "inputs": ["all"]}},
}


def make_trained(
    root: Path, task_dir: Path, init: Path, graph: dict[str, Any], tokenizer: str = "spaces"
) -> TrainedModel:
    """Return a model whose weights are random and whose vocabulary is that of train.

    Args:
        root: where the model file is written.
        task_dir: a processed task.
        init: vectors or an encoder.
        graph: the model file.
        tokenizer: name of what makes tokens of a text.
    """
    path = root / "graph.json"
    path.write_text(json.dumps({"description": "d", "source": "s", **graph}), encoding="utf-8")
    task, plan = read_task(task_dir), read_plan(path)
    torch.manual_seed(7)
    featurizer = Featurizer.build(plan, task, task.read_split("train"), init)
    model = build_model(plan, featurizer, kind=task.kind)
    for parameter in model.heads.parameters():
        torch.nn.init.normal_(parameter)  # transitions begin at 0, which says nothing of them
    (root / "run.json").write_text(json.dumps({"files": {"train": "0a1b"}}), encoding="utf-8")
    data = DataConfig.model_construct(kind=task.kind, tokens=tokenizer, max_tokens=None)
    return TrainedModel(root, task.name, model, featurizer, task, data)


def read_examples(trained: TrainedModel) -> Split:
    """Return the examples that the export of a model is checked on."""
    return trained.task.read_split(trained.task.report_split)


@contextmanager
def unchecked_shapes() -> Iterator[None]:
    """Check no shapes: a check that two sizes are equal would fix those of the traced batch."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def export(trained: TrainedModel, target: Path, **options: Any) -> Parity:
    """Write a bundle of a model."""
    with unchecked_shapes():
        return export_model(trained, read_examples(trained), target, **options)
