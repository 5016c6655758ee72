"""Where `reglue train` goes on from a trained model, one's own or a cell of the grid."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError
from nlp_core.files import digest_file, digest_json
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import LayerPlan, ModelPlan
from nlp_core.models.saving import VOCABULARY, WEIGHTS, has_same_targets
from nlp_core.models.transfer import check_transfer, read_vocabularies, transfer_weights
from nlp_core.training.trained_seed import find_seed, is_cell
from nlp_core.training.user_folder import VECTORS, is_user_folder, open_user_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UserStart:
    """A trained model that another one starts from.

    Attributes:
        folder: its weights and vocabularies.
        init: folder of the vectors of words that it never met; need not be there.
        plan: what it is.
    """

    folder: Path
    init: Path
    plan: ModelPlan

    @property
    def digest(self) -> str:
        """Digest of what a model gets from it."""
        tables = {layer.options.get("vectors") for layer in self.plan.layers} - {None}
        files = [self.folder / WEIGHTS, self.folder / VOCABULARY]
        files += [self.init / f"{table}.safetensors" for table in sorted(map(str, tables))]
        return digest_json([digest_file(path) for path in files])

    def check(self, plan: ModelPlan) -> None:
        """Refuse a model that has nothing, or something else, of the trained one.

        Raises:
            ConfigError: see `check_transfer`; or a layer starts from other vectors.
        """
        check_transfer(plan, self.plan)
        trained = {layer.name: layer.options.get("vectors") for layer in self.plan.layers}
        for layer in plan.layers:
            wanted = layer.options.get("vectors")
            if layer.name in trained and wanted != trained[layer.name]:
                raise ConfigError(
                    f"{plan.where}: layer '{layer.name}': vectors: found {_show(wanted)}, expected "
                    f"{_show(trained[layer.name])}, as in {self.plan.where}, whose weights it "
                    "starts from; train that model file, or give the layer another name."
                )

    def has(self, layer: LayerPlan) -> bool:
        """Say whether a layer gets weights and vocabulary, so that it needs no others."""
        return layer.owner in {item.name for item in self.plan.layers if item.owner == item.name}

    def recall(self, plan: ModelPlan) -> dict[str, Vocabulary]:
        """Return the vocabularies that a model gets."""
        return read_vocabularies(self.folder, plan, self.init)

    def give(self, model: GraphModel, featurizer: Featurizer) -> None:
        """Give a fresh model the weights of its layers, and of heads that tell the same labels.

        Raises:
            DataError: a layer of the trained model has other shapes.
        """
        is_same = has_same_targets(self.folder, featurizer)
        if not is_same:
            log.info("train start heads=fresh since=the labels are others")
        transfer_weights(model, self.folder, keep_heads=is_same)


def find_start(name: str, plugins: Sequence[Path]) -> UserStart | None:
    """Return the trained model that a folder holds; None: it holds none, but perhaps an encoder.

    Args:
        name: a folder that `reglue train` made, or that of a trained cell or of one of its seeds.
        plugins: what such a folder was trained with; none is run unasked.

    Raises:
        ConfigError: a plug-in is missing.
        DataError: the folder is not whole.
    """
    folder = Path(name).expanduser()
    if is_user_folder(folder):
        found = open_user_folder(folder, plugins)
        return UserStart(folder, folder / VECTORS, found.plan)
    if is_cell(folder):
        cell, seed = find_seed(folder)
        return UserStart(cell.folder / f"seed-{seed}", cell.init, cell.plan)
    return None


def _show(table: object) -> str:
    return f"'{table}'" if table else "none"
