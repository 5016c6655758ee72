"""The loss of a student, in numbers worked out by hand, and its parts."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from nlp_core.config.adversarial import DivergenceName
from nlp_core.config.recipe import DistillationConfig
from nlp_core.data.batching import Ragged
from nlp_core.data.soft_labels import SoftColumn
from nlp_core.errors import ConfigError
from nlp_core.heads.tagging import CRFTaggingHead
from nlp_core.models.batch import Batch
from nlp_core.objectives.distillation import SoftTargets, Student, compare_soft
from nlp_core.objectives.divergence import mean_divergence
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks
from nlp_core.training.task_run import TaskRun
from tests.test_accumulation import set_heads
from tests.tiny_training import make_cell, project

__all__ = ["project"]

OBJECTIVES = ["mse_scores", "mse_logits", "kl"]


def objective(name: str, **changes: Any) -> DistillationConfig:
    values = {"name": name, "weight": 0.5, **({"temperature": 2.0} if name == "kl" else {})}
    found: DistillationConfig = TypeAdapter(DistillationConfig).validate_python(
        {**values, **changes}
    )
    return found


def logits(*probabilities: float) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_equal_outputs_cost_exactly_nothing(name: str) -> None:
    said_NL = torch.randn(7, 4, requires_grad=True)
    loss_N = compare_soft(objective(name), said_NL.detach()[None], said_NL)
    loss_N.sum().backward()
    assert not loss_N.any()
    assert said_NL.grad is not None
    assert not said_NL.grad.any()


def test_differences_of_two_distributions_by_hand() -> None:
    taught, said = logits(0.9, 0.1), logits(0.5, 0.5)
    found = {
        name: float(compare_soft(objective(name, **more), taught[None], said))
        for name, more in [("mse_scores", {}), ("mse_logits", {}), ("kl", {"temperature": 1.0})]
    }
    gaps = np.log([0.9, 0.1]) - np.log(0.5)
    assert found["mse_scores"] == pytest.approx(0.4**2)
    assert found["mse_logits"] == pytest.approx((gaps**2).mean())
    assert found["kl"] == pytest.approx(0.9 * np.log(1.8) + 0.1 * np.log(0.2))


def test_temperature_softens_both_sides_and_counts_squared() -> None:
    taught, said = logits(0.9, 0.1), logits(0.2, 0.8)
    soft_p = np.sqrt([0.9, 0.1]) / np.sqrt([0.9, 0.1]).sum()
    soft_q = np.sqrt([0.2, 0.8]) / np.sqrt([0.2, 0.8]).sum()
    found = float(compare_soft(objective("kl", temperature=2.0), taught[None], said))
    assert found == pytest.approx(4 * (soft_p * np.log(soft_p / soft_q)).sum())


def test_hot_kl_is_the_squared_difference_of_centred_logits() -> None:
    """Hinton et al. 2015, equation 4: T^2 KL goes to sum (v - z)^2 / 2 L, logits of mean 0."""
    taught, said = torch.randn(5, 3).double(), torch.randn(5, 3).double()
    gap = (taught - taught.mean(1, True)) - (said - said.mean(1, True))
    found = compare_soft(objective("kl", temperature=1e4), taught[None], said)
    torch.testing.assert_close(found, gap.square().sum(1) / 6, rtol=1e-3, atol=1e-7)


def test_ensemble_is_the_mean_of_its_members_after_the_softmax() -> None:
    members, said = torch.stack([logits(0.9, 0.1), logits(0.5, 0.5)]), logits(0.7, 0.3)
    assert float(compare_soft(objective("mse_scores"), members, said)) == pytest.approx(0, abs=1e-9)
    kl = objective("kl", temperature=1.0)
    assert float(compare_soft(kl, members, said)) == pytest.approx(0, abs=1e-9)
    mean = torch.stack([torch.tensor([1.0]), torch.tensor([4.0])])
    assert compare_soft(kl, mean, torch.tensor([2.0])).item() == 0.25


@pytest.mark.parametrize("name", OBJECTIVES)
def test_hidden_classes_change_nothing(name: str) -> None:
    taught, said = torch.randn(1, 4, 3), torch.randn(4, 3)
    hidden = torch.full((4, 2), torch.finfo(torch.float32).min / 4)
    wide = [torch.cat([part, hidden.expand(*part.shape[:-1], 2)], -1) for part in (taught, said)]
    torch.testing.assert_close(
        compare_soft(objective(name), wide[0], wide[1]), compare_soft(objective(name), taught, said)
    )


def make_run(kind: str) -> TaskRun:
    seed_everything(3)
    _, _, (run,) = prepare_tasks(make_cell(Path(), kind))
    return run


def make_soft_targets(run: TaskRun, **changes: Any) -> SoftTargets:
    """Return soft targets of random scores for the one head of a run."""
    (head,) = run.model.heads.values()
    assert isinstance(head.target, str)
    width = 0 if run.task.kind.is_number else len(run.task.labels)
    offsets = run.train.split.texts["tokens"].offsets if head.target == "tags" else None
    size = len(run.train.split) if offsets is None else offsets[-1]
    shape = (1, size, width) if width else (1, size)
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    soft_targets = SoftTargets(
        columns={head.target: SoftColumn(values, offsets)},
        widths={head.target: width},
        marginals=False,
        objective=objective("kl"),
        weight=0.5,
        num_labelled=len(run.train.split),
    )
    return replace(soft_targets, **changes)


def loss_of(run: TaskRun, soft_targets: SoftTargets, rows: np.ndarray) -> float:
    torch.manual_seed(0)
    return float(Student(run.model, soft_targets).loss(run.train.batch(rows)).detach())


@pytest.mark.parametrize("kind", ["classification", "tagging", "pair_regression"])
def test_weight_mixes_the_two_losses(project: Path, kind: str) -> None:
    run, rows = make_run(kind), np.arange(8)
    soft_targets = make_soft_targets(run)
    torch.manual_seed(0)
    hard = float(run.model.loss(run.train.batch(rows)).detach())
    soft = loss_of(run, replace(soft_targets, weight=1.0), rows)
    assert loss_of(run, replace(soft_targets, weight=0.0), rows) == hard
    assert soft != pytest.approx(hard)
    mixed = loss_of(run, replace(soft_targets, weight=0.25), rows)
    assert mixed == pytest.approx(0.75 * hard + 0.25 * soft)


def test_examples_without_labels_have_the_soft_loss_alone(project: Path) -> None:
    run, rows = make_run("classification"), np.arange(8)
    run.model.eval()
    soft_targets = make_soft_targets(run)
    half = replace(soft_targets, num_labelled=4)
    soft = loss_of(run, replace(soft_targets, weight=1.0), rows)
    hard = float(run.model.loss(run.train.batch(np.arange(4))).detach())
    labels = run.train.targets["label"]
    assert not isinstance(labels, Ragged)
    run.train.targets["label"] = np.append(
        labels[np.arange(4)], np.zeros(len(run.train.split) - 4, int)
    )
    assert loss_of(run, half, rows) == pytest.approx(0.5 * 0.5 * hard + 0.5 * soft)
    none = replace(soft_targets, num_labelled=0)
    assert loss_of(run, none, rows) == pytest.approx(0.5 * soft)


UNEQUAL = {
    "label": ("classification", {"head": "classification", "class_weights": [0.2, 3.0]}),
    "value": ("pair_regression", {"head": "regression"}),
    "sentences": ("tagging", {"head": "tagging", "reduction": "sentence"}),
    "tokens": ("tagging", {"head": "tagging", "reduction": "token"}),
    "field": ("tagging", {"head": "crf_tagging", "reduction": "token"}),
    "questions": ("ranking", {"head": "listwise_ranking"}),
    "labels": ("multi_label", {"head": "multi_label"}),
}


@pytest.mark.parametrize("aim", ["mse_scores", "kl"])
@pytest.mark.parametrize("num_labelled", [12, 5, 0], ids=lambda number: f"{number}_labelled")
@pytest.mark.parametrize("name", sorted(UNEQUAL))
def test_parts_of_unequal_size_add_up_to_the_whole_batch(
    project: Path, name: str, num_labelled: int, aim: str
) -> None:
    kind, head = UNEQUAL[name]
    set_heads(project, kind, out=head)
    run = make_run(kind)
    run.model.eval()
    changes: dict[str, Any] = {"widths": {"label": 0}} if kind == "ranking" else {}
    changes["objective"] = objective(aim)
    soft_targets = make_soft_targets(run, num_labelled=num_labelled, **changes)
    if kind == "ranking":
        values = soft_targets.columns["label"].values[..., 0]
        soft_targets = replace(soft_targets, columns={"label": SoftColumn(values, None)})
    student = Student(run.model, soft_targets)
    if kind == "ranking":  # questions of one candidate, of two and of many
        run.train.split.group[:12] = [1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4]
        parts = [np.arange(3), np.arange(3, 12)]
    else:
        parts = [np.array([0]), np.arange(1, 4), np.arange(4, 12)]
    gradients, losses = [], []
    for batches in (
        [run.train.batch(np.arange(12))],
        student.share_terms([run.train.batch(part) for part in parts]),
    ):
        student.zero_grad()
        loss = torch.stack([student.loss(batch) for batch in batches]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        named = student.named_parameters()
        gradients.append({key: item.grad for key, item in named if item.grad is not None})
        losses.append(float(loss.detach()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    # float32: sums in another order
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("divergence", ["kl", "symmetric_kl", "jensen_shannon", "hellinger"])
@pytest.mark.parametrize("name", sorted(UNEQUAL))
def test_divergences_of_parts_add_up_to_that_of_the_whole_batch(
    project: Path, name: str, divergence: DivergenceName
) -> None:
    kind, head = UNEQUAL[name]
    set_heads(project, kind, out=head)
    run = make_run(kind)
    run.model.eval()
    parts, whole = [np.arange(3), np.arange(3, 12)], np.arange(12)
    if kind == "ranking":
        run.train.split.group[:12] = [1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4]

    def compare(batch: Batch) -> Tensor:
        outputs = run.model.compute_outputs(batch)
        (weight,), (first,) = run.model.compute_weights(batch).values(), outputs.values()
        return weight * mean_divergence(divergence, first, first * 0.5)

    batches = run.model.share_terms([run.train.batch(rows) for rows in parts])
    added = torch.stack([compare(batch) for batch in batches]).sum()
    # float32: sums in another order
    torch.testing.assert_close(added, compare(run.train.batch(whole)), rtol=1e-4, atol=1e-7)


def test_soft_labels_follow_the_scores_to_their_device(project: Path) -> None:
    run, rows = make_run("classification"), np.arange(8)
    student = Student(run.model, make_soft_targets(run))
    batch = run.train.batch(rows)
    with torch.device("meta"):
        scores = {"out": (torch.zeros(8, len(run.task.labels)), None)}
    assert student._compare(scores, batch).device.type == "meta"


def test_student_is_the_model_itself(project: Path) -> None:
    run = make_run("classification")
    student = Student(run.model, make_soft_targets(run))
    own = dict(run.model.named_parameters())
    assert {name: id(item) for name, item in student.named_parameters()} == {
        name: id(item) for name, item in own.items()
    }
    twin = copy.deepcopy(student)
    assert twin.soft_targets.columns["label"] is student.soft_targets.columns["label"]


def test_field_is_compared_by_its_marginals(project: Path) -> None:
    run = make_run("tagging")
    (head,) = run.model.heads.values()
    assert isinstance(head, CRFTaggingHead)
    with torch.no_grad():
        head.transition.normal_()
    batch = run.train.batch(np.arange(4))
    ((score, mask),) = run.model(batch).values()
    assert mask is not None
    soft = head.soften(score, mask)
    marginals = head.marginals(score, mask)
    torch.testing.assert_close(soft.exp()[mask], marginals[mask], rtol=1e-5, atol=1e-7)
    with pytest.raises(ConfigError, match="mse_logits, but a conditional random field"):
        Student(run.model, make_soft_targets(run, objective=objective("mse_logits")))


def test_slope_of_marginals_is_that_of_their_differences() -> None:
    torch.manual_seed(1)
    head = CRFTaggingHead(2, 3).double()
    with torch.no_grad():
        head.transition.normal_()
    mask = torch.tensor([[True, True, True], [True, True, False]])
    score = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: head.soften(x, mask)[mask], (score,))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"widths": {"label": 0}}, "found ClassificationHead, which gives an example a score for"),
        (
            {"columns": {"tags": SoftColumn(np.zeros(1))}},
            "expected one that predicts tags by outputs",
        ),
    ],
)
def test_head_that_cannot_learn_from_the_teacher_is_refused(
    project: Path, changes: dict[str, Any], expected: str
) -> None:
    run = make_run("classification")
    with pytest.raises(ConfigError, match=expected):
        Student(run.model, make_soft_targets(run, **changes))
