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
from torch.nn import functional

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import TaskConfig
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads.loss import CROSS_ENTROPY, CrossEntropyConfig, FocalConfig, compute_label_loss
from nlp_core.heads.sentence import MultiLabelHead
from nlp_core.metrics import Predictions
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import ModelPlan
from nlp_core.prediction.split_prediction import (
    SplitPredictions,
    score_predictions,
    write_predictions,
)
from nlp_core.report.cell import CellTask, read_predictions
from tests.test_accumulation import compare, set_heads
from tests.tiny_source import build, put
from tests.tiny_training import project

__all__ = ["project"]
SCORES = torch.tensor([[0.0, math.log(3.0)], [-math.log(3.0), 0.0]], dtype=torch.float64)
TARGET = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
SMOOTH = CrossEntropyConfig(name="cross_entropy", label_smoothing=0.2)
FOCAL = FocalConfig(name="focal", gamma=2.0)
CHOICES = [CROSS_ENTROPY, SMOOTH, FOCAL, FocalConfig(name="focal", gamma=0.5)]
each_choice = pytest.mark.parametrize("choice", CHOICES, ids=str)
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


def test_the_usual_loss_is_the_binary_cross_entropy_to_the_bit() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = 5 * torch.randn(7, 3, generator=generator)
    target = (torch.rand(7, 3, generator=generator) < 0.4).float()
    expected = functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
    for head in (MultiLabelHead(3, 3), MultiLabelHead(3, 3, loss=CROSS_ENTROPY)):
        assert head.loss(scores, target).equal(expected.mean())


def test_focal_loss_by_hand() -> None:
    # what is missing of p(y): 1/2, 3/4, 1/4, 1/2
    terms = [math.log(2) / 4, 9 / 16 * math.log(4), math.log(4 / 3) / 16, math.log(2) / 4]
    plain = MultiLabelHead(3, 2, loss=FOCAL).loss(SCORES, TARGET)
    assert float(plain) == pytest.approx(sum(terms) / 4)
    head = MultiLabelHead(3, 2, loss=FOCAL, class_weights=[1.0, 3.0]).double()
    expected = (terms[0] + 3 * terms[1] + terms[2] + 3 * terms[3]) / (4 * 2)
    assert float(head.loss(SCORES, TARGET)) == pytest.approx(expected)


def test_smoothed_labels_by_hand() -> None:
    # q = .9 or .1 for p = 1/2, 3/4, 1/4, 1/2
    miss = 0.1 * math.log(4 / 3) + 0.9 * math.log(4)
    hit = 0.9 * math.log(4 / 3) + 0.1 * math.log(4)
    found = MultiLabelHead(3, 2, loss=SMOOTH).loss(SCORES, TARGET)
    assert float(found) == pytest.approx((2 * math.log(2) + miss + hit) / 4)


@each_choice
def test_each_label_is_a_choice_of_yes_or_no(choice: Any) -> None:
    head = MultiLabelHead(3, 2, loss=choice)
    rows, answers = head.outputs(SCORES), TARGET.flatten().long()
    torch.testing.assert_close(
        head.loss(SCORES, TARGET), compute_label_loss(rows, answers, choice, None)
    )


def test_focal_loss_without_gamma_is_the_cross_entropy() -> None:
    head = MultiLabelHead(3, 2, loss=FocalConfig(name="focal", gamma=0.0))
    assert head.loss(SCORES, TARGET).equal(MultiLabelHead(3, 2).loss(SCORES, TARGET))


@each_choice
@pytest.mark.parametrize("weights", [None, [1.0, 3.0]])
def test_gradient_is_that_of_differences(choice: Any, weights: list[float] | None) -> None:
    head = MultiLabelHead(3, 2, class_weights=weights, loss=choice).double()
    scores = SCORES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.loss(x, TARGET), scores)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_of_a_certain_answer_has_a_gradient(gamma: float) -> None:
    scores = torch.tensor([[200.0, -200.0, 200.0, -200.0]], requires_grad=True)
    head = MultiLabelHead(3, 4, loss=FocalConfig(name="focal", gamma=gamma))
    loss = head.loss(scores, torch.tensor([[1.0, 0.0, 0.0, 1.0]]))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(100.0)
    assert scores.grad is not None
    # the right answers are not changed, the wrong ones pulled as by the cross entropy
    torch.testing.assert_close(scores.grad, torch.tensor([[0.0, 0.0, 0.25, -0.25]]))


def test_sixteen_bits_do_not_round_a_smoothed_label() -> None:
    target, head = torch.tensor([[1.0, 0.0]]), MultiLabelHead(3, 2, loss=SMOOTH)
    scores = torch.tensor([[2.0, 8.0]])
    assert head.loss(scores.bfloat16(), target).equal(head.loss(scores, target))


@pytest.mark.parametrize("loss", [{"name": "focal"}, SMOOTH.model_dump()], ids=["focal", "smooth"])
def test_parts_of_a_batch_add_up(project: Path, loss: dict[str, Any]) -> None:
    head = {"head": "multi_label", "class_weights": [0.2, 3.0], "loss": loss}
    set_heads(project, "multi_label", out=head)
    compare(project, "multi_label")


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
        parse_config(task, TaskConfig, where="sources/d.yaml: task")


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
        kind=task.kind.name,
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
