"""Few-shot training: the encoder learns from pairs of examples, then a head is fitted to vectors.

Shape letters: B batch, D width of the vectors, L labels, N examples.
"""

import logging
import math
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import Ragged
from nlp_core.errors import ConfigError, TrainingError
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.kinds import LABEL
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan
from nlp_core.prediction.split_prediction import EVALUATION_BATCH, predict, score_predictions
from nlp_core.training.checkpoint import Best, Progress
from nlp_core.training.optimizer import (
    build_optimizer,
    freeze_weights,
    set_learning_rate,
    update_weights,
)
from nlp_core.training.schedule import LearningRate
from nlp_core.training.task_run import HONEST, TaskRun

log = logging.getLogger(__name__)

EACH = 2
"""Examples of a label that are drawn together, so that each batch has pairs of one label."""
INVERSE_PENALTY = 1.0
MOST_ITERATIONS = 1000
ABSENT = -30.0
"""The score of a label without an example in train, at most."""


def check_few_shot(plan: ModelPlan) -> None:
    """Raise ConfigError unless the model's one head is a linear choice of a label."""
    (head, *others) = plan.heads.values()
    if others or head.head is not ClassificationHead or head.options.get("hidden_dims"):
        raise ConfigError(
            f"{plan.where}: training.few_shot: found the head '{head.name}', expected one head "
            "`classification` without hidden_dims, which is fitted to the vectors of the encoder."
        )


def train_few_shot(
    model: GraphModel,
    item: TaskRun,
    *,
    recipe: RecipeConfig,
    seed: int,
    max_steps: int | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Progress:
    """Train what is below the head on pairs, then fit the head to the vectors of all of train.

    Raises:
        TrainingError: a loss is not finite.

    Source: Tunstall et al. 2022 (efficient few-shot learning without prompts), section 3.
    Note: all pairs of a batch count, pairs of one label as much as all others; SetFit draws pairs.
    """
    targets = item.train.targets[LABEL]
    assert not isinstance(targets, Ragged), item.task.name
    labels_N = targets[np.arange(len(item.train.split))]
    if recipe.frozen:
        freeze_weights(model, recipe.frozen)
    optimizer, progress = build_optimizer(recipe.optimizer, model), Progress()
    rate = LearningRate(
        recipe.schedule,
        recipe.optimizer.lr,
        math.ceil(len(labels_N) / recipe.batch_size),
        recipe.epochs,
        max_steps,
    )
    batches = draw_batches(labels_N, recipe.batch_size, seed)
    for rows in islice(batches, rate.num_steps):
        model.train()
        set_learning_rate(optimizer, rate.at(progress.step, ()))
        optimizer.zero_grad(set_to_none=True)
        batch = item.train.batch(rows).to(model.device)
        loss = compute_pair_loss(_read_vectors(model, batch), batch.targets[LABEL])
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"{item.task.name}: found a loss of {value} at step {progress.step + 1}, "
                "expected a finite one; lower the learning rate (--lr)."
            )
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        update_weights(optimizer)
        progress.step += 1
        progress.losses.append(value)
        on_step(progress.step)
        if progress.step % max(rate.num_steps // 10, 1) == 0:
            _log_loss(progress)
    _fit_head(model, item, labels_N)
    _measure(model, item, progress, recipe.epochs)
    return progress


def draw_batches(
    labels_N: NDArray[np.int64], batch_size: int, seed: int
) -> Iterator[NDArray[np.int64]]:
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
def _fit_head(model: GraphModel, item: TaskRun, labels_N: NDArray[np.int64]) -> None:
    """Fit the head's linear map by logistic regression with an L2 penalty."""
    from sklearn.linear_model import LogisticRegression

    model.eval()
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


def _log_loss(progress: Progress) -> None:
    loss = sum(progress.losses) / len(progress.losses)
    progress.losses.clear()
    progress.events.append({"event": "train", "step": progress.step, "loss": loss})
    log.info("train pairs step=%d loss=%.4f", progress.step, loss)


def _measure(model: GraphModel, item: TaskRun, progress: Progress, epochs: int) -> None:
    """Measure the selecting split, which chooses nothing here."""
    encoded = item.splits[item.selections[HONEST]]
    metrics = score_predictions(item.task, predict(model, encoded, item.task.targets))
    place = {"epoch": epochs, "step": progress.step, "split": encoded.split.name}
    progress.events.append({"event": "validate", **place, "metrics": metrics})
    progress.best[HONEST] = Best(metrics[item.task.metrics[0]], float(epochs))
