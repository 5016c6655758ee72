"""The training of one seed: of a cell of the grid, or of a model on the user's files."""

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.distillation import MatchingConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import Ragged
from nlp_core.data.task import Task
from nlp_core.data.vocabulary import UNKNOWN
from nlp_core.files import format_line, replacing_folder, write_text
from nlp_core.kinds import NEXT_WORD
from nlp_core.models.features import EncodedSplit, Featurizer
from nlp_core.models.graph import GraphModel, build_shared_model
from nlp_core.models.masked_split import encode_split, load_pretrained_head
from nlp_core.models.plan import ModelPlan
from nlp_core.models.saving import save_model
from nlp_core.prediction.split_prediction import SplitPredictions, predict
from nlp_core.training.checkpoint import Progress
from nlp_core.training.determinism import seed_everything
from nlp_core.training.lesson import read_lesson
from nlp_core.training.loop import HONEST, PAPER, Trained, Trainer
from nlp_core.training.matching import read_matching
from nlp_core.training.processes import Processes
from nlp_core.training.progress import show_progress
from nlp_core.training.start import Start
from nlp_core.training.task_run import TaskRun

log = logging.getLogger(__name__)


class FinishedSeed(NamedTuple):
    """What the training of one seed ends with.

    Attributes:
        model: the model.
        progress: the best validations and the history.
        predictions: by task, and by the way of choosing the epoch, those of each measured split.
    """

    model: GraphModel
    progress: Progress
    predictions: dict[str, dict[str, list[SplitPredictions]]]


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """All that the training of a seed reads.

    Attributes:
        name: what messages call it.
        plan: the model.
        recipe: how to train.
        tasks: what is learnt, one or more.
        init: folder of the vectors or of the encoder.
        start: the trained model whose layers it goes on with, or None.
        max_steps: steps after which training ends, whatever the epoch; None: all epochs.
    """

    name: str
    plan: ModelPlan
    recipe: RecipeConfig
    tasks: list[Task]
    init: Path
    start: Start | None = None
    max_steps: int | None = None

    @property
    def task(self) -> Task:
        """The one task."""
        (task,) = self.tasks
        return task

    @property
    def matching(self) -> MatchingConfig | None:
        """What layers learn from those of the teacher; None: nothing."""
        distillation = self.recipe.distillation
        return None if distillation is None else distillation.matching

    @abstractmethod
    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        """Write predictions or metrics, and the description, next to the model and its history."""


def train_run(run: Run, seed: int, target: Path, checkpoint: Path, processes: Processes) -> None:
    """Train one seed into a folder, which appears whole at the end.

    Args:
        run: what is trained.
        seed: of weights, dropout and order.
        target: the folder to make; only the first process makes it.
        checkpoint: from which a killed run goes on.
        processes: those that take part in each step.

    Raises:
        TrainingError: a loss is not finite.
    """
    seed_everything(seed)
    model, featurizers, tasks = prepare_tasks(run, seed)
    trainer = Trainer(
        model,
        tasks,
        recipe=run.recipe,
        seed=seed,
        checkpoint=checkpoint,
        max_steps=run.max_steps,
        processes=processes,
    )
    with show_progress(f"{run.name} seed {seed}", trainer.num_steps) as on_step:
        trained = trainer.run(on_step)
    if not processes.is_first:
        return
    with replacing_folder(target) as folder:
        save_model(folder, trained.states[HONEST], featurizers)
        _write_history(folder, trained.progress)
        predictions = {item.task.name: _predict_splits(item, model, trained) for item in tasks}
        run.write_results(folder, FinishedSeed(model, trained.progress, predictions))
    checkpoint.unlink(missing_ok=True)


def prepare_tasks(
    run: Run, seed: int = 1
) -> tuple[GraphModel, dict[str, Featurizer], list[TaskRun]]:
    """Return a fresh model with, for each task, what reads its texts, and its encoded splits.

    Args:
        run: what is trained.
        seed: of the run; a run that starts from a cell may start from the same seed of it.
    """
    taught = [read_lesson(task, run.recipe.distillation) for task in run.tasks]
    trained = [(task, item.train) for task, item in zip(run.tasks, taught, strict=True)]
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
        names = dict.fromkeys((task.select_split, *task.report_splits))
        splits = {name: encode_split(featurizer, task.read_split(name)) for name in names}
        splits = {"train": encode_split(featurizer, train), **splits}
        _log_words(featurizer, splits)
        part = model.select(featurizer.plan) if run.plan.tasks else model
        lesson = item.lesson
        if lesson is not None and run.matching is not None:
            matching = read_matching(run.matching, task, part, featurizer)
            lesson = replace(lesson, matching=matching)
        runs.append(TaskRun(task, part, splits, _selections(task), lesson))
    return model, featurizers, runs


def _log_words(featurizer: Featurizer, splits: dict[str, EncodedSplit]) -> None:
    """Say how large the vocabularies are, and how much of what is to be predicted is unknown."""
    for layer, vocabulary in featurizer.vocabularies.items():
        log.info("finetune vocabulary layer=%s size=%d", layer, len(vocabulary))
    for name, encoded in splits.items():
        words = encoded.targets.get(NEXT_WORD)
        if isinstance(words, Ragged):
            share = float((words.values == UNKNOWN).sum() / (words.values >= 0).sum())
            log.info("finetune next words split=%s unknown=%.4f", name, share)


def _selections(task: Task) -> dict[str, str]:
    """Return the split that each way of choosing the epoch looks at.

    Where a part of the training split chooses, the paper chose on the reported split itself; the
    cell then has both numbers.
    """
    selections = {HONEST: task.select_split}
    if task.select_split == "held_out" != task.report_split:
        selections[PAPER] = task.report_split
    return selections


def _predict_splits(
    item: TaskRun, model: GraphModel, trained: Trained
) -> dict[str, list[SplitPredictions]]:
    """Return by the way of choosing the epoch the predictions of the splits that it measures."""
    task, predictions = item.task, {}
    for selection in sorted(trained.states):
        model.load_state_dict(trained.states[selection])
        chosen = (task.select_split, *task.report_splits)
        names = dict.fromkeys(chosen if selection == HONEST else chosen[1:])
        predictions[selection] = [
            predict(item.model, item.splits[name], task.targets) for name in names
        ]
    return predictions


def _write_history(folder: Path, progress: Progress) -> None:
    lines = "".join(format_line(event) for event in progress.events)
    write_text(folder / "history.jsonl", lines)
