"""The folder that `reglue train` makes: what lies in it, and how a model is read back from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.config.model import read_model
from nlp_core.config.user_data import DataConfig
from nlp_core.errors import DataError
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan, plan_model
from nlp_core.models.plugin import Plugin, check_plugins, load_plugins
from nlp_core.models.saving import load_model

MODEL = "model.json"
RUN = "run.json"
VECTORS = "vectors"
FORMAT_VERSION = 1


class UserFolder(NamedTuple):
    """A folder that `reglue train` made.

    Attributes:
        path: where it is.
        data: how the files of its model are read.
        plan: its model.
    """

    path: Path
    data: DataConfig
    plan: ModelPlan

    def load(self) -> tuple[GraphModel, Featurizer]:
        """Return the model with its weights, and its vocabularies.

        Raises:
            DataError: a file is missing or broken.
        """
        return load_model(self.path, self.plan, kind=self.data.kind, init=self.path / VECTORS)


def is_user_folder(folder: Path) -> bool:
    """Say whether `reglue train` made a folder."""
    return (folder / RUN).is_file()


def open_user_folder(folder: Path, plugins: Sequence[Path]) -> UserFolder:
    """Read what a trained folder says of its model.

    Args:
        folder: what `reglue train` made.
        plugins: the plug-ins that it was trained with; none is run unasked.

    Raises:
        ConfigError: a plug-in is missing.
        DataError: the folder is not whole, or of another version.
    """
    needed = [Plugin(**plugin) for plugin in _read_note(folder)["plugins"]]
    check_plugins(needed, load_plugins(plugins), where=str(folder))
    config = read_model(folder / MODEL)
    assert config.data is not None, folder
    return UserFolder(folder, config.data, plan_model(config, where=str(folder / MODEL)))


def _read_note(folder: Path) -> dict[str, Any]:
    note = read_mapping(folder / RUN)
    if note.get("format") != FORMAT_VERSION or "plugins" not in note:
        raise DataError(
            f"{folder / RUN}: found the format {note.get('format')}, expected {FORMAT_VERSION} and "
            "a list of plugins; train the model again with this version, or use the version that "
            "it was trained with."
        )
    return note
