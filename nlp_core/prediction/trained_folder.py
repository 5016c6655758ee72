"""The folder of a trained model: of a cell, of one of its seeds, or of `reglue train`.

The files of the folder are enough: neither params.yaml nor the data are read.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nlp_core.config.base import CELL, SEED, read_mapping
from nlp_core.config.ensemble import Combination
from nlp_core.config.model import read_model
from nlp_core.config.user_data import DataConfig
from nlp_core.errors import ConfigError, DataError, UsageError
from nlp_core.files import check_digest
from nlp_core.kinds import KINDS, Kind
from nlp_core.models.ensemble import MemberModel, join_members
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan, plan_model, read_plan
from nlp_core.models.plugin import Plugin, check_plugins, load_plugins
from nlp_core.models.saving import WEIGHTS, load_model

log = logging.getLogger(__name__)

MODEL = "model.json"
RUN = "run.json"
VECTORS = "vectors"
PREDICTIONS = "predictions.parquet"
PAGE = "report.html"
CALIBRATION = "calibration.json"
Note = dict[str, Any]  # Any: JSON holds anything


def _add_digests(note: Note) -> Note:
    """Format 1 may lack the digests of the folder's files, which are then not checked."""
    return {"digests": {}, **note}


UPGRADES: dict[int, Callable[[Note], Note]] = {1: _add_digests}
"""For each older format what makes it the next one."""
FORMAT_VERSION = 1 + len(UPGRADES)


class TrainedFolder(NamedTuple):
    """The description of a trained model; the weights are not read.

    Attributes:
        name: of the cell, or of the folder.
        weights: folder of the weights and the vocabularies.
        init: folder of the vectors or the encoder that the vocabularies need, which may be missing.
        tasks: entry of each task in cell.json; empty for a folder of `reglue train`.
        data: how the user's files are read; None for a cell.
        members: of an ensemble, the models that it averages; its `plan` is that of the first.
        combination: what an ensemble averages.
        digests: of files in `weights`, by name, as they were recorded; those of a cell's weights.
    """

    name: str
    weights: Path
    init: Path
    plan: ModelPlan
    tasks: Mapping[str, Mapping[str, Any]]
    data: DataConfig | None
    members: Sequence["TrainedFolder"] = ()
    combination: Combination = "probabilities"
    digests: Mapping[str, str] = MappingProxyType({})

    def load(self) -> tuple[GraphModel, dict[str | None, Featurizer]]:
        """Return the model with its weights, and what reads the texts of each of its tasks.

        The one task of a model whose heads name no tasks is None.
        """
        if self.members:
            models = [member._load_task(*self.tasks) for member in self.members]
            where = str(self.weights)
            ensemble, featurizer = join_members(models, self.combination, where=where)
            return ensemble, {None: featurizer}
        self.check_digests()
        kinds: dict[str | None, Kind] = {
            name if self.plan.tasks else None: KINDS.get(note["kind"])
            for name, note in self.tasks.items()
        }
        if self.data is not None:
            kinds = {None: self.data.kind}
        return load_model(self.weights, self.plan, kinds=kinds, init=self.init)

    def check_digests(self) -> None:
        """Raise DataError if a file has other bytes than training wrote."""
        for name, digest in self.digests.items():
            check_digest(self.weights / name, digest, remedy="train the model or copy it again")

    def _load_task(self, task: str) -> MemberModel:
        """Return the part of the model that serves one of its tasks."""
        model, featurizers = self.load()
        featurizer = featurizers[task if self.plan.tasks else None]
        part = model.select(featurizer.plan) if self.plan.tasks else model
        return MemberModel(self.name, part, featurizer)


def is_trained(folder: Path) -> bool:
    """Return whether a folder has a trained model: of `reglue train`, of a cell or of a seed."""
    return (folder / RUN).is_file() or _is_cell(folder)


def read_trained_folder(
    folder: Path, seed: int | None = None, plugins: Sequence[Path] = ()
) -> TrainedFolder:
    if _is_cell(folder):
        return _read_cell_folder(folder, seed)
    if not (folder / RUN).is_file():
        raise DataError(
            f"{folder}: found no trained model ({RUN} is missing), expected a folder that "
            "`reglue train` made, or that of a trained cell (artifacts/cells/TABLE/CELL)."
        )
    if seed is not None:
        raise refuse_argument("seed", folder)
    return _read_user_folder(folder, plugins)


def _is_cell(folder: Path) -> bool:
    if folder.name.startswith(SEED) and folder.name.removeprefix(SEED).isdecimal():
        return (folder.parent / CELL).is_file()
    # encoders and exports are cells too, without folders of seeds
    return (folder / CELL).is_file() and any(folder.glob(f"{SEED}*"))


def _read_user_folder(folder: Path, plugins: Sequence[Path]) -> TrainedFolder:
    note = _upgrade(read_mapping(folder / RUN), folder / RUN)
    needed = [Plugin(**plugin) for plugin in note["plugins"]]
    check_plugins(needed, load_plugins(plugins), where=str(folder))
    config = read_model(folder / MODEL)
    assert config.data is not None, folder
    plan = plan_model(config, where=str(folder / MODEL))
    return TrainedFolder(
        folder.name, folder, folder / VECTORS, plan, {}, config.data, digests=note["digests"]
    )


def _upgrade(note: Note, path: Path) -> Note:
    """Return the content of a run.json in today's format; the file stays as it is.

    Raises:
        DataError: it has no format, one that this version does not know, or is not whole.
    """
    found = note.get("format")
    if not isinstance(found, int) or not 1 <= found <= FORMAT_VERSION or "plugins" not in note:
        raise DataError(
            f"{path}: found the format {found}, expected 1 to {FORMAT_VERSION} and a list of "
            "plugins; train the model again with this version, or use the version that it was "
            "trained with."
        )
    for version in range(found, FORMAT_VERSION):
        note = UPGRADES[version](note) | {"format": version + 1}
        log.info("%s: read format=%d as format=%d", path, version, version + 1)
    keys = {*Plugin._fields}
    are_whole = isinstance(note["plugins"], list) and isinstance(note.get("digests"), dict)
    if not are_whole or any(not isinstance(one, dict) or {*one} != keys for one in note["plugins"]):
        raise DataError(
            f"{path}: found no list of plugins with {' and '.join(Plugin._fields)}, or no digests "
            "of files; train the model or copy the file again."
        )
    return note


def _read_cell_folder(folder: Path, seed: int | None) -> TrainedFolder:
    if not (folder / CELL).is_file():
        if seed is not None:
            raise UsageError(f"--seed: '{folder}' is the folder of one seed; leave it out.")
        seed, folder = int(folder.name.removeprefix(SEED)), folder.parent
    note = read_mapping(folder / CELL)
    seed = note["seeds"][0] if seed is None else seed
    if seed not in note["seeds"]:
        raise ConfigError(f"{folder}: found the seeds {note['seeds']}, expected {seed} among them.")
    weights = folder / f"{SEED}{seed}"
    if "members" not in note:
        run = note["runs"].get(str(seed), {})
        return _read_weights(note["cell"], weights, {**note, "weights": run.get("weights")})
    members = [
        _read_weights(f"{item['cell']} seed {item['seed']}", weights / name_member(number), item)
        for number, item in enumerate(note["members"][str(seed)], 1)
    ]
    return members[0]._replace(
        name=note["cell"],
        weights=weights,
        tasks=note["tasks"],
        members=members,
        combination=note["combination"],
    )


def name_member(number: int) -> str:
    """Return the folder of a member of an ensemble, counted from 1, in that of the seed."""
    return f"member-{number}"


def _read_weights(name: str, weights: Path, note: Mapping[str, Any]) -> TrainedFolder:
    """Return a model of a cell.

    `note` says its model file, what it started from, its tasks, and the digest of its weights.
    """
    init = Path(note["init"]["path"])
    while (init / CELL).is_file():  # one cell may start from another, and that from a third
        init = Path(read_mapping(init / CELL)["init"]["path"])
    plan, digest = read_plan(Path(note["model"])), note["weights"]
    digests = {} if digest is None else {WEIGHTS: digest}
    return TrainedFolder(name, weights, init, plan, note["tasks"], None, digests=digests)


def refuse_argument(name: str, folder: Path) -> ConfigError:
    return ConfigError(
        f"--{name}: '{folder}' is a model of `reglue train`, which has one task and one seed; "
        "leave it out."
    )
