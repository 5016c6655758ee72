"""What a student trains on: the training split of a task, and what its teachers said of it."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.config.distillation import DistillationConfig
from nlp_core.data.soft_labels import TRAIN, read_soft_labels, read_taught_split
from nlp_core.data.task import Split, Task
from nlp_core.errors import DataError
from nlp_core.files import digest_file
from nlp_core.kinds import TAGS
from nlp_core.models.saving import VOCABULARY
from nlp_core.objectives.distillation import Lesson
from nlp_core.prediction.trained_model import CELL

log = logging.getLogger(__name__)


class Taught(NamedTuple):
    """The training texts of a task.

    Attributes:
        train: the training split, with texts that teachers alone have labelled at its end.
        lesson: what the teachers said of them; None: nothing.
    """

    train: Split
    lesson: Lesson | None


def read_lesson(task: Task, config: DistillationConfig | None) -> Taught:
    """Read the training split of a task, and what teachers said of it, if any did.

    Args:
        task: what is learnt.
        config: of the recipe; None: soft labels are not read.

    Raises:
        DataError: the soft labels are of other tokens.
    """
    soft = None if config is None else read_soft_labels(task.folder)
    if config is None or soft is None:
        return Taught(task.read_split(TRAIN), None)
    train, columns = read_taught_split(task, soft), soft.read(task.folder)
    offsets = columns[TAGS].offsets if TAGS in columns else None
    if offsets is not None and (offsets != train.texts["tokens"].offsets).any():
        raise DataError(
            f"{task.folder}: found soft labels of other tokens than the texts have; the teacher "
            "must read every token."
        )
    num_further = len(train) - soft.num_labelled
    log.info(
        "finetune lesson task=%s labelled=%d further=%d members=%d",
        *(task.name, soft.num_labelled, num_further, len(soft.teachers)),
    )
    lesson = Lesson(
        soft=columns,
        widths=soft.widths,
        marginals=soft.marginals,
        objective=config,
        weight=config.find_weight(task.name),
        num_labelled=soft.num_labelled,
    )
    return Taught(train, lesson)


def describe_teacher(cell: Path, seed: int) -> dict[str, Any]:
    """Return what a teacher's answers depend on: weights, vocabulary, model file and vectors.

    Raises:
        DataError: the seed of the cell is not trained, or its files are not what cell.json says.
    """
    path = cell / CELL
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so the teacher '{cell.name}' is not trained yet; run "
            f"`dvc repro finetune@{cell.name}`."
        )
    note = read_mapping(path)
    run = note["runs"].get(str(seed))
    if run is None:
        raise DataError(
            f"{path}: found the seeds {sorted(note['runs'])}, but the teacher is to be seed "
            f"{seed}; run `dvc repro finetune@{cell.name}`."
        )
    return {
        "weights": run["weights"],
        "vocabulary": digest_file(cell / f"seed-{seed}" / VOCABULARY),
        "model": read_mapping(Path(note["model"])),
        "init": note["init"],
    }
