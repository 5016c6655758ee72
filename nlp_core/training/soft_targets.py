"""What a student trains on: a task's training split and its teachers' predictions."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import CELL, SEED, read_mapping
from nlp_core.config.dataset import TRAIN
from nlp_core.config.recipe import DistillationConfig
from nlp_core.data.soft_labels import read_soft_labels, read_taught_split
from nlp_core.data.task import Split, Task
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json
from nlp_core.kinds import TAGS
from nlp_core.models.saving import VOCABULARY, WEIGHTS
from nlp_core.objectives.distillation import SoftTargets

log = logging.getLogger(__name__)


class TrainingSplit(NamedTuple):
    """The training split of a task, ending in texts that only teachers labelled, if any."""

    train: Split
    soft_targets: SoftTargets | None


def read_training_split(task: Task, config: DistillationConfig | None) -> TrainingSplit:
    """Read the training split of a task, and what teachers said of it, if any did.

    Args:
        config: of the recipe; None: soft labels are not read.

    Raises:
        DataError: the soft labels are of other tokens.
    """
    soft = None if config is None else read_soft_labels(task.folder)
    if config is None or soft is None:
        return TrainingSplit(task.read_split(TRAIN), None)
    train, columns = read_taught_split(task, soft), soft.read(task.folder)
    offsets = columns[TAGS].offsets if TAGS in columns else None
    if offsets is not None and (offsets != train.tag_offsets).any():
        raise DataError(
            f"{task.folder}: found soft labels whose tokens are not those of the texts; the "
            "teacher must read every token."
        )
    log.info(
        "finetune soft targets task=%s labelled=%d further=%d members=%d",
        *(task.name, soft.num_labelled, len(train) - soft.num_labelled, len(soft.teachers)),
    )
    soft_targets = SoftTargets(
        columns=columns,
        widths=soft.widths,
        marginals=soft.marginals,
        objective=config,
        weight=config.find_weight(task.name),
        num_labelled=soft.num_labelled,
    )
    return TrainingSplit(train, soft_targets)


def describe_teacher(cell: Path, seed: int) -> dict[str, Any]:
    """Return what a model's answers depend on: weights, vocabulary, model file and vectors.

    Raises:
        DataError: the seed of the cell is not trained.
    """
    path = cell / CELL
    if not path.exists():
        raise DataError(
            f"{path}: no such file, so the cell '{cell.name}' is not trained yet; run "
            f"`dvc repro finetune@{cell.name}`."
        )
    note = read_mapping(path)
    run = note["runs"].get(str(seed))
    if run is None:
        raise DataError(
            f"{path}: found the seeds {sorted(note['runs'])}, expected {seed} among them; "
            f"run `dvc repro finetune@{cell.name}`."
        )
    return {
        "weights": run["weights"],
        "vocabulary": digest_file(cell / f"{SEED}{seed}" / VOCABULARY),
        "model": read_mapping(Path(note["model"])),
        "init": note["init"],
    }


def require_weights(cell: Path, seed: int, of: str = "of the teacher") -> None:
    """Raise DataError if the weights of a seed are not those that its cell describes."""
    path = cell / f"{SEED}{seed}" / WEIGHTS
    expected = describe_teacher(cell, seed)["weights"]
    if not path.exists() or expected != f"sha256:{digest_file(path)}":
        raise DataError(
            f"{path}: found no weights, or others than {CELL} says, expected those {of}; "
            f"run `dvc repro --force finetune@{cell.name}`."
        )


def find_teacher(folder: Path) -> tuple[Path, int]:
    """Return the cell and the seed of the one teacher of a taught task.

    Raises:
        DataError: there are several teachers, or the one was retrained.
    """
    soft = read_soft_labels(folder)
    assert soft is not None, folder
    found = sorted({*soft.teachers})
    if len(found) > 1:
        members = ", ".join(f"{one.cell} seed {one.seed}" for one in found)
        raise DataError(
            f"{folder}: found soft labels of {len(found)} teachers ({members}), expected those of "
            "one seed of one cell, since the recipe's distillation.matching lets layers learn from "
            "those of one model; let one teacher label a task, or take a recipe without matching."
        )
    (one,) = found
    if digest_json(describe_teacher(one.cell, one.seed)) != one.digest:
        raise DataError(
            f"{folder}: found soft labels of another teacher than {one.cell}, seed {one.seed}, is "
            f"now; run `dvc repro teach@{folder.name}`."
        )
    return one.cell, one.seed
