"""The training of one seed: steps, validations, checkpoints, and the best weights."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlp_core.config.params import RecipeConfig
from nlp_core.data.batching import order_training_batches, order_training_groups
from nlp_core.data.task import Task
from nlp_core.errors import TrainingError
from nlp_core.metrics import is_better
from nlp_core.models.features import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.objectives import build_objective
from nlp_core.training.checkpoint import Best, Progress, load_checkpoint, save_checkpoint
from nlp_core.training.optimizer import (
    LearningRate,
    WeightAverage,
    build_optimizer,
    set_learning_rate,
    update_weights,
)
from nlp_core.training.prediction import score_predictions
from nlp_core.training.threshold import predict_with_best_threshold

log = logging.getLogger(__name__)

LOGS_PER_EPOCH = 10


@dataclass(frozen=True)
class Trained:
    """The end of a run.

    Attributes:
        states: for each selection ("honest", "paper") the weights of its best validation.
        progress: the best validations and the history.
    """

    states: Mapping[str, dict[str, Tensor]]
    progress: Progress


class Trainer:
    """Train one model with one seed.

    Args:
        model: freshly built, from the seed.
        task: what is learnt; its first metric chooses the epoch.
        train: the training split.
        selections: for each way of choosing the epoch ("honest", "paper") the split it looks at.
        recipe: how to train.
        seed: orders the data.
        checkpoint: path of the checkpoint; where it exists, the run goes on from it.
        max_steps: steps after which training ends, whatever the epoch; None: all epochs.
        on_step: called after each step with the steps done.
    """

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        train: EncodedSplit,
        selections: Mapping[str, EncodedSplit],
        recipe: RecipeConfig,
        seed: int,
        checkpoint: Path,
        max_steps: int | None = None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.model = model
        self.task = task
        self.train_split = train
        self.selections = selections
        self.recipe = recipe
        self.seed = seed
        self.checkpoint = checkpoint
        self.max_steps = max_steps
        self.on_step = on_step
        self.steps_per_epoch = count_batches(model, train, recipe.batch_size)
        self.optimizer = build_optimizer(recipe.optimizer, model)
        self.average = WeightAverage(model, recipe.ema_decay) if recipe.ema_decay else None
        self.learning_rate = LearningRate(
            recipe.schedule, recipe.optimizer.lr, self.steps_per_epoch, recipe.epochs, max_steps
        )
        self.objective = build_objective(
            recipe.adversarial, model, seed=seed, num_steps=self.learning_rate.num_steps
        )
        self.progress = Progress()
        self.best_states: dict[str, dict[str, Tensor]] = {}
        self.losses: list[float] = []

    def run(self) -> Trained:
        """Train to the last epoch, or until patience ends, and return the best weights.

        Raises:
            TrainingError: a loss is not finite.
        """
        if self.checkpoint.exists():
            self._restore()
        while self.progress.epoch <= self.recipe.epochs and not self._is_over():
            self._run_epoch()
        return Trained(self.best_states, self.progress)

    def _run_epoch(self) -> None:
        progress = self.progress
        batches = self._order_batches(progress.epoch)
        share = self.recipe.validations_per_epoch
        pauses = {math.ceil(len(batches) * k / share) for k in range(1, share + 1)}
        every = max(len(batches) // LOGS_PER_EPOCH, 1)
        for idx in range(progress.batch, len(batches)):
            self.step(batches[idx])
            progress.batch = idx + 1
            if progress.batch % every == 0:
                self._log_loss()
            if progress.batch in pauses or progress.step == self.max_steps:
                self._validate(progress.epoch - 1 + progress.batch / len(batches))
                if progress.batch == len(batches):
                    progress.epoch, progress.batch = progress.epoch + 1, 0
                self._save()
                if self._is_over():
                    return

    def _order_batches(self, epoch: int) -> list[NDArray[np.int64]]:
        lengths, group = self.train_split.lengths, _find_groups(self.model, self.train_split)
        order = order_training_batches if group is None else partial(order_training_groups, group)
        return order(
            lengths,
            batch_size=self.recipe.batch_size,
            bucket_batches=self.recipe.bucket_batches,
            seed=self.seed,
            epoch=epoch,
        )

    def step(self, rows: NDArray[np.int64]) -> None:
        """Train on some examples of the training split: one update of the weights.

        Raises:
            TrainingError: the loss is not finite.
        """
        progress = self.progress
        self.model.train()
        lr = self.learning_rate.at(progress.step)
        set_learning_rate(self.optimizer, lr)
        batch = self.train_split.batch(rows)
        if progress.step == 0:
            log.info("finetune first batch task=%s rows=%d", self.task.name, len(batch.rows))
        self.optimizer.zero_grad(set_to_none=True)
        value = self.objective.backward(batch, progress.step)
        if not math.isfinite(value):
            raise TrainingError(self._describe_divergence(value, lr))
        if self.recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        update_weights(self.optimizer)
        progress.step += 1
        self.losses.append(value)
        if self.average is not None:
            self.average.update(self.model, progress.step)
        self.on_step(progress.step)

    def _describe_divergence(self, loss: float, lr: float) -> str:
        kept = self.checkpoint.exists()
        return (
            f"{self.task.name}: found a loss of {loss} at step {self.progress.step + 1} of epoch "
            f"{self.progress.epoch} with learning rate {lr:.3g}, expected a finite one. "
            f"The last good checkpoint is {self.checkpoint if kept else 'none'}. Lower the "
            "recipe's learning rate or set its clip_norm."
        )

    def _log_loss(self) -> None:
        progress = self.progress
        loss = sum(self.losses) / len(self.losses)
        self.losses.clear()
        lr = self.learning_rate.at(progress.step - 1)
        event = {"epoch": progress.epoch, "step": progress.step, "lr": lr, "loss": loss}
        progress.events.append({"event": "train", **event})
        log.info("finetune step epoch=%d step=%d lr=%.3g loss=%.4f", *event.values())

    def _validate(self, epoch: float) -> None:
        """Measure each selection's split and keep the weights of the best."""
        progress = self.progress
        if self.losses:
            self._log_loss()
        raw = {name: value.clone() for name, value in self.model.state_dict().items()}
        if self.average is not None:
            self.model.load_state_dict({**raw, **self.average.state})
        progress.stale += 1
        for selection, encoded in self.selections.items():
            predictions = predict_with_best_threshold(self.model, encoded, self.task.targets)
            metrics = score_predictions(self.task, predictions)
            split = encoded.split.name
            progress.events.append(
                {
                    "event": "validate",
                    "epoch": epoch,
                    "step": progress.step,
                    "split": split,
                    "metrics": metrics,
                }
            )
            score = metrics[self.task.metrics[0]]
            best = progress.best.get(selection)
            if best is None or is_better(self.task.metrics[0], score, best.score):
                progress.best[selection] = Best(score, epoch)
                state = self.model.state_dict()
                self.best_states[selection] = {name: v.clone() for name, v in state.items()}
                if selection == "honest":
                    progress.stale = 0
            text = " ".join(f"{name}={value:.2f}" for name, value in metrics.items())
            log.info("finetune validate epoch=%.2f split=%s %s", epoch, split, text)
        self.model.load_state_dict(raw)

    def _is_over(self) -> bool:
        if self.progress.step == self.max_steps:
            return True
        patience = self.recipe.patience
        return patience is not None and self.progress.stale >= patience

    def _save(self) -> None:
        states: dict[str, Mapping[str, Tensor]] = {"model": self.model.state_dict()}
        if self.average is not None:
            states["average"] = self.average.state
        states["objective"] = self.objective.state()
        states |= {f"best-{name}": state for name, state in self.best_states.items()}
        save_checkpoint(self.checkpoint, self.progress, states, self.optimizer)

    def _restore(self) -> None:
        self.progress, states = load_checkpoint(self.checkpoint, self.optimizer)
        self.model.load_state_dict(states["model"])
        if self.average is not None:
            self.average.state = {name: states["average"][name] for name in self.average.state}
        self.objective.restore(states.get("objective", {}))
        self.best_states = {
            part.removeprefix("best-"): state
            for part, state in states.items()
            if part.startswith("best-")
        }
        log.info("finetune resume epoch=%d step=%d", self.progress.epoch, self.progress.step)


def count_batches(model: GraphModel, train: EncodedSplit, batch_size: int) -> int:
    """Return the batches of an epoch.

    Args:
        model: whose heads decide whether a batch is of examples or of whole groups.
        train: the training split.
        batch_size: examples, or groups, a batch.
    """
    group = _find_groups(model, train)
    return math.ceil(len(train.split if group is None else np.unique(group)) / batch_size)


def _find_groups(model: GraphModel, train: EncodedSplit) -> NDArray[np.int64] | None:
    """Return the group of each example if the model's heads compare the examples of a group."""
    if not model.plan.grouped:
        return None
    assert train.split.group is not None, "heads that compare candidates serve only kinds of groups"
    return train.split.group


def load_weights(model: GraphModel, state: Mapping[str, Tensor]) -> None:
    """Give a model the weights of a finished run."""
    with torch.no_grad():
        model.load_state_dict(dict(state))
