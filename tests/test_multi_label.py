"""Several labels an example: head by hand, from a TSV file to the predictions of a trained cell."""

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import TaskConfig
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads import MultiLabelHead
from nlp_core.metrics import Predictions
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import ModelPlan
from nlp_core.report.cell import CellTask, read_predictions
from nlp_core.training.prediction import SplitPredictions, score_predictions, write_predictions
from tests.test_preprocess import build, put

SCORES = torch.tensor([[0.0, math.log(3.0)], [-math.log(3.0), 0.0]], dtype=torch.float64)
TARGET = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
TASK: dict[str, Any] = {
    "kind": "multi_label",
    "reader": {"name": "tsv", "texts": ["text"], "label": "topics", "label_separator": ","},
    "tokens": "spaces",
    "labels": ["art", "sport", "tax"],
    "metrics": ["micro_f1", "exact_match"],
    "splits": {
        "train": {"file": "train.tsv", "rows": 3},
        "test": {"file": "test.tsv", "rows": 1, "labelled": False},
    },
    "select_split": "train",
    "report_split": "train",
}
FILES = {
    "train.tsv": "text\ttopics\na b\ttax,art\nc\t\nd\tsport\n",
    "test.tsv": "text\nnew\n",
}


def run(root: Path, files: dict[str, str] = FILES) -> Path:
    put(root, files)
    preprocess_source("d", build({"task": TASK}, sorted(files)), root)
    return root / "processed/d"


def test_loss_by_hand() -> None:
    # p = (1/2, 3/4) for (1, 0) and (1/4, 1/2) for (0, 1)
    terms = [math.log(2), math.log(4), math.log(4 / 3), math.log(2)]
    plain = MultiLabelHead(3, 2).loss(SCORES, TARGET)
    assert float(plain) == pytest.approx(sum(terms) / 4)
    weighted = MultiLabelHead(3, 2, class_weights=[1.0, 3.0]).double().loss(SCORES, TARGET)
    expected = (terms[0] + 3 * terms[1] + terms[2] + 3 * terms[3]) / (4 * 2)
    assert float(weighted) == pytest.approx(expected)


def test_gradient_is_that_of_differences() -> None:
    head = MultiLabelHead(3, 2, class_weights=[1.0, 3.0]).double()
    scores = SCORES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.loss(x, TARGET), scores)


def test_labels_of_at_least_the_threshold_are_chosen() -> None:
    decoded = MultiLabelHead(3, 2, threshold=0.6).decode(SCORES)
    assert decoded.prediction.tolist() == [[False, True], [False, False]]
    assert MultiLabelHead(3, 2).decode(SCORES).prediction.tolist() == [[True, True], [False, True]]
    assert decoded.probability is not None
    torch.testing.assert_close(
        decoded.probability, torch.tensor([[0.5, 0.75], [0.25, 0.5]]).double()
    )


def test_weights_are_one_a_label() -> None:
    with pytest.raises(ConfigError, match="multi_label: class_weights: found 1 weights"):
        MultiLabelHead(3, 2, class_weights=[1.0])


def test_a_file_becomes_lists_of_labels(tmp_path: Path) -> None:
    folder = run(tmp_path)
    rows = pq.read_table(folder / "train.parquet").to_pylist()
    assert [row["labels"] for row in rows] == [["tax", "art"], [], ["sport"]]
    assert pq.read_table(folder / "test.parquet")["labels"].to_pylist() == [None]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["kind"] == "multi_label"
    assert manifest["labels"] == ["art", "sport", "tax"]
    assert manifest["splits"]["train"]["labels"] == {"art": 1, "sport": 1, "tax": 1}


def test_an_unknown_label_names_its_line(tmp_path: Path) -> None:
    files = FILES | {"train.tsv": FILES["train.tsv"].replace("sport", "art,sports")}
    with pytest.raises(DataError, match=r"train\.tsv: line 4: found the label 'sports', expected"):
        run(tmp_path, files)
    assert not (tmp_path / "processed/d").exists()


@pytest.mark.parametrize(
    ("kind", "separator"), [("multi_label", None), ("classification", ","), ("multi_label", "")]
)
def test_a_separator_belongs_to_several_labels_alone(kind: str, separator: str | None) -> None:
    task = deepcopy(TASK) | {"kind": kind}
    task["reader"]["label_separator"] = separator
    with pytest.raises(ConfigError, match="label_separator"):
        parse_config(task, TaskConfig, where="datasets/d.yaml: task")


def test_targets_are_an_indicator_of_the_labels(tmp_path: Path) -> None:
    task = read_task(run(tmp_path))
    split = task.read_split("train")
    assert split.target == [("tax", "art"), (), ("sport",)]
    featurizer = Featurizer(ModelPlan("m.json", {}, [], {}), {}, task.targets)
    encoded = featurizer.encode(split)
    batch = encoded.batch(np.array([2, 0]))
    assert batch.targets["labels"].tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert featurizer.encode(task.read_split("test")).targets == {}


def test_predictions_are_written_and_read_back(tmp_path: Path) -> None:
    task = read_task(run(tmp_path))
    split = task.read_split("train")
    score = np.array([[0.9, 0.1, 0.8], [0.2, 0.1, 0.6], [0.1, 0.9, 0.1]])
    predicted = SplitPredictions(split, {"labels": [["art", "tax"], ["tax"], ["sport"]]}, score)
    found = score_predictions(task, predicted)
    assert found == pytest.approx({"micro_f1": 600 / 7, "exact_match": 200 / 3})
    path = tmp_path / "d.parquet"
    write_predictions(path, task, {"honest": [predicted]})
    facts = CellTask(
        kind=task.kind,
        labels=task.targets["labels"],
        metrics=task.metrics,
        select_split="train",
        report_split="train",
        scheme=None,
        footnotes=[],
    )
    (item,) = read_predictions(path, facts, "finetune@d")
    back: Predictions = item.predictions
    assert back.target == [["tax", "art"], [], ["sport"]]
    assert back.prediction == [["art", "tax"], ["tax"], ["sport"]]
    np.testing.assert_array_equal(back.score, score)
