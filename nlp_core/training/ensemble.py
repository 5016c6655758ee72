"""Make an ensemble of trained cells: copies of their weights, and what they predict together.

A cell of the grid like any other, with a folder for each of its ensembles in place of a seed:
`seed-K/member-J/` holds the weights and vocabularies of member J, so a member that is retrained
does not change an ensemble until DVC makes it again.
"""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nlp_core.config.base import (
    CELL,
    PROCESSED,
    SEED,
    check_known,
    name_folder,
    name_predictions,
    read_mapping,
)
from nlp_core.config.ensemble import EnsembleConfig, Member
from nlp_core.config.params import GRID, Params
from nlp_core.data.task import Task, read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, digest_json, replacing_folder, write_json
from nlp_core.metrics import HONEST
from nlp_core.models.graph import GraphModel, count_parameters
from nlp_core.models.masked_split import encode_split
from nlp_core.models.saving import VOCABULARY, WEIGHTS
from nlp_core.prediction.split_prediction import predict, write_predictions
from nlp_core.prediction.trained_folder import name_member, read_trained_folder
from nlp_core.training.determinism import CPU, describe_machine
from nlp_core.training.soft_targets import require_weights

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EnsembleCell:
    """All that an ensemble is made of, checked.

    Attributes:
        members: by ensemble the models that it averages.
        folders: of each member's cell, where it is read.
        notes: the cell.json of each member's cell.
    """

    name: str
    config: EnsembleConfig
    numerics: int
    members: dict[int, list[Member]]
    folders: dict[str, Path]
    notes: dict[str, dict[str, Any]]  # Any: JSON
    task: Task

    @property
    def folder(self) -> Path:
        return Path(name_folder(self.config.table, self.name))


def read_ensemble(name: str, params: Params) -> EnsembleCell:
    """Read and check all that an ensemble is made of, before any work starts.

    Raises:
        ConfigError: no ensemble has that name.
        DataError: a member is not trained, or its task is not processed.
    """
    check_known(f"{GRID}/: ensembles", "cell", name, params.ensembles, ConfigError)
    config = params.ensembles[name]
    folders = {cell: Path(item) for item, cell in params.list_members(config.cells).items()}
    members = {number: config.list_members(folders, number) for number in config.seeds}
    for folder in folders.values():
        for seed in config.member_seeds:
            require_weights(folder, seed, of=f"of the ensemble '{name}'")
    notes = {cell: read_mapping(folder / CELL) for cell, folder in folders.items()}
    data = zip(
        params.list_tasks(config.data),
        params.list_members(f"{PROCESSED}/{config.data}"),
        strict=True,
    )
    wanted, place = next(item for item in data if config.task in (None, item[0]))
    task = read_task(Path(place))
    other = next(iter(notes.values()))
    for cell, note in notes.items():
        for key in ("labels", "report_split", "select_split"):
            found, expected = (item["tasks"][wanted][key] for item in (note, other))
            if found != expected:
                raise DataError(
                    f"{cell}/{CELL}: {key}: found {found}, expected {expected} as in the other "
                    f"members of the ensemble '{name}'; train the cells on the same task."
                )
    return EnsembleCell(name, config, params.numerics, members, folders, notes, task)


def make_ensemble(cell: EnsembleCell, target: Path | None = None) -> Path:
    """Write the folder of an ensemble and return it; `target` is by default the cell's own.

    Raises:
        ConfigError: the members' heads cannot be averaged.
        DataError: the members have other labels.
    """
    target = target or cell.folder
    with replacing_folder(target) as folder:
        for number, members in cell.members.items():
            for place, member in enumerate(members, 1):
                own = folder / f"{SEED}{number}" / name_member(place)
                own.mkdir(parents=True)
                trained = cell.folders[member.cell] / f"{SEED}{member.seed}"
                for file in (WEIGHTS, VOCABULARY):
                    shutil.copyfile(trained / file, own / file)
        write_json(folder / CELL, _describe(cell))  # what reading the models needs
        parameters = [count_parameters(_predict(cell, folder, item)) for item in cell.members]
        runs = {number: _describe_run(cell, folder, number) for number in cell.members}
        more = {"parameters": parameters[0], "runs": runs}
        write_json(folder / CELL, _describe(cell) | more)
    log.info("ensemble done cell=%s members=%d", cell.name, len(cell.members[1]))
    return target


def _predict(cell: EnsembleCell, folder: Path, number: int) -> GraphModel:
    """Write what an ensemble predicts for the measured splits, and return its model."""
    found = read_trained_folder(folder, number)
    model, featurizers = found.load()
    task = cell.task
    names = dict.fromkeys((task.select_split, *task.report_splits))
    splits = [encode_split(featurizers[None], task.read_split(name)) for name in names]
    predictions = [predict(model, split, task.targets) for split in splits]
    path = found.weights / name_predictions(task.name)
    write_predictions(path, task, {HONEST: predictions})
    return model


def _describe(cell: EnsembleCell) -> dict[str, Any]:
    """Return cell.json as far as it is known before the ensemble predicts."""
    config, task = cell.config, cell.task.name
    notes = [*cell.notes.values()]
    return {
        "table": config.table,
        "cell": cell.name,
        "model": " + ".join(dict.fromkeys(note["model"] for note in notes)),
        "recipe": cell.name,
        "recipe_digest": digest_json(config.describe(cell.folders)),
        "seeds": config.seeds,
        "numerics": cell.numerics,
        "data": {task: notes[0]["data"][task]},
        "init": None,
        "fingerprint": describe_machine(torch.device(CPU)),  # whatever trained the members
        "tasks": {task: notes[0]["tasks"][task]},
        "combination": config.combination,
        "members": {
            number: [
                {
                    "cell": member.cell,
                    "seed": member.seed,
                    "weights": cell.notes[member.cell]["runs"][str(member.seed)]["weights"],
                    **{key: cell.notes[member.cell][key] for key in ("model", "init", "tasks")},
                }
                for member in members
            ]
            for number, members in cell.members.items()
        },
    }


def _describe_run(cell: EnsembleCell, folder: Path, number: int) -> dict[str, Any]:
    weights = [
        cell.notes[member.cell]["runs"][str(member.seed)]["weights"]
        for member in cell.members[number]
    ]
    path = folder / f"{SEED}{number}" / name_predictions(cell.task.name)
    return {
        "weights": f"sha256:{digest_json(weights)}",
        "predictions": {cell.task.name: f"sha256:{digest_file(path)}"},
        "validations": [],
        "epochs": {},
    }
