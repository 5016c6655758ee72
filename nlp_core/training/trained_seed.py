"""Read a trained seed of a cell back, to predict one of its tasks."""

from typing import NamedTuple

from nlp_core.data.corpus_task import KIND as MASKED_KIND
from nlp_core.errors import ConfigError, suggest
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import load_model, load_shared_model
from nlp_core.training.cell import Cell


class TrainedSeed(NamedTuple):
    """A trained seed of a cell, ready to predict."""

    cell: Cell
    model: GraphModel
    featurizer: Featurizer


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
    if kinds[task] == MASKED_KIND:
        raise ConfigError(
            f"'{cell.name}': found '{task}', a corpus whose hidden pieces trained the encoder; "
            "nothing is predicted of it. Name a task with examples."
        )
    folder = cell.folder / f"seed-{seed}"
    if not cell.plan.tasks:
        return TrainedSeed(cell, *load_model(folder, cell.plan, kind=kinds[task], init=cell.init))
    named: dict[str | None, str] = {item.name: item.kind for item in cell.tasks}
    model, featurizers = load_shared_model(folder, cell.plan, kinds=named, init=cell.init)
    return TrainedSeed(cell, model.select(featurizers[task].plan), featurizers[task])
