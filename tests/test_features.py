"""Columns next to the words: from the file through the processed task to a trained model."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.blocks.embedding import CategoryEmbedding
from nlp_core.config.base import parse_config
from nlp_core.config.dataset import TaskConfig
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import read_plan
from tests.tiny_features import TAGGING, TEXT, change, make_cell, preprocess, root, train

__all__ = ["root"]


def write_columns(size: int, seed: int, *, symbols: str = "XY") -> str:
    """Return sentences whose tags show only in their second column."""
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(size):
        for _ in range(int(generator.integers(1, 6))):
            symbol = str(generator.choice(list(symbols)))
            word = str(generator.choice(["a", "b", "c"]))
            lines.append(f"{word} {symbol} C {'B-Q' if symbol == 'X' else 'O'}")
        lines.append("")
    return "\n".join(lines) + "\n"


def columns_files() -> dict[str, str]:
    return {"train.txt": write_columns(40, 1), "test.txt": write_columns(20, 2, symbols="XYZ")}


SYMBOL_GRAPH: dict[str, Any] = {
    "inputs": {"words": "tokens", "pos": "features.pos"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 4},
        {"name": "part", "block": "category_embedding", "inputs": ["pos"], "dim": 4},
        {"name": "token", "block": "concat", "inputs": ["word", "part"]},
    ],
    "heads": {"tags": {"head": "tagging", "inputs": ["token"]}},
}


def test_columns_of_a_file_become_columns_of_the_task(root: Path) -> None:
    folder = preprocess(root, TAGGING, columns_files())
    table = pq.read_table(folder / "train.parquet")
    assert table.column_names == ["id", "tokens", "tags", "features.chunk", "features.pos"]
    split = read_task(folder).read_split("train")
    lines = [line.split() for line in columns_files()["train.txt"].splitlines() if line]
    assert split.texts["features.pos"].tokens == [line[1] for line in lines]
    assert split.texts["features.pos"].lengths.tolist() == split.texts["tokens"].lengths.tolist()


def test_without_features_the_file_has_the_columns_it_had(root: Path) -> None:
    folder = preprocess(root, change(TAGGING, features={}), columns_files())
    table = pq.read_table(folder / "train.parquet")
    assert table.column_names == ["id", "tokens", "tags"]


def test_a_model_learns_from_symbols_and_knows_unknown_ones(root: Path) -> None:
    preprocess(root, TAGGING, columns_files())
    cell = make_cell(root, SYMBOL_GRAPH)
    assert train(cell)["f1"] > 95
    note = json.loads((root / "artifacts/cells/sample/tiny/seed-1/vocabulary.json").read_text())
    assert sorted(note["layers"]["part"]["words"]) == ["<pad>", "<unk>", "X", "Y"]


def test_an_unknown_symbol_is_the_zero_vector_until_it_is_trained() -> None:
    torch.manual_seed(1)
    block = CategoryEmbedding(4, dim=3)
    ids, mask = torch.tensor([[2, 1, 0]]), torch.tensor([[True, True, False]])
    output = block(ids, mask)
    torch.testing.assert_close(output[0, 0], block.weight[2])
    assert not output[0, 1:].any()
    hidden = CategoryEmbedding(4, dim=3, unknown_prob=0.999)
    hidden(torch.full((4, 50), 2), torch.ones(4, 50, dtype=torch.bool)).sum().backward()
    assert hidden.weight.grad is not None
    counts = hidden.weight.grad[:, 0].tolist()
    assert counts[1] > 190
    assert counts[1] + counts[2] == 200


def test_symbols_of_a_tsv_file_are_one_for_each_token(root: Path) -> None:
    task = change(TEXT, features=["pos"])
    task["splits"] = {"train": {"file": "train.tsv", "rows": 2}}
    task |= {"select_split": "train", "report_split": "train"}
    files = {"train.tsv": "text\tpos\tlabel\na b\tX  Y\tno\nc\tX\tyes\n"}
    split = read_task(preprocess(root, task, files)).read_split("train")
    assert split.texts["features.pos"].tokens == ["X", "Y", "X"]
    files = {"train.tsv": files["train.tsv"].replace("c\tX", "c\tX Z")}
    message = r"train\.tsv: line 3: found 2 values in the column 'pos', expected 1, one for each"
    with pytest.raises(DataError, match=message):
        preprocess(root, task, files)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (change(TAGGING, features={"pos": 3}), "found column 3, expected one from 1 to 2"),
        (change(TAGGING, features={"pos": 0}), "features.pos: found 0"),
        (
            change(TEXT, texts=["a", "b"], features=["pos"]) | {"kind": "ranking"},
            "only a kind of one text",
        ),
    ],
)
def test_features_that_cannot_be_are_refused(task: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_config(task, TaskConfig, where="sources/d.yaml: task")
    assert "\n" not in str(caught.value)


def test_a_feature_that_the_task_lacks_is_named(root: Path) -> None:
    preprocess(root, change(TAGGING, features={"pos": 1}), columns_files())
    graph = deepcopy(SYMBOL_GRAPH)
    graph["inputs"]["pos"] = "features.pox"
    cell = make_cell(root, graph)
    with pytest.raises(ConfigError, match=r"'pos' reads 'features\.pox'.* mean 'features\.pos'"):
        Featurizer.build(cell.plan, cell.task, cell.task.read_split("train"), cell.init)
    graph["inputs"]["pos"] = "feature.pos"
    (root / "zoo/model.json").write_text(json.dumps({"description": "d", "source": "s", **graph}))
    with pytest.raises(ConfigError, match=r"inputs\.pos: found 'feature\.pos'"):
        read_plan(root / "zoo/model.json")
