"""Let a trained cell predict a task's training texts: a task with soft labels.

A work folder keeps a seed's answers under a digest of the seed and of the texts. A killed run
resumes at its seed. A retrained seed, or changed texts, are scored again. The folder of the taught
task appears whole, at the end. Several processes take the batches in turns and write the same
bytes as one.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from nlp_core.config.params import Params
from nlp_core.config.teaching import TeachingConfig
from nlp_core.data.augmentation import Texts, read_texts
from nlp_core.data.soft_labels import (
    TRAIN_FILE,
    SoftLabels,
    TeacherSeed,
    append_answers,
    read_soft_labels,
    write_answers,
    write_taught_task,
)
from nlp_core.data.task import Task, read_split_file, read_task
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import digest_json, name_local, replacing, replacing_folder
from nlp_core.models.plan import ModelPlan
from nlp_core.prediction.split_prediction import score_split
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.processes import Processes
from nlp_core.training.soft_targets import describe_teacher, require_weights
from nlp_core.training.work import join_training

log = logging.getLogger(__name__)
PROCESSED = Path("data/processed")


@dataclass(frozen=True)
class Teacher:
    """A trained cell and the task that it teaches; `name` is that of the taught task."""

    name: str
    config: TeachingConfig
    cell: Cell
    task: Task

    @property
    def folder(self) -> Path:
        return PROCESSED / self.name

    @property
    def plan(self) -> ModelPlan:
        """The part of the model that teaches."""
        return self.cell.plan.for_task(self.task.name)

    def find_key(self, seed: int) -> str:
        """Return the digest of what a seed's answers depend on."""
        return digest_json(
            {
                "teacher": describe_teacher(self.cell.folder, seed),
                "task": self.task.digest,
                "texts": self.config.model_dump(exclude={"cell", "seeds", "data"}),
                "machine": describe_machine(),
                "numerics": self.cell.numerics,
            }
        )


def read_teacher(name: str, params: Params) -> Teacher:
    """Read and check all that a taught task is made of, before any work starts.

    Raises:
        ConfigError: no taught task has that name; a head has no outputs that could be compared.
        DataError: the cell is not trained, or the task is not processed yet.
    """
    if name not in params.taught:
        raise ConfigError(
            f"params.yaml: taught: unknown task '{name}'. {suggest(name, params.taught)}"
        )
    config = params.taught[name]
    cell = read_cell(config.cell.rpartition("/")[2], params)
    for seed in config.seeds:
        require_weights(cell.folder, seed)
    teacher = Teacher(name, config, cell, read_task(PROCESSED / config.data))
    for head in teacher.plan.heads.values():
        if not head.head.comparable or teacher.task.kind.has_passages:
            raise ConfigError(
                f"{cell.plan.where}: head '{head.name}': found {head.head.__name__}, expected one "
                f"whose outputs a student can learn from; '{cell.name}' cannot teach."
            )
    (own,) = (item for item in cell.tasks if item.name == teacher.task.name)
    if own.targets != teacher.task.targets:
        raise DataError(
            f"{teacher.task.folder}: found the labels {teacher.task.targets}, expected those that "
            f"'{cell.name}' was trained on, {own.targets}."
        )
    return teacher


def teach(teacher: Teacher) -> Path:
    """Write the taught task and return its folder.

    Raises:
        DataError: the texts cannot be altered or joined, or another cell taught them with another
            sort of head.
        TrainingError: another process writes it.
    """
    work, seeds = Path("artifacts/work/taught") / teacher.name, teacher.config.seeds
    with join_training(work, "teacher") as processes:
        before = read_soft_labels(teacher.task.folder)
        config = teacher.config
        if before and (config.further or config.alteration):
            raise DataError(
                f"params.yaml: taught.{teacher.name}.data: found '{config.data}', which other "
                "cells have taught already, and further texts, which those have not seen; let the "
                "first cell have them."
            )
        texts = read_texts(teacher.task, further=config.further, alteration=config.alteration)
        kept = [_teach_seed(teacher, seed, work, texts, processes) for seed in seeds]
        if not processes.is_first:
            return teacher.folder
        with replacing_folder(teacher.folder) as folder:
            table = texts.table
            for member, path in enumerate(kept, len(before.teachers) if before else 0):
                table = append_answers(table, member, path)
            write_taught_task(teacher.task, folder, table, _describe(teacher, texts, before))
        for other in work.glob("*.parquet"):
            if other not in kept:
                other.unlink()
    log.info("teach done task=%s seeds=%s", teacher.name, seeds)
    return teacher.folder


def _teach_seed(
    teacher: Teacher, seed: int, work: Path, texts: Texts, processes: Processes
) -> Path:
    """Let one seed predict unless it has, and return the file of its answers."""
    path = work / f"{teacher.find_key(seed)[:16]}.parquet"
    processes.wait()  # so that all of them find the file, or none
    if path.exists():
        log.info("teach kept task=%s seed=%d", teacher.name, seed)
        return path
    seed_everything(seed)
    trained = TrainedModel.open(teacher.cell.folder, seed=seed, task=teacher.task.name)
    trained.model.to(processes.device)
    with replacing(work / f"{processes.rank}-{TRAIN_FILE}") as temporary:
        pq.write_table(texts.table, name_local(temporary))
        split = read_split_file(temporary, teacher.task.kind, teacher.task.targets)
    log.info("teach task=%s seed=%d rows=%d", teacher.name, seed, len(split))
    plan = teacher.plan
    for missing in plan.find_missing(split.columns).values():
        raise DataError(
            f"params.yaml: taught.{teacher.name}.data: found '{teacher.config.data}', which has "
            f"no column '{missing}', expected texts that '{teacher.cell.name}' can read: "
            f"{', '.join(plan.inputs.values())}."
        )
    encoded = trained.featurizer.encode(split)
    scores = score_split(
        trained.model,
        encoded,
        texts.begins,
        precision=teacher.config.precision,
        rank=processes.rank,
        count=processes.count,
    )
    parts = processes.gather_objects(scores)
    if processes.is_first:
        # a process without a batch has no target
        found = {name: [part[name] for part in parts if name in part] for name in scores}
        write_answers(path, {name: _merge(each) for name, each in found.items()})
    return path


def _merge(parts: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the scores of each example from the process that has them."""
    return [max(row, key=lambda item: item.size) for row in zip(*parts, strict=True)]


def _describe(teacher: Teacher, texts: Texts, before: SoftLabels | None) -> SoftLabels:
    cell, targets = teacher.cell, teacher.task.targets
    heads = [plan.head for plan in teacher.plan.heads.values()]
    widths: dict[str, int] = {
        head.target: 0 if head.grouped else len(targets[head.target]) for head in heads
    }
    marginals = any(head.structured for head in heads)
    teachers = [
        TeacherSeed(cell.folder, seed, digest_json(describe_teacher(cell.folder, seed)))
        for seed in teacher.config.seeds
    ]
    own = [*texts.begins, len(texts.table)][1]
    soft = SoftLabels(own, widths, marginals, teachers)
    if before is None:
        return soft
    if before.widths != widths:
        raise DataError(
            f"{teacher.task.folder}: found {before.widths} numbers a target, and {widths} of "
            f"'{cell.name}'; teachers of one task need heads of one sort."
        )
    return replace(
        before, marginals=before.marginals or marginals, teachers=[*before.teachers, *teachers]
    )
