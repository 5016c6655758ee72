"""Where a table of word vectors is kept."""

import json
from pathlib import Path
from typing import Any

import torch

from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.data.task import read_task
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from tests.tiny import write_task


def test_a_table_on_the_cpu_stays_there_and_its_vectors_move() -> None:
    block = WordEmbedding(9, dim=5, on_cpu=True).to("meta")
    block.load_vectors(torch.zeros(2, 5), torch.full((9,), -1))
    ids_BT = torch.tensor([[2, 3, 10]])
    assert {item.device.type for item in (block.weight, block.fixed, block.rare)} == {"cpu"}
    assert block(ids_BT, torch.ones(1, 3, dtype=torch.bool, device="meta")).device.type == "meta"
    assert block.double().weight.dtype == torch.float64
    assert WordEmbedding(9, dim=5).to("meta").weight.device.type == "meta"


def test_a_model_is_where_its_other_weights_are(tmp_path: Path) -> None:
    layers = [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 8, "on_cpu": True},
        {"name": "top", "block": "pooling", "inputs": ["word"], "pool": "max"},
    ]
    graph: dict[str, Any] = {"description": "d", "source": "s", "layers": layers}
    graph |= {"inputs": {"words": "tokens"}}
    graph["heads"] = {"out": {"head": "classification", "inputs": ["top"]}}
    (tmp_path / "m.json").write_text(json.dumps(graph))
    task = read_task(write_task(tmp_path))
    plan = read_plan(tmp_path / "m.json")
    featurizer = Featurizer.build(plan, task, task.read_split("train"), tmp_path)
    model = build_model(plan, featurizer, kind=task.kind)
    assert model.device.type == "cpu"
    moved = model.to("meta")
    assert moved.device.type == "meta"
    assert [item.device.type for item in moved.blocks["word"].parameters()] == ["cpu"]


def test_a_word_with_a_vector_is_never_taken_for_a_rare_one() -> None:
    block = WordEmbedding(4, dim=2, rare_unknown_prob=0.9)
    block.load_vectors(torch.ones(3, 2), torch.full((4,), -1))
    block.rare = torch.tensor([False, False, False, True])  # the last word of the vocabulary
    ids_BT = torch.tensor([[3] * 50 + [6] * 50])
    found = block(ids_BT, torch.ones_like(ids_BT, dtype=torch.bool))[0]
    assert (found[:50] == block.weight[1]).all(1).any()
    assert torch.equal(found[50:], torch.ones(50, 2))
