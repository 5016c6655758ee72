"""Few-shot training: the encoder learns from pairs of examples, then a head is fitted to vectors.

Shape letters: B batch, D width of the vectors, L labels, N examples.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nlp_core.config.recipe import RecipeConfig
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.kinds import LABEL
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan
from nlp_core.objectives.build import Objectives
from nlp_core.objectives.objective import Objective
from nlp_core.prediction.split_prediction import EVALUATION_BATCH
from nlp_core.training.loop import Trainer
from nlp_core.training.task_run import BatchOrder, TaskRun

Rows: TypeAlias = NDArray[np.int64]
VALIDATIONS = 4
"""Validations, and so checkpoints, in a run; the head is fitted for each."""
EACH = 2
"""Examples of a label that are drawn together, so that each batch has pairs of one label."""
INVERSE_PENALTY = 1.0
MOST_ITERATIONS = 1000
ABSENT = -30.0
"""The score of a label without an example in train, at most."""


class PairOrder(BatchOrder):
    """Batches in which labels take turns, as many in an epoch as a pass over train has."""

    def order_task(self, name: str, epoch: int, number: int | None = None) -> list[Rows]:
        size = self._find_batch_size(name, epoch)
        count = self.count_batches(epoch)[name]
        batches = draw_batches(self.tasks[name].train.labels, size, self.seed)
        return [*islice(batches, count * (epoch - 1), count * epoch)]


class PairObjective(Objective):
    """The loss of all pairs of a batch."""

    def backward(self, batch: Batch, step: int) -> float:
        vectors_BD = _read_vectors(self.model, batch)
        return self.add_gradients(compute_pair_loss(vectors_BD, batch.targets[LABEL]))


class FewShotTrainer(Trainer):
    """Train what is below the head on pairs, and fit the head to all of train at each validation.

    The last validation is kept: the selecting split is too small to choose.

    Raises:
        ConfigError: the model has another head than one linear choice of a label, or several
            processes train it.
        DataError: all examples of train have one label.

    Source: Tunstall et al. 2022 (efficient few-shot learning without prompts), section 3.
    Note: all pairs of a batch count, pairs of one label as much as all others; SetFit draws pairs.
    """

    def __init__(
        self,
        model: GraphModel,
        tasks: Sequence[TaskRun],
        *,
        recipe: RecipeConfig,
        seed: int,
        **more: Any,  # Any: those of Trainer
    ) -> None:
        _check_head(model.plan)
        recipe = recipe.model_copy(update={"kept_epoch": "last"})
        super().__init__(model, tasks, recipe=recipe, seed=seed, **more)
        if self.processes.count > 1:
            raise ConfigError(
                f"{model.plan.where}: training.few_shot: found {self.processes.count} processes, "
                "expected one, since each batch gives pairs; start one process."
            )
        below = (v for name, v in model.named_parameters() if not name.startswith("heads."))
        if not any(value.requires_grad for value in below):
            raise ConfigError(
                f"{model.plan.where}: training.few_shot: found only frozen weights below the head, "
                "expected some that learn from pairs; leave out few_shot or frozen."
            )
        (self.item,) = tasks
        if len(np.unique(self.item.train.labels)) < 2:
            raise DataError(
                f"{self.item.task.name}: split train: found one label, expected two or more, since "
                "few-shot training compares them; raise training.train_share or choose another "
                "seed."
            )
        self.order = PairOrder(self.tasks, recipe, seed)
        self.validate_every = math.ceil(self.num_steps / VALIDATIONS)
        self.max_steps = self.num_steps  # the last step ends with a validation

    def build_objectives(self, seed: int) -> Objectives:
        return {name: PairObjective(item.trained_model) for name, item in self.tasks.items()}

    def prepare_validation(self) -> None:
        _fit_head(self.model, self.item)


def _check_head(plan: ModelPlan) -> None:
    (head, *others) = plan.heads.values()
    if others or head.head is not ClassificationHead or head.options.get("hidden_dims"):
        raise ConfigError(
            f"{plan.where}: training.few_shot: found the head '{head.name}', expected one head "
            "`classification` without hidden_dims, which is fitted to the vectors of the encoder."
        )
    if head.options.get("loss"):
        raise ConfigError(
            f"{plan.where}: heads.{head.name}: found loss with few_shot, which ignores it; remove "
            "one."
        )


def draw_batches(labels_N: Rows, batch_size: int, seed: int) -> Iterator[Rows]:
    """Yield batches without end in which labels take turns, with EACH examples of each."""
    generator = np.random.default_rng(seed)
    own = [np.flatnonzero(labels_N == label) for label in np.unique(labels_N)]
    turns = [cycle(generator.permutation(rows).tolist()) for rows in own]
    while True:
        order: list[int] = []
        while len(order) < batch_size:
            for label in generator.permutation(len(turns)).tolist():
                order += [next(turns[label]) for _ in range(EACH)]
        for start in range(0, len(order) - batch_size + 1, batch_size):
            yield np.array(order[start : start + batch_size])


def compute_pair_loss(
    vectors_BD: Float[Tensor, "B D"], labels_B: Int[Tensor, " B"]
) -> Float[Tensor, ""]:
    """Return the squared error of the cosines of all pairs: 1 for one label, else 0.

    loss = (mean of (1 - cos)^2 over pairs of one label + mean of cos^2 over all others) / 2.
    """
    unit_BD = functional.normalize(vectors_BD, dim=-1)
    cosine = unit_BD @ unit_BD.T
    same = labels_B.unsqueeze(0) == labels_B.unsqueeze(1)
    pairs = torch.ones_like(same).triu(1)
    parts = [
        (cosine - float(wanted)).square()[pairs & (same == wanted)] for wanted in (True, False)
    ]
    means = [part.mean() for part in parts if len(part)]
    return torch.stack(means).mean() if means else (cosine * 0.0).sum()


def _read_vectors(model: GraphModel, batch: Batch) -> Tensor:
    """Return what the head reads, [B, D]."""
    (plan,) = model.plan.heads.values()
    values, _ = model.compute_layers(batch)
    return values[plan.inputs[0]]


@torch.no_grad()
def _fit_head(model: GraphModel, item: TaskRun) -> None:
    """Fit the head's linear map by logistic regression with an L2 penalty."""
    from sklearn.linear_model import LogisticRegression

    model.eval()
    labels_N = item.train.labels
    size = len(labels_N)
    parts = np.array_split(np.arange(size), math.ceil(size / EVALUATION_BATCH))
    read = (_read_vectors(model, item.train.batch(rows).to(model.device)) for rows in parts)
    vectors = np.concatenate([part.cpu().numpy() for part in read]).astype(np.float64)
    (head,) = model.heads.values()
    assert isinstance(head, ClassificationHead)
    weights = None if head.class_weights is None else head.class_weights.cpu().numpy()[labels_N]
    fitted = LogisticRegression(C=INVERSE_PENALTY, max_iter=MOST_ITERATIONS)
    fitted.fit(vectors, labels_N, sample_weight=weights)
    weight, bias = fitted.coef_, fitted.intercept_
    if len(fitted.classes_) == 2:  # scikit-learn keeps one row of two
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    out = head.layers.out
    out.weight.zero_()
    out.bias.fill_(ABSENT)
    known = torch.from_numpy(fitted.classes_)
    out.weight[known] = torch.from_numpy(weight).to(out.weight)
    out.bias[known] = torch.from_numpy(bias).to(out.bias)
