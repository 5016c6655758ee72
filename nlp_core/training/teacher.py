"""The trained cell that taught a task, or is to teach one."""

from pathlib import Path
from typing import Any

from nlp_core.config.base import CELL, SEED, read_mapping
from nlp_core.data.soft_labels import read_soft_labels
from nlp_core.errors import DataError
from nlp_core.files import digest_file, digest_json
from nlp_core.models.saving import VOCABULARY, WEIGHTS


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


def require_weights(cell: Path, seed: int) -> None:
    """Raise if the weights of a seed are not those that its cell describes.

    Raises:
        DataError: they are missing, or others.
    """
    path = cell / f"{SEED}{seed}" / WEIGHTS
    expected = describe_teacher(cell, seed)["weights"]
    if not path.exists() or expected != f"sha256:{digest_file(path)}":
        raise DataError(
            f"{path}: found no weights, or others than {CELL} says, expected those of the teacher; "
            f"run `dvc repro --force finetune@{cell.name}`."
        )


def find_teacher(folder: Path) -> tuple[Path, int]:
    """Return the cell and the seed of the one teacher of a taught task."""
    soft = read_soft_labels(folder)
    assert soft is not None, folder
    found = sorted({*soft.teachers})
    if len(found) > 1:
        members = ", ".join(f"{one.cell} seed {one.seed}" for one in found)
        raise DataError(
            f"{folder}: found soft labels of {len(found)} teachers ({members}), expected those of "
            "one seed of one cell, since the recipe's distillation.matching lets layers learn from "
            "those of one model; let one alone teach a task, or take a recipe without matching."
        )
    (one,) = found
    if digest_json(describe_teacher(one.cell, one.seed)) != one.digest:
        raise DataError(
            f"{folder}: found soft labels of another teacher than {one.cell}, seed {one.seed}, is "
            f"now; run `dvc repro teach@{folder.name}`."
        )
    return one.cell, one.seed
