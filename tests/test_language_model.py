"""Next words: the head by hand, plans that are refused, from running text to perplexity."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import TaskConfig
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads.language_model import LanguageModelHead
from nlp_core.kinds import LANGUAGE_MODEL
from nlp_core.metrics import Predictions, is_lower_better, measure
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model, count_parameters
from nlp_core.models.plan import read_plan
from tests.tiny_features import make_cell, preprocess, root, train

__all__ = ["root"]
TASK: dict[str, Any] = {
    "kind": "language_model",
    "reader": {"name": "lines"},
    "tokens": "spaces",
    "labels": [],
    "metrics": ["perplexity"],
    "splits": {
        "train": {"file": "train.txt", "rows": 60},
        "dev": {"file": "test.txt", "rows": 30},
        "test": {"file": "test.txt", "rows": 30},
    },
    "select_split": "dev",
    "report_split": "test",
}
GRAPH: dict[str, Any] = {
    "inputs": {"words": "tokens"},
    "layers": [
        {
            "name": "word",
            "block": "word_embedding",
            "inputs": ["words"],
            "dim": 8,
            "min_count": 2,
        },
        {"name": "lstm", "block": "forward_lstm", "inputs": ["word"], "hidden_dim": 8},
    ],
    "heads": {"next": {"head": "language_model", "inputs": ["lstm"], "vocabulary": "word"}},
}
Change = Callable[[dict[str, Any]], object]


def write_text(size: int, seed: int, rare: str = "") -> str:
    """Return lines in which each word says which one follows, with empty lines between."""
    generator = np.random.default_rng(seed)
    cycle = ["a", "b", "c", "d"]
    lines = []
    for _ in range(size):
        start, length = int(generator.integers(4)), int(generator.integers(2, 9))
        lines.append(" ".join(cycle[(start + idx) % 4] for idx in range(length)))
    if rare:
        lines[0] += f" {rare}"
    return "\n \n\n".join(lines) + "\n"


def files() -> dict[str, str]:
    return {"train.txt": write_text(60, 1, "once"), "test.txt": write_text(30, 2, "never <unk>")}


def build(root: Path, change: Change = lambda graph: None) -> tuple[GraphModel, Featurizer]:
    graph = deepcopy(GRAPH)
    change(graph)
    cell = make_cell(root, graph)
    featurizer = Featurizer.build(cell.plan, cell.task, cell.task.read_split("train"), cell.init)
    torch.manual_seed(1)
    return build_model(cell.plan, featurizer, kind=LANGUAGE_MODEL).eval(), featurizer


def test_loss_by_hand() -> None:
    head = LanguageModelHead(2, 3, vocabulary="word")
    table = torch.tensor([[0.0, 0.0], [math.log(2), 0.0], [0.0, math.log(5)]])
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]], [[0.0, 0.0], [7.0, 7.0], [7.0, 7.0]]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    target = torch.tensor([[1, 2, -1], [0, -1, -1]])
    scores = head(x, mask, target, table)
    # scores of the words: (1, 2, 1), (1, 1, 5) and (1, 1, 1) to be normalised
    expected = torch.tensor([[2 / 4, 5 / 7, 1.0], [1 / 3, 1.0, 1.0]]).log()
    torch.testing.assert_close(scores, expected)
    loss = head.loss(scores, target, mask)
    assert float(loss.detach()) == pytest.approx(
        -(math.log(2 / 4) + math.log(5 / 7) + math.log(1 / 3)) / 3
    )
    sums = head.decode(scores, mask).prediction
    assert sums.tolist() == pytest.approx([math.log(10 / 28), math.log(1 / 3)])


def test_many_words_are_scored_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    head = LanguageModelHead(4, 5, vocabulary="word", tied=False)
    x, target = torch.randn(3, 7, 4), torch.randint(0, 5, (3, 7))
    mask = torch.ones(3, 7, dtype=torch.bool)
    whole = head(x, mask, target)
    monkeypatch.setattr("nlp_core.heads.language_model.ROWS_AT_ONCE", 4)
    torch.testing.assert_close(head(x, mask, target), whole)


def test_perplexity_is_of_all_words_and_not_a_mean_of_means() -> None:
    target, prediction = [1.0, 3.0], [-math.log(2), -3 * math.log(8)]
    found = measure("language_model", ["perplexity"], Predictions([], target, prediction))
    assert found["perplexity"] == pytest.approx((2 * 8**3) ** 0.25)
    assert is_lower_better("test.perplexity")
    for sums in ([-1e9], [math.nan]):
        with pytest.raises(DataError, match=r"perplexity: .* lower its learning rate"):
            measure("language_model", ["perplexity"], Predictions([], [2.0], sums))
    with pytest.raises(DataError, match="found no word to predict"):
        measure("language_model", ["perplexity"], Predictions([], [0.0], [0.0]))


def test_lines_become_texts_between_boundaries(root: Path) -> None:
    folder = preprocess(root, TASK, files())
    rows = pq.read_table(folder / "test.parquet").to_pylist()
    assert rows[0]["tokens"][0] == rows[0]["tokens"][-1] == "<eos>"
    assert rows[0]["tokens"][-3:-1] == ["never", "<unk>"]
    assert len(rows) == 30
    split = read_task(folder).read_split("test")
    assert split.targets == {"next_word": [len(row["tokens"]) - 1 for row in rows]}


def test_targets_are_the_next_words_and_strange_ones_unknown(root: Path) -> None:
    preprocess(root, TASK, files())
    _, featurizer = build(root)
    assert "once" not in featurizer.predicted_words.words
    assert featurizer.predicted_words.words.count("<unk>") == 1
    encoded = featurizer.encode(read_task(Path("data/processed/d")).read_split("test"))
    batch = encoded.batch(np.array([0, 1]))
    (ids,), target = batch.features["word"], batch.targets["next_word"]
    for row, size in zip((0, 1), encoded.lengths[:2], strict=True):
        assert target[row, : size - 1].tolist() == ids[row, 1:size].tolist()
        assert (target[row, size - 1 :] == -1).all()
    assert target[0, encoded.lengths[0] - 4 : encoded.lengths[0] - 2].tolist() == [1, 1]


def test_vectors_of_unseen_words_are_read_and_not_predicted(root: Path) -> None:
    texts = files()
    texts["test.txt"] = texts["test.txt"].replace("never", "unseen")  # it has a vector
    preprocess(root, TASK, texts)
    _, featurizer = build(root, lambda graph: graph["layers"][0].update(vectors="8d"))
    encoded = featurizer.encode(read_task(Path("data/processed/d")).read_split("test"))
    batch = encoded.batch(np.array([0]))
    place = int(encoded.lengths[0]) - 3
    assert int(batch.features["word"][0][0, place]) >= len(featurizer.predicted_words)
    assert int(batch.targets["next_word"][0, place - 1]) == 1


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_learns_what_follows(root: Path, tied: bool) -> None:
    preprocess(root, TASK, files())
    graph = deepcopy(GRAPH)
    graph["heads"]["next"]["tied"] = tied
    cell = make_cell(root, graph, epochs=8, ema_decay=None)
    perplexity = train(cell)["perplexity"]
    # inside a line the next word is certain; the first one and the end are not: about 1.9
    assert 1.2 < perplexity < 2.6
    folder = root / "artifacts/cells/sample/tiny/seed-1"
    rows = pq.read_table(folder / "predictions/d.parquet").to_pylist()
    rows = [row for row in rows if row["split"] == "test"]
    split = cell.task.read_split("test")
    assert [row["target"] for row in rows] == split.targets["next_word"]
    mean = sum(row["prediction"] for row in rows) / sum(row["target"] for row in rows)
    assert math.exp(-mean) == pytest.approx(perplexity)


def test_tied_weights_are_one_table(root: Path) -> None:
    preprocess(root, TASK, files())
    model, featurizer = build(root)
    untied, _ = build(root, lambda graph: graph["heads"]["next"].update(tied=False))
    extra = count_parameters(untied)["total"] - count_parameters(model)["total"]
    assert extra == 8 * len(featurizer.predicted_words)
    assert [name for name in model.state_dict() if name.startswith("heads")] == ["heads.next.bias"]
    encoded = featurizer.encode(read_task(Path("data/processed/d")).read_split("test"))
    model.loss(encoded.batch(np.arange(6))).backward()
    grad = model.blocks["word"].weight.grad
    unread = featurizer.predicted_words.words.index("<pad>")
    assert isinstance(grad, torch.Tensor)
    assert grad[unread].any()  # only as an output


def test_a_batch_says_the_same_as_its_texts_alone(root: Path) -> None:
    preprocess(root, TASK, files())
    model, featurizer = build(root)
    encoded = featurizer.encode(read_task(Path("data/processed/d")).read_split("test"))
    whole = model.decode(encoded.batch(np.arange(9)))["next"].prediction
    alone = [model.decode(encoded.batch(np.array([row])))["next"].prediction for row in range(9)]
    torch.testing.assert_close(whole, torch.cat(alone), rtol=1e-5, atol=1e-5)


def replace_lstm(**options: object) -> Change:
    def change(graph: dict[str, Any]) -> None:
        graph["layers"][1] = {"name": "lstm", "inputs": ["word"], **options}

    return change


def predict_other_words(graph: dict[str, Any]) -> None:
    """Predict the words of a layer that only another task's head would read."""
    graph["layers"].append({**graph["layers"][0], "name": "other"})
    graph["heads"]["next"]["vocabulary"] = "other"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            replace_lstm(block="bilstm", hidden_dim=4),
            "'lstm' of block bilstm below it, which reads",
        ),
        (replace_lstm(block="bigru", hidden_dim=4), "'lstm' of block bigru"),
        (replace_lstm(block="gated_cnn", filters=8), "'lstm' of block gated_cnn"),
        (replace_lstm(block="linear", hidden_dim=8, batch_norm=True), "'lstm' of block linear"),
        (lambda g: g["layers"][1].update(hidden_dim=6), "tied: found an input of width 6"),
        (lambda g: g["heads"]["next"].update(vocabulary="lstm"), "found 'lstm', expected the name"),
        (lambda g: g["heads"]["next"].update(vocabulary="wordy"), "Did you mean 'word'"),
        (predict_other_words, "found 'other', expected .* layer below the head"),
        (lambda g: g["heads"]["next"].pop("vocabulary"), "vocabulary: this key is missing"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(root: Path, change: Change, message: str) -> None:
    graph = deepcopy(GRAPH)
    change(graph)
    path = root / "model.json"
    path.write_text(json.dumps({"description": "d", "source": "s", **graph}))
    with pytest.raises(ConfigError, match=message) as caught:
        read_plan(path)
    assert "head 'next'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        replace_lstm(block="bigru", hidden_dim=8, bidirectional=False),
        replace_lstm(block="qrnn", hidden_dim=8, bidirectional=False),
        replace_lstm(block="gated_cnn", filters=8, causal=True),
    ],
)
def test_layers_that_only_look_back_are_taken(root: Path, change: Change) -> None:
    graph = deepcopy(GRAPH)
    change(graph)
    path = root / "model.json"
    path.write_text(json.dumps({"description": "d", "source": "s", **graph}))
    assert read_plan(path).heads


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a"]}, "language_model and generation neither"),
        (
            {"reader": {"name": "tsv", "texts": ["t"], "label": "l"}},
            "tsv with kind language_model, expected",
        ),
        ({"kind": "classification", "labels": ["a"]}, "reader lines with kind"),
    ],
)
def test_tasks_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(TASK | change, TaskConfig, where="sources/d.yaml: task")
