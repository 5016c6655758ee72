"""The inputs of a training, read and checked: a cell of the grid, or a model and user files."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.augmentation import choose_train
from nlp_core.data.task import Split, Task
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_shared_model, count_parameters
from nlp_core.models.plan import ModelPlan
from nlp_core.models.saving import load_pretrained_head
from nlp_core.prediction.split_prediction import SplitPredictions, encode_splits
from nlp_core.training.calibration import Calibration
from nlp_core.training.checkpoint import Progress
from nlp_core.training.matching import add_matching
from nlp_core.training.soft_targets import read_training_split
from nlp_core.training.start import Start
from nlp_core.training.task_run import TaskRun, list_selections

log = logging.getLogger(__name__)

LONG_TEXT = 5000  # words
MANY_TIMES = 20  # as long as the average


class FinishedSeed(NamedTuple):
    """What the training of one seed ends with.

    Attributes:
        predictions: by task, and by the way of choosing the epoch, those of each measured split.
        calibration: of the confidence, if it was fitted.
    """

    model: GraphModel
    progress: Progress
    predictions: dict[str, dict[str, list[SplitPredictions]]]
    calibration: Calibration | None = None

    @property
    def parameters(self) -> dict[str, int]:
        """Number of weights in all, and of those that are trained."""
        return count_parameters(self.model)


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """All that the training of a seed reads.

    Attributes:
        init: folder of the vectors or of the encoder.
        start: the trained model whose layers it continues from, or None.
        max_steps: steps after which training ends, whatever the epoch; None: all epochs.
        trainer: what trains in place of `Trainer`, with the same arguments.
        is_calibrated: whether the confidence is fitted on the selecting split after training.
    """

    name: str
    plan: ModelPlan
    recipe: RecipeConfig
    tasks: list[Task]
    init: Path
    start: Start | None = None
    max_steps: int | None = None
    trainer: Callable[..., Any] | None = None  # Any: a Trainer
    is_calibrated: bool = False

    @property
    def task(self) -> Task:
        (task,) = self.tasks
        return task

    @abstractmethod
    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        """Write predictions or metrics, and the description, next to the model and its history."""


def _warn_of_long_text(train: Split) -> None:
    """Log a warning if one text is so long that it decides how long an epoch takes."""
    for column in train.texts.values():
        lengths = column.lengths
        longest, mean = int(lengths.max(initial=0)), lengths.sum() / max(len(lengths), 1)
        if longest > max(LONG_TEXT, MANY_TIMES * mean):
            log.warning(
                "train found a text of %d words in row %d, and %.0f on average; it slows each "
                "epoch. Correct the row, or cut long texts with data.max_tokens",
                *(longest, train.ids[lengths.argmax()] + 1, mean),
            )


def prepare_tasks(
    run: Run, seed: int = 1
) -> tuple[GraphModel, dict[str, Featurizer], list[TaskRun]]:
    """Return a fresh model with, for each task, what reads its texts, and its encoded splits.

    A run that starts from a cell may start from the seed of it with the same number.
    """
    taught = [read_training_split(task, run.recipe.distillation) for task in run.tasks]
    trained = [
        (task, item.train if task.kind.is_auxiliary else choose_train(item.train, run.recipe, seed))
        for task, item in zip(run.tasks, taught, strict=True)
    ]
    for _, train in trained:
        _warn_of_long_text(train)
    known = run.start.read_vocabularies(run.plan, seed) if run.start else {}
    featurizers = Featurizer.build_all(run.plan, trained, run.init, known)
    named = {task.name: task.name if run.plan.tasks else None for task in run.tasks}
    model = build_shared_model(
        run.plan,
        {named[name]: featurizer for name, featurizer in featurizers.items()},
        {named[task.name]: task.kind for task in run.tasks},
    )
    load_pretrained_head(model, run.init)
    if run.start is not None:
        run.start.copy_weights(model, next(iter(featurizers.values())), seed)
    runs = []
    for (task, train), item in zip(trained, taught, strict=True):
        featurizer = featurizers[task.name]
        splits = encode_splits(featurizer, task, train)
        splits["train"] = replace(splits["train"], multiple=run.recipe.pad_to_multiple or 1)
        for layer, vocabulary in featurizer.vocabularies.items():
            log.info("finetune vocabulary layer=%s size=%d", layer, len(vocabulary))
        for name, encoded in splits.items():
            if encoded.unknown_share is not None:  # of the words that a language model predicts
                log.info("finetune next words split=%s unknown=%.4f", name, encoded.unknown_share)
        part = model.select(featurizer.plan) if run.plan.tasks else model
        soft_targets = item.soft_targets and add_matching(item.soft_targets, task, part, featurizer)
        runs.append(TaskRun(task, part, splits, list_selections(task), soft_targets))
    return model, featurizers, runs
