"""The tasks of a run, each with its part of the model, and which of them each step trains."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import (
    draw_bootstrap,
    order_training_batches,
    order_training_groups,
    split_groups,
)
from nlp_core.data.mixing import Batches, count_steps, draw_batches, order_tasks
from nlp_core.data.task import Task
from nlp_core.errors import ConfigError, TrainingError
from nlp_core.metrics import HONEST, PAPER
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.distillation import SoftTargets, Student


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    Attributes:
        model: the part of the model that serves it.
        selections: for each way of choosing the epoch the name of the split that it looks at.
        soft_targets: what teachers predicted of the training split, if there are any.
        measured: further splits that are measured at each validation, and choose nothing.
        joint: the larger part of the model that a step trains, where batches have targets of
            further heads; None: `model`.
    """

    task: Task
    model: GraphModel
    splits: Mapping[str, EncodedSplit]
    selections: Mapping[str, str]
    soft_targets: SoftTargets | None = None
    measured: Sequence[str] = ()
    joint: GraphModel | None = None

    @property
    def trained_model(self) -> GraphModel:
        """The part of the model with the loss that it is trained by."""
        model = self.joint or self.model
        return model if self.soft_targets is None else Student(model, self.soft_targets)

    @property
    def train(self) -> EncodedSplit:
        return self.splits["train"]

    @property
    def group(self) -> NDArray[np.int64] | None:
        """The group of each example if the heads compare the examples of a group."""
        if not self.model.plan.grouped:
            return None
        group = self.train.split.group
        assert group is not None, "heads that compare candidates serve only kinds of groups"
        return group

    def split_rows(self, rows: NDArray[np.int64], number: int) -> Batches:
        """Return a step's rows in at most `number` parts; a group of candidates stays whole."""
        if number == 1:
            return [rows]
        units = rows if self.group is None else np.unique(self.group[rows])
        parts = [part for part in np.array_split(units, number) if len(part)]
        if self.group is None:
            return parts
        return [rows[np.isin(self.group[rows], part)] for part in parts]

    def count_batches(self, batch_size: int) -> int:
        """Return the batches of a pass over the training split, of examples or of groups."""
        units = self.train.split if self.group is None else np.unique(self.group)
        return math.ceil(len(units) / batch_size)


class BatchOrder:
    """The order of the batches, which depends on the seed and the epoch only.

    Args:
        recipe: batch sizes, buckets, and how several tasks take turns.
    """

    def __init__(self, tasks: Mapping[str, TaskRun], recipe: RecipeConfig, seed: int) -> None:
        self.tasks = tasks
        self.recipe = recipe
        self.seed = seed
        self._sizes: dict[int, dict[str, int]] = {}
        self._check_negatives()
        self._drawn = {
            name: _draw(item, seed, stream)
            for stream, (name, item) in enumerate(tasks.items())
            if recipe.resample == "bootstrap"
        }

    @property
    def steps_per_epoch(self) -> int | list[int]:
        """The steps of an epoch; those of each epoch if they differ."""
        mixing, epochs = self.recipe.mixing, self.recipe.epochs
        if not self._differs:
            return count_steps(mixing, self.count_batches(1))
        return [count_steps(mixing, self.count_batches(epoch)) for epoch in range(1, epochs + 1)]

    @property
    def _differs(self) -> bool:
        """Whether epochs have different numbers of batches."""
        return self.recipe.batch_tokens is not None or self.recipe.batch_growth is not None

    def count_batches(self, epoch: int) -> dict[str, int]:
        """Return by task the batches of a pass over its training split, as an epoch has them."""
        epoch = epoch if self._differs else 1
        # each bucket ends with a batch of its own, which may be small
        is_cut = self.recipe.batch_tokens is not None or self.recipe.buckets is not None
        if epoch not in self._sizes:
            self._sizes[epoch] = {
                name: len(self.order_task(name, epoch))
                if is_cut
                else item.count_batches(self._find_batch_size(name, epoch))
                for name, item in self.tasks.items()
            }
        return self._sizes[epoch]

    def order_epoch(self, epoch: int) -> list[tuple[str, NDArray[np.int64]]]:
        """Return task and rows of each step of an epoch, counted from 1."""
        mixing, epochs = self.recipe.mixing, self.recipe.epochs
        if mixing is None:
            (name,) = self.tasks
            return [(name, rows) for rows in self.order_task(name, epoch)]
        sizes = self.count_batches(epoch)
        steps = order_tasks(mixing, sizes, seed=self.seed, epoch=epoch, epochs=epochs)
        drawn = {
            name: iter(
                draw_batches(
                    partial(self.order_task, name, epoch), count, epoch=epoch, epochs=epochs
                )
            )
            for name, count in Counter(steps).items()
        }
        return [(name, next(drawn[name])) for name in steps]

    def order_task(self, name: str, epoch: int, number: int | None = None) -> Batches:
        """Return the batches of a pass over a task's training split, or over its resample.

        Args:
            epoch: whose batch size they have.
            number: of the pass, from 1; None: that of the epoch.
        """
        item, drawn = self.tasks[name], self._drawn.get(name)
        lengths, group = item.train.lengths, item.group
        if drawn is not None:
            lengths, group = lengths[drawn.rows], None if group is None else drawn.unit
        order = order_training_batches if group is None else partial(order_training_groups, group)
        batches = order(
            lengths,
            batch_size=self._find_batch_size(name, epoch),
            bucket_batches=self.recipe.bucket_batches,
            seed=self.seed,
            epoch=number or epoch,
            most_tokens=self.recipe.batch_tokens,
            multiple=self.recipe.pad_to_multiple or 1,
            buckets=self.recipe.buckets.list_widths() if self.recipe.buckets else None,
        )
        return batches if drawn is None else [drawn.rows[batch] for batch in batches]

    def list_passes(self, epoch: int, device: torch.device) -> Iterator[Callable[[], object]]:
        """Yield calls that each pass a batch of an epoch through the model of its task."""
        for number, (name, rows) in enumerate(self.order_epoch(epoch)):
            item = self.tasks[name]
            batch = item.train.draw(self.seed, number).batch(rows).to(device)
            yield partial(item.model, batch, informed=True)

    def count_planned(self, num_steps: int) -> Counter[str]:
        """Return the steps of each task in the first steps of the run."""
        mixing, epochs = self.recipe.mixing, self.recipe.epochs
        if mixing is None:
            return Counter(dict.fromkeys(self.tasks, num_steps))
        orders = (
            order_tasks(
                mixing, self.count_batches(epoch), seed=self.seed, epoch=epoch, epochs=epochs
            )
            for epoch in range(1, epochs + 1)
        )
        return Counter(itertools.islice(itertools.chain.from_iterable(orders), num_steps))

    def _check_negatives(self) -> None:
        """Raise ConfigError if a loss compares the examples of a batch, and all have only one."""
        for name, item in self.tasks.items():
            compares = any(plan.head.whole for plan in item.model.plan.heads.values())
            if not compares or self._find_batch_size(name, self.recipe.epochs) > 1:
                continue
            if (item.train.labels == 1).all():
                raise ConfigError(
                    f"{item.model.plan.where}: batch_size: found 1 and no passage labelled 0, "
                    "expected 2 or more: the passages of a batch's other queries are the wrong "
                    "ones that a query's own is compared with."
                )

    def _find_batch_size(self, name: str, epoch: int) -> int:
        recipe = self.recipe
        size = (recipe.task_batch_sizes or {}).get(name, recipe.batch_size)
        if recipe.batch_growth is None:
            return size
        return max(int(size * recipe.batch_growth.find_factor(recipe.batch_size, epoch) + 0.5), 1)


def refuse_parts(model: GraphModel) -> None:
    """Raise ConfigError if the loss of a batch is not the sum of those of its parts."""
    for name, plan in model.plan.heads.items():
        if plan.head.whole:
            raise ConfigError(
                f"{model.plan.where}: head '{name}': found a batch in parts (accumulate or "
                "shards of the recipe, or several processes), expected a whole one, since its loss "
                "compares all examples of the batch; set accumulate and shards to null and train "
                "in one process."
            )


def refuse_idle_tasks(names: Iterable[str], steps: Mapping[str, int]) -> None:
    """Raise TrainingError if a task of a run has no step."""
    idle = [name for name in names if not steps.get(name)]
    if idle:
        raise TrainingError(
            f"{', '.join(idle)}: found no step of training in {sum(steps.values())}, expected one "
            "for each task at least. Change the recipe's mixing, or take the task out of its group."
        )


class _Resample(NamedTuple):
    """Rows of a training split, and the number of the draw that each belongs to."""

    rows: NDArray[np.int64]
    unit: NDArray[np.int64]


def _draw(item: TaskRun, seed: int, stream: int) -> _Resample:
    """Draw examples, or whole groups where the heads compare the examples of a group."""
    if item.group is None:
        rows = draw_bootstrap(len(item.train.split), seed=seed, stream=stream)
        return _Resample(rows, np.arange(len(rows)))
    members = split_groups(item.group)
    drawn = [members[idx] for idx in draw_bootstrap(len(members), seed=seed, stream=stream)]
    return _Resample(np.concatenate(drawn), np.repeat(np.arange(len(drawn)), [*map(len, drawn)]))


def list_selections(task: Task) -> dict[str, str]:
    """Return the split that each way of choosing the epoch looks at.

    Where a part of the training split chooses, the paper chose on the reported split itself; the
    cell then has both numbers.
    """
    selections = {HONEST: task.select_split}
    if task.select_split == "held_out" != task.report_split:
        selections[PAPER] = task.report_split
    return selections
