"""What a student trains on: the training split of a task, and what its teachers said of it."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.config.distillation import AlterationConfig, DistillationConfig
from nlp_core.data.alteration import read_texts
from nlp_core.data.joining import join_texts, strip_targets
from nlp_core.data.soft_labels import (
    SoftColumn,
    SoftLabels,
    find_split_digest,
    join_columns,
    join_members,
)
from nlp_core.data.task import Split, Task, read_task
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json
from nlp_core.kinds import TAGS
from nlp_core.models.saving import VOCABULARY
from nlp_core.objectives import Lesson
from nlp_core.prediction.trained_model import CELL

log = logging.getLogger(__name__)


class Taught(NamedTuple):
    """The training texts of a task.

    Attributes:
        train: the training split, and behind it the texts that teachers alone have labelled.
        lesson: what the teachers said of them; None: nothing.
    """

    train: Split
    lesson: Lesson | None


def read_lesson(
    task: Task, config: DistillationConfig | None, parts: Sequence[SoftLabels]
) -> Taught:
    """Read the training split of a task, and what teachers said of it, if any did.

    Args:
        task: what is learnt.
        config: of the recipe; None: there are no teachers.
        parts: all that the teachers said.

    Raises:
        DataError: it was said of other texts or other labels, or by other teachers than there are
            now, or not of the training split.
    """
    train = task.read_split("train")
    parts = [part for part in parts if part.task == task.name]
    if config is None or not parts:
        return Taught(train, None)
    pieces: dict[tuple[str, str, AlterationConfig | None], list[SoftLabels]] = {}
    for part in parts:
        _check_part(part, parts[0], task)
        pieces.setdefault(part.texts, []).append(part)
    own = (task.name, "train", None)
    if own not in pieces:
        raise DataError(
            f"{parts[0].folder.parent}: found soft labels of {task.name} for further texts alone, "
            "expected some of its training split as well; add such a teacher to params.yaml."
        )
    columns = [_read_piece(pieces.pop(own), train, task.folder)]
    num_labelled = len(train)
    for (data, name, alteration), members in sorted(pieces.items(), key=str):
        source = task if data == task.name else read_task(Path("data/processed") / data)
        more = strip_targets(read_texts(source, name, alteration), sorted(task.targets))
        columns.append(_read_piece(members, more, source.folder))
        train = join_texts(train, more)
    log.info(
        "distill lesson task=%s labelled=%d further=%d members=%d",
        *(task.name, num_labelled, len(train) - num_labelled),
        sum(len(part.seeds) for part in parts if part.texts == own),
    )
    soft = {
        target: join_columns([column[target] for column in columns], where=str(parts[0].folder))
        for target in columns[0]
    }
    return Taught(
        train,
        Lesson(
            soft=soft,
            widths=parts[0].widths,
            marginals=any(part.marginals for part in parts),
            objective=config,
            weight=config.find_weight(task.name),
            num_labelled=num_labelled,
        ),
    )


def describe_teacher(cell: Path, seed: int) -> dict[str, Any]:
    """Return what a teacher's answers depend on: weights, vocabulary, model file and vectors.

    Raises:
        DataError: the seed of the cell is not trained, or its files are not what cell.json says.
    """
    path = cell / CELL
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so the teacher '{cell.name}' is not trained yet; run "
            f"`dvc repro {cell.parent.parent.name}@{cell.name}`."
        )
    note = read_mapping(path)
    run = note["runs"].get(str(seed))
    if run is None:
        raise DataError(
            f"{path}: found the seeds {sorted(note['runs'])}, but the teacher is to be seed "
            f"{seed}; run `dvc repro {cell.parent.parent.name}@{cell.name}`."
        )
    return {
        "weights": run["weights"],
        "vocabulary": digest_file(cell / f"seed-{seed}" / VOCABULARY),
        "model": read_mapping(Path(note["model"])),
        "init": note["init"],
    }


def _check_part(part: SoftLabels, first: SoftLabels, task: Task) -> None:
    """Refuse soft labels of other labels, of another sort of head or of an old teacher."""
    _check_teacher(part)
    if part.targets != task.targets:
        raise DataError(
            f"{part.folder}: found soft labels of {part.targets}, but {task.folder} has "
            f"{task.targets}; run `dvc repro --force teach@{part.folder.name}`, or take a teacher "
            "of the same labels."
        )
    if part.widths != first.widths:
        raise DataError(
            f"{part.folder}: found {part.widths} numbers a target, and {first.widths} of "
            f"{first.folder.name}; teachers of one task need heads of one sort."
        )


def _check_teacher(part: SoftLabels) -> None:
    """Refuse soft labels of a teacher that was trained anew since; one that is gone is no fault."""
    cell = Path(part.teacher["cell"])
    if not (cell / CELL).exists():
        return
    for seed in part.seeds:
        if digest_json(describe_teacher(cell, seed)) != part.teacher["seeds"][str(seed)]:
            raise DataError(
                f"{part.folder}: found soft labels of another teacher than {cell}, seed {seed}, is "
                f"now; run `dvc repro teach@{part.folder.name}`."
            )


def _read_piece(members: Sequence[SoftLabels], split: Split, folder: Path) -> dict[str, SoftColumn]:
    """Return what all teachers of a split said, by target."""
    digest = find_split_digest(folder, split.name)
    for part in members:
        if part.split_sha256 != digest:
            raise DataError(
                f"{part.folder}: found soft labels of other examples than {folder}, split "
                f"{split.name}, has now (sha256 {part.split_sha256[:12]} and {digest[:12]}); run "
                f"`dvc repro teach@{part.folder.name}`."
            )
    found = [part.read(split) for part in members]
    joined = {target: join_members([item[target] for item in found]) for target in found[0]}
    offsets = joined[TAGS].offsets if TAGS in joined else None
    if offsets is not None and (offsets != split.texts["tokens"].offsets).any():
        raise DataError(
            f"{members[0].folder}: found soft labels of other tokens than {folder}, split "
            f"{split.name}, has; the teacher must read every token."
        )
    return joined
