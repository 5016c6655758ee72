"""Open a trained model: a cell's folder, the folder of one of its seeds, or one of `reglue train`.

The files of the folder are enough: neither params.yaml nor the data are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import CELL, SEED, read_mapping
from nlp_core.config.dataset import TaskConfig, read_dataset
from nlp_core.config.model import read_model
from nlp_core.config.user_data import DataConfig, Format, describe_files
from nlp_core.data.guess import guess_format
from nlp_core.data.task import Task
from nlp_core.data.user_task import build_user_task
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.kinds import KINDS, Kind, list_user_kinds
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan, plan_model, read_plan
from nlp_core.models.plugin import Plugin, check_plugins, load_plugins
from nlp_core.models.saving import load_model

MODEL = "model.json"
RUN = "run.json"
VECTORS = "vectors"
FORMAT_VERSION = 1


class TrainedFolder(NamedTuple):
    """The description of a trained model; the weights are not read.

    Attributes:
        name: of the cell, or of the folder.
        weights: folder of the weights and the vocabularies.
        init: folder of the vectors or the encoder that the vocabularies need; need not be there.
        tasks: of a cell, the entry of each task in cell.json; none of a folder of `reglue train`.
        data: how the user's files are read; None for a cell.
    """

    name: str
    weights: Path
    init: Path
    plan: ModelPlan
    tasks: Mapping[str, Mapping[str, Any]]
    data: DataConfig | None

    def load(self) -> tuple[GraphModel, dict[str | None, Featurizer]]:
        """Return the model with its weights, and what reads the texts of each of its tasks.

        A model whose heads name no tasks has one, whose name is None.

        Raises:
            DataError: a file is missing or broken, or the weights are those of another model.
        """
        kinds: dict[str | None, Kind] = {
            name if self.plan.tasks else None: KINDS.get(note["kind"])
            for name, note in self.tasks.items()
        }
        if self.data is not None:
            kinds = {None: self.data.kind}
        return load_model(self.weights, self.plan, kinds=kinds, init=self.init)

    def build_task(self, task: str | None, targets: dict[str, list[str]]) -> Task:
        """Return what the model predicts.

        Args:
            task: its name, of a cell.
            targets: by target all labels that can be predicted.
        """
        if task is None:
            assert self.data is not None, self.name
            return build_user_task(self.data, targets, self.name, {})
        note = self.tasks[task]
        return Task(
            name=task,
            kind=KINDS.get(note["kind"]),
            targets=targets,
            metrics=note["metrics"],
            select_split=note["select_split"],
            report_split=note["report_split"],
            scheme=note["scheme"],
            footnotes=note["footnotes"],
            digest="",
            folder=Path("data/processed") / task,
            further_report_splits=tuple(note.get("further_report_splits", ())),
        )


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on one task, ready to predict.

    Attributes:
        folder: of its weights: of a cell, that of the seed.
        name: of the cell, or of the folder.
        task: what it predicts, and how that is measured.
        data: how the user's files are read; None for a cell, see `describe_data`.
    """

    folder: Path
    name: str
    model: GraphModel
    featurizer: Featurizer
    task: Task
    data: DataConfig | None

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        seed: int | None = None,
        task: str | None = None,
        plugins: Sequence[Path] = (),
    ) -> "TrainedModel":
        """Open a folder; of a cell, the weights of the epoch that was chosen honestly.

        Args:
            folder: what `reglue train` made, or, in the project's root, the folder of a cell
                (artifacts/cells/TABLE/CELL) or of one of its seeds.
            seed: which seed of a cell; None: the first one.
            task: which task of a cell of several.
            plugins: the plug-ins that the model was trained with; none is run unasked.

        Raises:
            ConfigError: an argument does not fit the folder.
            DataError: the folder is no trained model, or not a whole one.
        """
        folder = Path(folder)
        found = read_trained_folder(folder, seed, plugins)
        if found.data is None:
            task = _choose_task(found, folder, task)
        elif task is not None:
            raise _refuse_argument("task", folder)
        model, featurizers = found.load()
        if found.plan.tasks:
            featurizer = featurizers[task]
            model = model.select(featurizer.plan)
        else:
            featurizer = featurizers[None]
        chosen = found.build_task(task, featurizer.targets)
        return cls(found.weights, found.name, model, featurizer, chosen, found.data)

    @property
    def texts(self) -> list[str]:
        return [name.replace("tokens", "text") for name in self.task.kind.tokens]

    @property
    def tokenizer(self) -> str:
        """Name of what makes tokens of its texts."""
        return self._read_source().tokens if self.data is None else self.data.tokens

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that it reads; None: all."""
        if self.data is None or self.task.kind.has_passages:
            return None
        return self.data.max_tokens

    def describe_data(self, file: Path | None = None) -> DataConfig:
        """Return how files are read that it predicts or is measured on.

        Args:
            file: one of them; the files of a cell's task may have any form.

        Raises:
            ConfigError: it is a cell of a kind that the user's files cannot hold.
            DataError: the file is missing or empty.
        """
        if self.data is not None:
            return self.data
        kind = self.task.kind
        if not kind.user_file.formats:
            raise ConfigError(
                f"{self.folder}: found a model of the kind {kind}, expected one of "
                f"{', '.join(list_user_kinds())}."
            )
        form: Format = "tsv"
        if file is not None and not kind.has_passages:
            form = guess_format(file, kind)
        return describe_files(self._read_source(), form, self.featurizer.plan.inputs.values())

    def _read_source(self) -> TaskConfig:
        found = read_dataset(self.task.name).task
        assert found is not None, self.task.name
        return found


def is_trained(folder: Path) -> bool:
    """Say whether a folder is one of `reglue train`, of a trained cell, or of one of its seeds."""
    return (folder / RUN).is_file() or _is_cell(folder)


def read_trained_folder(
    folder: Path, seed: int | None = None, plugins: Sequence[Path] = ()
) -> TrainedFolder:
    """Read the description of a trained model; see `TrainedModel.open`.

    Raises:
        ConfigError: the cell has no such seed, or a plug-in is missing.
        DataError: the folder is no trained model, or of another version.
    """
    if _is_cell(folder):
        return _read_cell_folder(folder, seed)
    if not (folder / RUN).is_file():
        raise DataError(
            f"{folder}: found no trained model ({RUN} is missing), expected a folder that "
            "`reglue train` made, or that of a trained cell (artifacts/cells/TABLE/CELL)."
        )
    if seed is not None:
        raise _refuse_argument("seed", folder)
    return _read_user_folder(folder, plugins)


def _is_cell(folder: Path) -> bool:
    is_seed = folder.name.startswith(SEED) and folder.name.removeprefix(SEED).isdecimal()
    if is_seed:
        return (folder.parent / CELL).is_file()
    # encoders and exports are cells too, without folders of seeds
    return (folder / CELL).is_file() and any(folder.glob(f"{SEED}*"))


def _read_user_folder(folder: Path, plugins: Sequence[Path]) -> TrainedFolder:
    note = read_mapping(folder / RUN)
    if note.get("format") != FORMAT_VERSION or "plugins" not in note:
        raise DataError(
            f"{folder / RUN}: found the format {note.get('format')}, expected {FORMAT_VERSION} and "
            "a list of plugins; train the model again with this version, or use the version that "
            "it was trained with."
        )
    needed = [Plugin(**plugin) for plugin in note["plugins"]]
    check_plugins(needed, load_plugins(plugins), where=str(folder))
    config = read_model(folder / MODEL)
    assert config.data is not None, folder
    plan = plan_model(config, where=str(folder / MODEL))
    return TrainedFolder(folder.name, folder, folder / VECTORS, plan, {}, config.data)


def _read_cell_folder(folder: Path, seed: int | None) -> TrainedFolder:
    if not (folder / CELL).is_file():
        if seed is not None:
            raise ConfigError(f"--seed: '{folder}' is the folder of one seed; leave it out.")
        seed, folder = int(folder.name.removeprefix(SEED)), folder.parent
    note = read_mapping(folder / CELL)
    seed = note["seeds"][0] if seed is None else seed
    if seed not in note["seeds"]:
        raise ConfigError(f"{folder}: found the seeds {note['seeds']}, expected {seed} among them.")
    init = Path(note["init"]["path"])
    while (init / CELL).is_file():  # it starts from another cell, and that one perhaps from a third
        init = Path(read_mapping(init / CELL)["init"]["path"])
    plan = read_plan(Path(note["model"]))
    return TrainedFolder(note["cell"], folder / f"{SEED}{seed}", init, plan, note["tasks"], None)


def _choose_task(found: TrainedFolder, folder: Path, wanted: str | None) -> str:
    kinds = {name: KINDS.get(note["kind"]) for name, note in found.tasks.items()}
    names = [name for name, kind in kinds.items() if not kind.is_auxiliary]
    if wanted is None and len(names) > 1:
        raise ConfigError(
            f"{folder}: found a model of several tasks; name one with --task: {', '.join(names)}."
        )
    wanted = wanted or names[0]
    if wanted not in kinds:
        raise ConfigError(f"'{found.name}': found no task '{wanted}'. {suggest(wanted, kinds)}")
    if kinds[wanted].is_auxiliary:
        raise ConfigError(
            f"'{found.name}': found '{wanted}', a corpus whose hidden pieces trained the encoder; "
            "nothing is predicted of it. Name a task with examples."
        )
    return wanted


def _refuse_argument(name: str, folder: Path) -> ConfigError:
    return ConfigError(
        f"--{name}: '{folder}' is a model of `reglue train`, which has one task and one seed; "
        "leave it out."
    )
