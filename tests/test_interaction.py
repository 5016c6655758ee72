"""Grids: their values by hand, and their masks through a whole model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.blocks import BLOCKS, GRID, SEQUENCE, Shape
from nlp_core.blocks.interaction import Interaction, Matching
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from tests.tiny import write_task, write_vectors

X = torch.tensor([[[1.0, 2.0], [0.0, -1.0], [9.0, 9.0]]])
Y = torch.tensor([[[3.0, 4.0], [0.0, 0.0]]])
MASK_X = torch.tensor([[True, True, False]])
MASK_Y = torch.tensor([[True, True]])


@pytest.mark.parametrize(
    ("operation", "cells"),
    [
        ("dot", [[[11.0], [0.0]], [[-4.0], [0.0]]]),
        ("cosine", [[[11.0 / 5.0**1.5], [0.0]], [[-0.8], [0.0]]]),
        ("multiply", [[[3.0, 8.0], [0.0, 0.0]], [[0.0, -4.0], [0.0, 0.0]]]),
        ("plus", [[[4.0, 6.0], [1.0, 2.0]], [[3.0, 3.0], [0.0, -1.0]]]),
        ("minus", [[[-2.0, -2.0], [1.0, 2.0]], [[-3.0, -5.0], [0.0, -1.0]]]),
        (
            "concat",
            [
                [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 0.0]],
                [[0.0, -1.0, 3.0, 4.0], [0.0, -1.0, 0.0, 0.0]],
            ],
        ),
    ],
)
def test_each_comparison_by_hand(operation: Matching, cells: list[object]) -> None:
    grid = Interaction(2, 2, operations=[operation])(X, MASK_X, Y, MASK_Y)
    torch.testing.assert_close(grid[0, :2], torch.tensor(cells))
    assert not grid[0, 2].any()


def test_general_is_bilinear() -> None:
    block = Interaction(2, 3)
    with torch.no_grad():
        block.bilinear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 10.0], [100.0, 0.0]]))
    y = torch.tensor([[[1.0, 1.0, 1.0], [0.0, 2.0, 0.0]]])
    grid = block(X, MASK_X, y, MASK_Y)
    # W x: (1, 20, 100) and (0, -10, 0)
    expected = torch.tensor([[[[121.0], [40.0]], [[-10.0], [-20.0]], [[0.0], [0.0]]]])
    torch.testing.assert_close(grid, expected)


def test_comparisons_stand_in_the_order_of_the_model_file() -> None:
    grid = Interaction(2, 2, operations=["plus", "dot"])(X, MASK_X, Y, MASK_Y)
    torch.testing.assert_close(grid[0, 0, 0], torch.tensor([4.0, 6.0, 11.0]))


def test_cell_is_real_where_both_tokens_are() -> None:
    mask = Interaction(2, 2).output_mask(MASK_X, torch.tensor([[True, False]]))
    assert mask is not None
    assert mask.tolist() == [[[True, False], [True, False], [False, False]]]


def test_widths_may_differ_where_no_number_meets_a_number() -> None:
    inputs = [Shape(SEQUENCE, 2), Shape(SEQUENCE, 3)]
    infer = BLOCKS.get("interaction").infer
    assert infer(*inputs, operations=["general", "concat"]) == Shape(GRID, 6)
    for operation in ("dot", "cosine", "multiply", "plus", "minus"):
        with pytest.raises(ConfigError, match=f"{operation}: found widths 2 and 3"):
            infer(*inputs, operations=["general", operation])


@pytest.mark.parametrize("operations", [[], ["dot", "dot"]])
def test_no_comparison_and_a_repeated_one_are_refused(operations: list[str]) -> None:
    inputs = [Shape(SEQUENCE, 2), Shape(SEQUENCE, 2)]
    with pytest.raises(ConfigError, match="each once"):
        BLOCKS.get("interaction").infer(*inputs, operations=operations)


def shrink(model: str) -> str:
    """Make a model of the zoo fit the vectors of the tests."""
    tree = json.loads(model)
    for layer in tree["layers"]:
        if layer["block"] == "word_embedding":
            layer.update(dim=8, vectors="8d")
    return json.dumps(tree)


@pytest.mark.parametrize("name", ["arci", "arcii", "matchpyramid", "mvlstm"])
def test_model_says_the_same_alone_and_in_a_batch(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(shrink(Path(f"zoo/wikiqa/{name}.json").read_text(encoding="utf-8")))
    task = read_task(write_task(tmp_path, "ranking"))
    plan, train = read_plan(path), task.read_split("train")
    featurizer = Featurizer.build(plan, task, train, write_vectors(tmp_path))
    torch.manual_seed(0)
    model = build_model(plan, featurizer, kind=task.kind).eval()
    encoded = featurizer.encode(train)
    together = model(encoded.batch(np.arange(12)))["answer"][0]
    alone = torch.cat([model(encoded.batch(np.array([row])))["answer"][0] for row in range(12)])
    torch.testing.assert_close(together, alone)
    assert together.std(0).min() > 1e-4, "examples must differ, or this shows nothing"
