"""Open a trained model on one task; see `trained_folder`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nlp_core.config.base import PROCESSED, read_mapping
from nlp_core.config.dataset import TaskConfig, read_dataset
from nlp_core.config.user_data import DataConfig, Format, describe_files
from nlp_core.data.format_guess import guess_format
from nlp_core.data.task import Task
from nlp_core.data.user_task import build_user_task
from nlp_core.errors import ConfigError, UsageError, suggest
from nlp_core.files import digest_file
from nlp_core.kinds import KINDS, SENTENCES, list_user_kinds
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import WEIGHTS
from nlp_core.prediction.trained_folder import (
    CALIBRATION,
    TrainedFolder,
    read_trained_folder,
    refuse_argument,
)


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on one task, ready to predict.

    Attributes:
        folder: of its weights: of a cell, that of the seed.
        name: of the cell, or of the folder.
        data: how the user's files are read; None for a cell, see `describe_data`.
        layer: name of the one that a bundle gives the vectors of; None: the model predicts.
    """

    folder: Path
    name: str
    model: GraphModel
    featurizer: Featurizer
    task: Task
    data: DataConfig | None
    layer: str | None = None

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
            folder: what `reglue train` made, or, in the project's root, the folder of a cell or of
                one of its seeds.
            seed: of a cell; None: the first one.
            task: of a multi-task cell.
            plugins: the plug-ins that the model was trained with; no other one is run.

        Raises:
            ConfigError: an argument does not fit the folder.
            DataError: the folder has no trained model, or not a whole one.
        """
        folder = Path(folder)
        found = read_trained_folder(folder, seed, plugins)
        if found.data is None and plugins:
            raise UsageError(f"--plugin: '{folder}' is a trained cell; leave it out.")
        if found.data is None:
            task = _choose_task(found, folder, task)
        elif task is not None:
            raise refuse_argument("task", folder)
        model, featurizers = found.load()
        if found.plan.tasks and not found.members:
            featurizer = featurizers[task]
            model = model.select(featurizer.plan)
        else:
            featurizer = featurizers[None]
        chosen = _build_task(found, task, featurizer.targets)
        return cls(found.weights, found.name, model, featurizer, chosen, found.data)

    @property
    def calibration(self) -> dict[str, Any] | None:  # Any: JSON
        """What training says of the confidence; None: nothing was fitted."""
        path = self.folder / CALIBRATION
        return read_mapping(path) if path.is_file() else None

    def find_least(self, abstain_below: float | Literal["auto"]) -> float:
        """Return the least confidence of an answer.

        Raises:
            UsageError: the model does not choose one label, training chose no threshold, or the
                one given is not from 0 to 1.
        """
        kind = self.task.kind
        chooses = kind.has_label and kind.has_classes and not kind.has_several_labels
        if not chooses or kind.is_grouped:
            raise UsageError(
                f"--abstain-below: found a model of the kind {kind}, expected one that "
                "chooses a label for a text or a pair of texts."
            )
        if abstain_below != "auto":
            if not isinstance(abstain_below, int | float) or not 0 <= abstain_below <= 1:
                raise UsageError(
                    f"--abstain-below: found {abstain_below!r}, expected a number from 0 to 1, or "
                    "'auto'."
                )
            return float(abstain_below)
        if self.calibration is None:
            raise UsageError(
                f"--abstain-below auto: {self.folder} has no threshold, which `reglue train` "
                "chooses on the part held out; give a number from 0 to 1."
            )
        if self.calibration.get("abstain_below") is None:
            raise UsageError(
                f"--abstain-below auto: {self.folder} has no threshold, since no right answer was "
                "held out; give a number from 0 to 1, or train with more rows."
            )
        return float(self.calibration["abstain_below"])

    @property
    def owner(self) -> str:
        """What has the labels of the model, for messages."""
        return f"the training file of {self.folder}"

    def digest_weights(self) -> str:
        return digest_file(self.folder / WEIGHTS)

    @property
    def kind_name(self) -> str:
        """What a bundle of the model predicts."""
        return self.task.kind.name

    @property
    def texts(self) -> list[str]:
        kind = self.task.kind
        if kind.has_sentences:
            return [SENTENCES]
        return [name.replace("tokens", "text") for name in kind.tokens]

    @property
    def tokenizer(self) -> str:
        return self._read_source().tokens if self.data is None else self.data.tokens

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that the model reads; None: all."""
        if self.data is None or self.task.kind.has_passages:
            return None
        return self.data.max_tokens

    def describe_data(self, file: Path | None = None) -> DataConfig:
        """Return how the files are read that the model predicts or is measured on.

        Args:
            file: one of them, whose format is guessed for a cell.

        Raises:
            ConfigError: no user's file can hold the kind of the cell.
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
            f"'{found.name}': found '{wanted}', a corpus for masked language modelling, which has "
            "no predictions. Name a task with examples."
        )
    return wanted


def _build_task(found: TrainedFolder, task: str | None, targets: dict[str, list[str]]) -> Task:
    """Return what a model predicts; `targets` has by target all labels."""
    if task is None:
        assert found.data is not None, found.name
        return build_user_task(found.data, targets, found.name, {})
    note = found.tasks[task]
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
        folder=Path(PROCESSED) / task,
        further_report_splits=tuple(note.get("further_report_splits", ())),
    )
