"""One task of a run: its part of the model, its splits, and what its teachers predicted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.task import Task
from nlp_core.models.features import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.objectives.distillation import Lesson, Student


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    Attributes:
        task: what is learnt.
        model: the part of the model that serves it.
        splits: by name, "train" and those that a selection looks at among them.
        selections: for each way of choosing the epoch the name of the split that it looks at.
        lesson: what teachers predicted of the training split; None: there is no teacher.
        measured: further splits that are measured whenever the epoch's are, and choose nothing.
        joint: the larger part of the model that a step trains, where batches have targets of
            further heads; None: `model`.
    """

    task: Task
    model: GraphModel
    splits: Mapping[str, EncodedSplit]
    selections: Mapping[str, str]
    lesson: Lesson | None = None
    measured: Sequence[str] = ()
    joint: GraphModel | None = None

    @property
    def trained_model(self) -> GraphModel:
        """The part of the model with the loss that it is trained by."""
        model = self.joint or self.model
        return model if self.lesson is None else Student(model, self.lesson)

    @property
    def train(self) -> EncodedSplit:
        """The training split."""
        return self.splits["train"]

    @property
    def group(self) -> NDArray[np.int64] | None:
        """The group of each example if the model's heads compare the examples of a group."""
        if not self.model.plan.grouped:
            return None
        group = self.train.split.group
        assert group is not None, "heads that compare candidates serve only kinds of groups"
        return group

    def count_batches(self, batch_size: int) -> int:
        """Return the batches of a pass over the training split, of examples or of groups."""
        units = self.train.split if self.group is None else np.unique(self.group)
        return math.ceil(len(units) / batch_size)
