"""What a student trains on: the training split of a task, and what its teachers said of it."""

import logging
from typing import NamedTuple

from nlp_core.config.recipe import DistillationConfig
from nlp_core.data.soft_labels import TRAIN, read_soft_labels, read_taught_split
from nlp_core.data.task import Split, Task
from nlp_core.errors import DataError
from nlp_core.kinds import TAGS
from nlp_core.objectives.distillation import Lesson

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
