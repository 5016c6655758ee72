"""Read a trained seed of a cell back, to predict one of its tasks."""

from pathlib import Path
from typing import NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import TaskConfig, read_dataset
from nlp_core.config.params import read_params
from nlp_core.data.task import Task
from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import Kind
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import load_model, load_shared_model
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.lesson import CELL

PARAMS = Path("params.yaml")
SEED = "seed-"


class TrainedSeed(NamedTuple):
    """A trained seed of a cell, ready to predict."""

    cell: Cell
    task: Task
    model: GraphModel
    featurizer: Featurizer

    @property
    def described(self) -> TaskConfig:
        """How sources/ describes the task."""
        found = read_dataset(self.task.name).task
        assert found is not None, self.task.name
        return found


def is_cell(folder: Path) -> bool:
    """Say whether a folder is that of a trained cell, or of one of its seeds."""
    is_seed = folder.name.startswith(SEED) and folder.name.removeprefix(SEED).isdecimal()
    if is_seed:
        return (folder.parent / CELL).is_file()
    # pretrained and exported cells have no seeds that predict
    return (folder / CELL).is_file() and any(folder.glob(f"{SEED}*"))


def open_seed(folder: Path, seed: int | None = None, task: str | None = None) -> TrainedSeed:
    """Read a trained seed back from its folder, or from that of its cell.

    Args:
        folder: artifacts/cells/TABLE/CELL, or its folder of a seed.
        seed: which seed of a cell; None: the first one.
        task: which task of a cell of several.

    Raises:
        ConfigError: the cell has no such seed or task, or the task is to be named.
        DataError: see `load_seed`.
    """
    cell, seed = find_seed(folder, seed)
    names = [item.name for item in cell.tasks if not item.kind.is_auxiliary]
    if task is None and len(names) > 1:
        raise ConfigError(
            f"{folder}: found a model of several tasks; name one with --task: {', '.join(names)}."
        )
    return load_seed(cell, seed, task or names[0])


def find_seed(folder: Path, seed: int | None = None) -> tuple[Cell, int]:
    """Return the cell of a folder, and which of its seeds is meant.

    Args:
        folder: of the cell, or of one of its seeds.
        seed: which seed of a cell; None: the first one.

    Raises:
        ConfigError: the cell has no such seed.
    """
    if not (folder / CELL).is_file():
        if seed is not None:
            raise ConfigError(f"--seed: '{folder}' is the folder of one seed; leave it out.")
        seed, folder = int(folder.name.removeprefix(SEED)), folder.parent
    note = read_mapping(folder / CELL)
    seed = note["seeds"][0] if seed is None else seed
    if seed not in note["seeds"]:
        raise ConfigError(f"{folder}: found the seeds {note['seeds']}, expected {seed} among them.")
    return read_cell(note["cell"], read_params(PARAMS)), seed


def load_seed(cell: Cell, seed: int, task: str) -> TrainedSeed:
    """Read a trained seed of a cell back: the weights of the epoch that was chosen honestly.

    Args:
        cell: what was trained.
        seed: which of its seeds.
        task: which of its tasks is to be predicted.

    Raises:
        ConfigError: the cell has no such task, or it is a corpus.
        DataError: the seed is not trained, or was trained with another model file.
    """
    kinds = {item.name: item.kind for item in cell.tasks}
    if task not in kinds:
        raise ConfigError(f"'{cell.name}': found no task '{task}'. {suggest(task, kinds)}")
    if kinds[task].is_auxiliary:
        raise ConfigError(
            f"'{cell.name}': found '{task}', a corpus whose hidden pieces trained the encoder; "
            "nothing is predicted of it. Name a task with examples."
        )
    folder = cell.folder / f"{SEED}{seed}"
    chosen = next(item for item in cell.tasks if item.name == task)
    if not cell.plan.tasks:
        found = load_model(folder, cell.plan, kind=kinds[task], init=cell.init)
        return TrainedSeed(cell, chosen, *found)
    named: dict[str | None, Kind] = {item.name: item.kind for item in cell.tasks}
    model, featurizers = load_shared_model(folder, cell.plan, kinds=named, init=cell.init)
    return TrainedSeed(cell, chosen, model.select(featurizers[task].plan), featurizers[task])
