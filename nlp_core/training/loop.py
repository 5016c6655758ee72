"""The training of one seed on one or more tasks: steps, validations, checkpoints, best weights."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.profiler import record_function

from nlp_core.config.recipe import RecipeConfig
from nlp_core.errors import TimeLimitError, TrainingError
from nlp_core.metrics import HONEST, find_direction, is_better
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.build import Objectives, build_objectives
from nlp_core.prediction.split_prediction import predict_with_best_threshold, score_predictions
from nlp_core.training.average import build_average, measure_statistics
from nlp_core.training.checkpoint import Best, Progress, is_usable, load_checkpoint, save_checkpoint
from nlp_core.training.control import PART, RunControl, watch_steps
from nlp_core.training.determinism import digest_weights
from nlp_core.training.optimizer import (
    build_optimizer,
    freeze_weights,
    hold_frozen_statistics,
    prune_weights,
    set_learning_rate,
    update_weights,
)
from nlp_core.training.processes import Processes
from nlp_core.training.schedule import LearningRate
from nlp_core.training.shards import Shards
from nlp_core.training.task_run import BatchOrder, TaskRun, refuse_idle_tasks, refuse_parts

log = logging.getLogger(__name__)

LOGS_PER_EPOCH = 10
SCALER = "scaler"


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

    Each step trains one task. The mean of the tasks' first metrics chooses the epoch.

    Args:
        model: freshly built from the seed, with the models of all tasks as its parts.
        checkpoint: path of the checkpoint; where it exists, the run resumes from it.
        max_steps: steps after which training ends, whatever the epoch; None: all epochs.
        validate_every: steps from one validation to the next; None: as often as the recipe says.
        processes: those that take part in each step; None: only this one.
        control: time limit, profile and curves, which change no result.
    """

    def __init__(
        self,
        model: GraphModel,
        tasks: Sequence[TaskRun],
        *,
        recipe: RecipeConfig,
        seed: int,
        checkpoint: Path,
        max_steps: int | None = None,
        validate_every: int | None = None,
        processes: Processes | None = None,
        control: RunControl | None = None,
    ) -> None:
        self.control = control or RunControl()
        self.processes = processes or Processes()
        self.model = model.to(self.processes.device)
        self.tasks = {item.task.name: item for item in tasks}
        main = [name for name, item in self.tasks.items() if not item.task.kind.is_auxiliary]
        self.main_tasks = main or [*self.tasks]
        self.recipe = recipe
        self.seed = seed
        self.checkpoint = checkpoint
        self.max_steps = max_steps
        self.validate_every = validate_every
        self.order = BatchOrder(self.tasks, recipe, seed)
        if recipe.frozen:
            freeze_weights(model, recipe.frozen)
        self.optimizer = build_optimizer(recipe.optimizer, model)
        self.shards: Shards | None = None
        if recipe.shards is not None:
            self.shards = Shards(recipe.shards, model, self.processes, seed)
        self.num_parts = recipe.shards or (recipe.accumulate or 1) * self.processes.count
        if self.num_parts > 1:
            refuse_parts(model)
        self.learning_rate = LearningRate(
            recipe.schedule,
            recipe.optimizer.lr,
            self.order.steps_per_epoch,
            recipe.epochs,
            max_steps,
            recipe.swa,
        )
        self.average = build_average(recipe, model, self.optimizer, self.learning_rate.swa_start)
        self.objectives = self.build_objectives(seed)
        self.precision = recipe.precision and getattr(torch, recipe.precision)
        self.scaler: torch.amp.GradScaler | None = None
        if self.precision == torch.float16:  # whose small gradients would become 0
            self.scaler = torch.amp.GradScaler(self.processes.device.type)
            for objective in self.objectives.values():
                objective.scale = self.scaler.scale
        self.progress = Progress()
        self.best_states: dict[str, dict[str, Tensor]] = {}

    def build_objectives(self, seed: int) -> Objectives:
        """Return the objective of each task."""
        return build_objectives(
            self.recipe.adversarial or self.recipe.augmentation,
            {name: item.trained_model for name, item in self.tasks.items()},
            self.main_tasks,
            seed=seed,
            num_steps=self.learning_rate.num_steps,
            rank=self.processes.rank,
        )

    @property
    def num_steps(self) -> int:
        """The steps of the whole run, unless patience ends it earlier."""
        return self.learning_rate.num_steps

    def run(self, on_step: Callable[[int], None] = lambda step: None) -> Trained:
        """Train and return the best weights; after each step `on_step` gets the steps done.

        Raises:
            TrainingError: a loss is not finite, or a task got no step.
            TimeLimitError: the time is over; the checkpoint is written.
        """
        if self.num_steps == 0:
            self._validate(0.0)
            return Trained(self.best_states, self.progress)
        refuse_idle_tasks(self.tasks, self.order.count_planned(self.num_steps))
        self.processes.seed_dropout(self.seed)
        if is_usable(self.checkpoint):
            self._restore()
        with watch_steps(self.control, self.seed, self.progress.events) as on_watched:
            while not self._is_over():
                self._run_epoch(on_step, on_watched)
        if len(self.tasks) > 1:
            log.info("train mixture steps=%s", self.progress.task_steps)
            # patience may have ended the run
            refuse_idle_tasks(self.tasks, self.progress.task_steps)
        return Trained(self.best_states, self.progress)

    def _run_epoch(self, on_step: Callable[[int], None], on_watched: Callable[[], None]) -> None:
        progress = self.progress
        batches = self.order.order_epoch(progress.epoch)
        share = self.recipe.validations_per_epoch
        pauses = {math.ceil(len(batches) * k / share) for k in range(1, share + 1)}
        every = max((self.validate_every or len(batches)) // LOGS_PER_EPOCH, 1)
        if progress.batch == 0 and len(self.tasks) > 1:
            steps = dict(sorted(Counter(task for task, _ in batches).items()))
            progress.events.append({"event": "mixture", "epoch": progress.epoch, "steps": steps})
            log.info("train mixture epoch=%d steps=%s", progress.epoch, steps)
        for idx in range(progress.batch, len(batches)):
            self.step(*batches[idx])
            on_step(progress.step)
            on_watched()
            progress.batch = idx + 1
            if progress.batch % every == 0:
                self._log_loss()
            is_pause = progress.batch in pauses
            if self.validate_every is not None:
                is_pause = progress.step % self.validate_every == 0
            is_pause = is_pause or progress.step == self.max_steps
            if is_pause:
                self._validate(progress.epoch - 1 + progress.batch / len(batches))
            if progress.batch == len(batches):
                progress.epoch, progress.batch = progress.epoch + 1, 0
            if is_pause:
                self._save()
                if self._is_over():
                    return
            self._check_time()

    def step(self, name: str, rows: NDArray[np.int64]) -> None:
        """Train on some examples of a task's training split: one update of the weights.

        Raises:
            TrainingError: the loss is not finite.
        """
        progress = self.progress
        self.model.train()
        if self.recipe.frozen:
            hold_frozen_statistics(self.model)
        scale = (self.recipe.task_lr_scales or {}).get(name, 1.0)
        lr = self.learning_rate.at(progress.step, progress.scores) * scale
        set_learning_rate(self.optimizer, lr)
        if progress.step == 0:
            log.info("train first batch task=%s rows=%d", name, len(rows))
        self.optimizer.zero_grad(set_to_none=True)
        for objective in self.objectives.values():
            objective.begin(progress.step)
        value = self._add_gradients(name, rows)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if not math.isfinite(value):
            has_checkpoint = self.checkpoint.exists()
            kept = f"The last checkpoint is {self.checkpoint}. " if has_checkpoint else ""
            raise TrainingError(
                f"{name}: found a loss of {value} at step {progress.step + 1} of epoch "
                f"{progress.epoch} with learning rate {lr:.3g}, expected a finite one. "
                f"{kept}Lower the recipe's learning rate or set its clip_norm."
            )
        with record_function(f"{PART}update"):
            self._update(name)
        progress.step += 1
        if len(self.tasks) > 1:
            progress.task_steps[name] = progress.task_steps.get(name, 0) + 1
        progress.losses.append(value)
        if self.average is not None:
            self.average.update(self.model, progress.step)

    def _add_gradients(self, name: str, rows: NDArray[np.int64]) -> float:
        """Set the gradients to those of a step's batch, and return its loss."""
        item, objective, step = self.tasks[name], self.objectives[name], self.progress.step
        device, precision = self.processes.device, self.precision
        with record_function(f"{PART}read"):
            train = item.train.draw(self.seed, step)
            parts = item.split_rows(rows, self.num_parts)
            batches = [train.batch(part).to(device) for part in parts]
            if self.num_parts > 1:
                batches = objective.model.share_terms(batches)
            own = self.processes.take_own(batches)
        context = torch.autocast(device.type, precision, enabled=precision is not None)
        with record_function(f"{PART}gradients"), context:
            if self.shards is not None:
                return self.shards.add_gradients(objective, own, len(batches), step)
            value = sum(objective.backward(item, step) for item in own)
        with record_function(f"{PART}exchange"):
            self.processes.add_gradients(self.model)
            return self.processes.add_value(value)

    def _update(self, name: str) -> None:
        """Move the weights along the gradients of a task."""
        if (weight := (self.recipe.task_weights or {}).get(name)) is not None:
            slopes = [p.grad for p in self.model.parameters() if p.grad is not None]
            torch._foreach_mul_(slopes, weight)
        if self.recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        if self.scaler is None:
            update_weights(self.optimizer)
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        prune_weights(self.model, self.recipe.pruning, (self.progress.step + 1) / self.num_steps)

    def _log_loss(self) -> None:
        progress = self.progress
        loss = sum(progress.losses) / len(progress.losses)
        progress.losses.clear()
        lr = self.learning_rate.at(progress.step - 1, progress.scores)
        event = {"epoch": progress.epoch, "step": progress.step, "lr": lr, "loss": loss}
        progress.events.append({"event": "train", **event})
        log.info("train step epoch=%d step=%d lr=%.3g loss=%.4f", *event.values())

    def _validate(self, epoch: float) -> None:
        """Measure each selection's split and keep the weights of the best."""
        progress = self.progress
        if progress.losses:
            self._log_loss()
        raw = {name: value.clone() for name, value in self.model.state_dict().items()}
        average = {} if self.average is None else self.average.weights
        digest = digest_weights(raw | {f"average/{name}": v for name, v in average.items()})
        place = {"epoch": epoch, "step": progress.step}
        progress.events.append({"event": "weights", **place, "digest": digest})
        if average:
            self.model.load_state_dict({**raw, **average})
        if average and self.average is not None and not self.average.is_recent:
            passes = self.order.list_passes(progress.epoch, self.processes.device)
            measure_statistics(self.model, passes, self.seed)
        self.prepare_validation()
        progress.stale += 1
        selections = dict.fromkeys(key for item in self.tasks.values() for key in item.selections)
        for selection in selections:
            scores = {
                name: self._measure(
                    item, item.selections.get(selection, item.selections[HONEST]), epoch
                )
                for name, item in self.tasks.items()
            }
            self._keep_best(selection, scores, epoch)
        for item in self.tasks.values():
            for split in item.measured:
                self._measure(item, split, epoch)
        self.model.load_state_dict(raw)

    def prepare_validation(self) -> None:
        """Change the model before it is measured and kept; its weights come back after that."""

    def _measure(self, item: TaskRun, split: str, epoch: float) -> float:
        task, encoded = item.task, item.splits[split]
        predictions = predict_with_best_threshold(item.model, encoded, task.targets)
        metrics = score_predictions(task, predictions)
        place = {"split": encoded.split.name}
        if len(self.tasks) > 1:
            place = {"task": task.name, **place}
        step = self.progress.step
        event = {"event": "validate", "epoch": epoch, "step": step, **place, "metrics": metrics}
        self.progress.events.append(event)
        text = " ".join(
            [*(f"{key}={value}" for key, value in place.items())]
            + [f"{key}={value:.2f}" for key, value in metrics.items()]
        )
        log.info("train validate epoch=%.2f %s", epoch, text)
        return metrics[task.metrics[0]]

    def _keep_best(self, selection: str, scores: Mapping[str, float], epoch: float) -> None:
        """Keep the weights with the best score (the mean over several tasks), or the last ones."""
        metrics = [self.tasks[name].task.metrics[0] for name in self.main_tasks]
        signs = [find_direction(name) for name in metrics]
        values = [scores[name] for name in self.main_tasks]
        signed = sum(s * value for s, value in zip(signs, values, strict=True)) / len(values)
        # accuracy stands for any metric of which more is better
        metric, score = (metrics[0], values[0]) if len(metrics) == 1 else ("accuracy", signed)
        best = self.progress.best.get(selection)
        kept = self.recipe.kept_epoch if selection == HONEST else None
        gains = best is None or kept == "last" or is_better(metric, score, best.score)
        ties = best is not None and kept == "last_best" and score == best.score
        if gains or ties:
            self.progress.best[selection] = Best(score, epoch)
            state = self.model.state_dict()
            self.best_states[selection] = {name: v.clone() for name, v in state.items()}
        if gains and selection == HONEST:
            self.progress.stale = 0
        if selection == HONEST:
            self.progress.scores.append(signed)
            self.control.watch(len(self.progress.scores), signed)

    def _is_over(self) -> bool:
        if self.progress.step == self.max_steps or self.progress.epoch > self.recipe.epochs:
            return True
        patience = self.recipe.patience
        return patience is not None and self.progress.stale >= patience

    def _check_time(self) -> None:
        """Write a checkpoint and raise TimeLimitError if the time is over and steps are left."""
        if self.control.deadline is None or self._is_over():
            return
        if self.processes.add_value(float(self.control.is_late)) > 0:
            self._save()
            raise TimeLimitError(
                f"{self.checkpoint}: the time limit ended the run after step {self.progress.step} "
                f"of {self.num_steps}; the same command resumes it from this checkpoint."
            )

    def _save(self) -> None:
        states: dict[str, Mapping[str, Tensor]] = {"model": self.model.state_dict()}
        if self.average is not None:
            states["average"] = self.average.state
        if self.scaler is not None:
            values = self.scaler.state_dict()
            states[SCALER] = {name: torch.tensor(value) for name, value in values.items()}
        for name, objective in self.objectives.items():
            states[f"objective-{name}"] = objective.state()
        states |= {f"best-{name}": state for name, state in self.best_states.items()}
        generators = self.processes.gather_random_states()
        if self.processes.is_first:
            save_checkpoint(self.checkpoint, self.progress, states, self.optimizer, generators)
        self.processes.wait()

    def _restore(self) -> None:
        rank = self.processes.rank
        self.progress, states = load_checkpoint(self.checkpoint, self.optimizer, rank)
        self.model.load_state_dict(states["model"])
        if self.average is not None:
            self.average.restore(states.get("average", {}))
        if self.scaler is not None:
            self.scaler.load_state_dict({name: v.item() for name, v in states[SCALER].items()})
        for name, objective in self.objectives.items():
            objective.restore(states.get(f"objective-{name}", {}))
        self.best_states = {
            part.removeprefix("best-"): state
            for part, state in states.items()
            if part.startswith("best-")
        }
        log.info("train resume epoch=%d step=%d", self.progress.epoch, self.progress.step)
