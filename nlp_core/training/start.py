"""Where a cell starts that goes on with the layers of another, trained one."""

from dataclasses import dataclass
from pathlib import Path

from nlp_core.config.base import read_mapping
from nlp_core.config.params import Params
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan, read_plan
from nlp_core.models.saving import WEIGHTS
from nlp_core.models.transfer import check_transfer, recall_vocabularies, transfer_weights


@dataclass(frozen=True)
class Start:
    """A trained cell that another one starts from.

    Attributes:
        folder: of the trained cell.
        init: folder of the vectors or the encoder that its vocabularies need.
        seed: its seed that all seeds start from; None: each from its own.
        keep_heads: whether heads that are the same go on as well.
    """

    folder: Path
    init: Path
    seed: int | None
    keep_heads: bool

    def find(self, seed: int) -> Path:
        """Return the folder of the trained seed that a seed starts from."""
        return self.folder / f"seed-{seed if self.seed is None else self.seed}"

    def digest(self, seed: int) -> str:
        """Return the digest of the weights that a seed starts from."""
        return digest_file(self.find(seed) / WEIGHTS)

    def recall(self, plan: ModelPlan, seed: int) -> dict[str, Vocabulary]:
        """Return the vocabularies that a model gets from a trained seed."""
        return recall_vocabularies(self.find(seed), plan, self.init)

    def give(self, model: GraphModel, seed: int) -> None:
        """Give a fresh model what it goes on with.

        Raises:
            DataError: a layer of the trained model has other shapes.
            ConfigError: heads were asked for, and none is the same.
        """
        folder = self.find(seed)
        if not transfer_weights(model, folder, keep_heads=self.keep_heads) and self.keep_heads:
            raise ConfigError(
                f"{model.plan.where}: heads: found none of the names and shapes of "
                f"{folder / WEIGHTS}, expected one at least; set the experiment's keep_heads to "
                "false."
            )


def read_start(name: str, params: Params) -> Start | None:
    """Return what a cell starts from if that is a trained cell.

    Raises:
        DataError: a cell that it comes from, however far back, is not trained.
    """
    if params.find_start(name) is None:
        return None
    experiment, cell = params.experiments[name], name
    while (trained := params.find_start(cell)) is not None:
        folder = Path(params.experiments[cell].init)
        if not (folder / "cell.json").exists():
            raise _refuse(folder / "cell.json", trained, name)
        cell = trained
    init = Path(params.experiments[cell].init)
    folder = Path(experiment.init)
    start = Start(folder, init, experiment.init_seed, experiment.keep_heads)
    for seed in experiment.seeds:
        if not (start.find(seed) / WEIGHTS).exists():
            raise _refuse(start.find(seed) / WEIGHTS, folder.name, name)
    return start


def check_start(start: Start, plan: ModelPlan) -> None:
    """Refuse a model that has nothing, or something else, of what the cell starts from.

    Raises:
        ConfigError: see `check_transfer`.
    """
    model = read_mapping(start.folder / "cell.json")["model"]
    check_transfer(plan, read_plan(Path(model)))


def _refuse(path: Path, trained: str, name: str) -> DataError:
    return DataError(
        f"{path}: there is no such file, so the cell '{trained}', which '{name}' starts from, is "
        f"not trained yet; run `dvc repro finetune@{trained}`."
    )
