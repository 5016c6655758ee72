"""Numbers next to the words: from the file through their scaling to a trained model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import TaskConfig
from nlp_core.data.split_column import NumberColumn
from nlp_core.data.task import read_task
from nlp_core.data.vocabulary import Numbers, NumberVocabulary
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import format_json
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import read_plan
from tests.tiny_features import TEXT, change, make_cell, preprocess, root, train

__all__ = ["root"]
TASK = change(TEXT, dense=["size"], token_dense=["odd"])
GRAPH: dict[str, Any] = {
    "inputs": {"words": "tokens", "size": "dense.size", "odd": "token_dense.odd"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 4},
        {"name": "odd_token", "block": "dense_features", "inputs": ["odd"], "hidden_dim": 3},
        {"name": "token", "block": "concat", "inputs": ["word", "odd_token"]},
        {"name": "whole", "block": "pooling", "inputs": ["token"]},
        {"name": "sizes", "block": "dense_features", "inputs": ["size"], "width": 2},
        {"name": "all", "block": "concat", "inputs": ["sizes", "whole"]},
    ],
    "heads": {"label": {"head": "classification", "inputs": ["all"]}},
}


def write(size: int, seed: int) -> str:
    """Return rows whose label is whether the first number is above a thousand."""
    generator = np.random.default_rng(seed)
    rows = ["text\tsize\todd\tlabel"]
    for _ in range(size):
        number, noise = 1000 + 50 * generator.normal(), generator.normal()
        tokens = ["a"] * int(generator.integers(1, 4))
        odd = " ".join(f"{generator.random():.3f}" for _ in tokens)
        label = "yes" if number > 1000 else "no"
        rows.append(f"{' '.join(tokens)}\t{number:.4f} {noise:.4f}\t{odd}\t{label}")
    return "\n".join(rows) + "\n"


def files() -> dict[str, str]:
    return {"train.tsv": write(60, 1), "test.tsv": write(30, 2)}


def test_numbers_become_columns(root: Path) -> None:
    split = read_task(preprocess(root, TASK, files())).read_split("train")
    rows = [line.split("\t") for line in files()["train.tsv"].splitlines()[1:]]
    sizes = split.numbers["dense.size"]
    assert sizes.values.tolist() == [[float(x) for x in row[1].split()] for row in rows]
    odd = split.numbers["token_dense.odd"]
    assert odd.values[:, 0].tolist() == [float(x) for row in rows for x in row[2].split()]
    assert odd.offsets is not None
    assert odd.offsets.tolist() == split.texts["tokens"].offsets.tolist()


def test_a_model_learns_from_numbers(root: Path) -> None:
    preprocess(root, TASK, files())
    cell = make_cell(root, GRAPH)
    assert train(cell)["accuracy"] > 90
    note = json.loads((root / "artifacts/cells/sample/tiny/seed-1/vocabulary.json").read_text())
    mean = [float(text) for text in note["layers"]["sizes"]["mean"]]
    values = cell.task.read_split("train").numbers["dense.size"].values
    assert mean == values.mean(0).tolist()


def test_a_model_may_read_numbers_alone(root: Path) -> None:
    preprocess(root, TASK, files())
    graph = {
        "inputs": {"size": "dense.size"},
        "layers": [{"name": "sizes", "block": "dense_features", "inputs": ["size"], "width": 2}],
        "heads": {"label": {"head": "classification", "inputs": ["sizes"]}},
    }
    assert train(make_cell(root, graph, epochs=15))["accuracy"] > 90


def test_scaling_by_hand_and_after_storing() -> None:
    column = NumberColumn(np.array([[1.0, 5.0, 1e-9], [3.0, 5.0, 3e-9]]), None)
    learnt = NumberVocabulary.learn([column], {"width": 3}, Path("nowhere"))
    note = json.loads(format_json(learnt.describe()))
    for vocabulary in (learnt, NumberVocabulary.from_note(note, {}, Path("nowhere"))):
        (found,) = vocabulary.read(column).take(np.array([1, 0]))
        np.testing.assert_allclose(found, [[1, 0, 1], [-1, 0, -1]], rtol=1e-6)
        assert found.dtype == np.float32


def test_numbers_of_tokens_are_padded_by_zero() -> None:
    values = np.array([[1.0], [2.0], [3.0]], dtype=np.float32)
    (found,) = Numbers(values, np.array([0, 2, 2, 3])).take(np.array([2, 0, 1]))
    assert found.tolist() == [[[3], [0]], [[1], [2]], [[0], [0]]]


@pytest.mark.parametrize("text", ["x", "nan", "inf", "-Infinity", "1_0", ""])
def test_what_is_no_finite_number_is_refused(root: Path, text: str) -> None:
    broken = files()
    lines = broken["train.tsv"].splitlines()
    cells = lines[6].split("\t")
    cells[1] = text
    broken["train.tsv"] = "\n".join([*lines[:6], "\t".join(cells), *lines[7:]]) + "\n"
    message = rf"train\.tsv: line 7: found '{text}' in the column 'size', expected a finite"
    with pytest.raises(DataError, match=message) as caught:
        preprocess(root, TASK, broken)
    assert "\n" not in str(caught.value)
    assert not (root / "data/processed/d").exists()


@pytest.mark.parametrize(
    ("place", "name", "message"),
    [
        (1, "test.tsv", r"test\.tsv: line 3: found 3 numbers in the column 'size', expected 2"),
        (2, "train.tsv", r"line 3: found \d values in the column 'odd', expected \d, one for each"),
    ],
)
def test_more_numbers_than_there_should_be_are_refused(
    root: Path, place: int, name: str, message: str
) -> None:
    broken = files()
    lines = broken[name].splitlines()
    cells = lines[2].split("\t")
    cells[place] += " 7"
    broken[name] = "\n".join([*lines[:2], "\t".join(cells), *lines[3:]]) + "\n"
    with pytest.raises(DataError, match=message):
        preprocess(root, TASK, broken)


def test_another_width_than_the_layer_says_is_refused(root: Path) -> None:
    preprocess(root, TASK, files())
    graph = json.loads(json.dumps(GRAPH))
    graph["layers"][4]["width"] = 3
    cell = make_cell(root, graph)
    with pytest.raises(DataError, match=r"found 2 numbers per row .* of width 3 reads"):
        Featurizer.build(cell.plan, cell.task, cell.task.read_split("train"), cell.init)


def test_numbers_and_words_are_not_taken_for_each_other(root: Path) -> None:
    for name, column, message in (
        ("size", "tokens", "'size' is words, expected numbers or numbers of tokens"),
        ("words", "dense.size", "'words' is numbers, expected words"),
    ):
        graph = json.loads(json.dumps(GRAPH))
        graph["inputs"][name] = column
        path = root / "model.json"
        path.write_text(json.dumps({"description": "d", "source": "s", **graph}))
        with pytest.raises(ConfigError, match=message):
            read_plan(path)


def test_numbers_of_tokens_need_one_text() -> None:
    task = change(TASK, texts=["a", "b"]) | {"kind": "pair_classification"}
    with pytest.raises(ConfigError, match=r"found \['odd'\] .*; only a kind of one text"):
        parse_config(task, TaskConfig, where="d.yaml: task")
    parse_config(change(task, token_dense=[]), TaskConfig, where="d.yaml: task")
