"""Where a training starts: from a trained model, from word vectors, at the mean of numbers."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # any value of a model file

import numpy as np

from nlp_core.config.base import CELL, CELLS, SEED, read_mapping
from nlp_core.config.params import Params
from nlp_core.data.task import Task
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.data.word_vectors import convert_vectors, is_fasttext
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import MANIFEST, digest_file, digest_json
from nlp_core.heads.sentence import RegressionHead
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import HeadPlan, LayerPlan, ModelPlan
from nlp_core.models.saving import (
    VOCABULARY,
    WEIGHTS,
    check_transfer,
    has_same_targets,
    read_vocabularies,
    transfer_weights,
)
from nlp_core.prediction.trained_folder import is_trained, read_trained_folder

log = logging.getLogger(__name__)

NUMBER_SCALE = ("center", "scale")
"""Options of the head that predicts numbers."""


def digest_init(init: Path) -> str:
    """Return the digest of the vector tables or of the encoder in a folder."""
    if not (init / MANIFEST).exists():  # an encoder that no stage made
        return digest_json({name: digest_file(init / name) for name in ENCODER_FILES})
    manifest = read_mapping(init / MANIFEST)
    return digest_json(manifest["tables" if "tables" in manifest else "files"])


def name_init_stage(init: Path) -> str:
    """Return the DVC stage that makes a folder of vectors or of an encoder."""
    return f"{'pretrain' if f'{init}/'.startswith(CELLS) else 'preprocess'}@{init.name}"


def read_init_kind(init: Path, what: str) -> str:
    """Return the kind of data of a folder that a cell or an encoder starts from.

    Raises:
        DataError: the folder is not made yet.
    """
    path = init / MANIFEST
    if not path.exists():
        raise DataError(
            f"{path}: no such file, so '{init}', the init of {what}, is not made yet; run "
            f"`dvc repro {name_init_stage(init)}`."
        )
    return str(read_mapping(path)["kind"])


@dataclass(frozen=True)
class Start:
    """A trained model that another one starts from.

    Attributes:
        folder: its weights and vocabularies; with `has_seeds`, the folder of the cell.
        init: folder of the vectors or the encoder that its vocabularies need; need not be there.
        has_seeds: whether each seed starts from the cell's seed with the same number.
        keep_heads: whether equal heads are copied too; None: if the labels are the same.
    """

    folder: Path
    init: Path
    plan: ModelPlan
    has_seeds: bool = False
    keep_heads: bool | None = None

    def find(self, seed: int) -> Path:
        """Return the folder of the trained seed that a seed starts from."""
        return self.folder / f"{SEED}{seed}" if self.has_seeds else self.folder

    def digest(self, seed: int) -> str:
        """Return the digest of all that a model gets from it."""
        files = [self.find(seed) / name for name in (WEIGHTS, VOCABULARY)]
        files += [self.init / f"{table}.safetensors" for table in self.plan.vector_tables]
        return digest_json([digest_file(path) for path in files])

    def check(self, plan: ModelPlan) -> None:
        """Check that a model can start from this one.

        Raises:
            ConfigError: see `check_transfer`; or a layer starts from other vectors.
        """
        check_transfer(plan, self.plan)
        trained = {layer.name: layer.options.get("vectors") for layer in self.plan.layers}
        for layer in plan.layers:
            wanted = layer.options.get("vectors")
            if layer.name in trained and wanted != trained[layer.name]:
                found, expected = (
                    f"'{table}'" if table else "none" for table in (wanted, trained[layer.name])
                )
                raise ConfigError(
                    f"{plan.where}: layer '{layer.name}': vectors: found {found}, expected "
                    f"{expected}, as in {self.plan.where}, whose weights it starts from; train "
                    "that model file, or give the layer another name."
                )

    def has_layer(self, layer: LayerPlan) -> bool:
        """Return whether a layer gets its weights and vocabulary from here."""
        return layer.owner in {item.name for item in self.plan.layers if item.is_owner}

    def read_vocabularies(self, plan: ModelPlan, seed: int) -> dict[str, Vocabulary]:
        return read_vocabularies(self.find(seed), plan, self.init)

    def copy_weights(self, model: GraphModel, featurizer: Featurizer, seed: int) -> None:
        """Give a fresh model the weights of its layers, and of the heads that are kept.

        Args:
            featurizer: has the labels that the model predicts.

        Raises:
            DataError: a layer of the trained model has other shapes.
            ConfigError: heads were asked for, and none is the same.
        """
        folder, keep_heads = self.find(seed), self.keep_heads
        if keep_heads is None:
            keep_heads = has_same_targets(folder, featurizer)
            if not keep_heads:
                log.info("train start heads=fresh since=the labels are others")
        if not transfer_weights(model, folder, keep_heads=keep_heads) and self.keep_heads:
            raise ConfigError(
                f"{model.plan.where}: heads: found none of the names and shapes of "
                f"{folder / WEIGHTS}, expected one at least; set the experiment's keep_heads to "
                "false."
            )


def find_start(name: str, plugins: Sequence[Path]) -> Start | None:
    """Return the trained model that a folder holds; None: it holds none, but perhaps an encoder.

    Args:
        name: a folder that `reglue train` made, or that of a trained cell or of one of its seeds.
        plugins: the ones that such a model needs; no other is run.

    Raises:
        ConfigError: a plug-in is missing.
        DataError: the folder is incomplete or damaged.
    """
    folder = Path(name).expanduser()
    if not is_trained(folder):
        return None
    found = read_trained_folder(folder, plugins=plugins)
    if found.members:
        raise ConfigError(
            f"{folder}: found an ensemble, expected one trained model; start from one of its "
            f"members: {', '.join(member.name for member in found.members)}."
        )
    found.check_digests()
    return Start(found.weights, found.init, found.plan)


def start_from_vectors(
    model: dict[str, Any],
    path: Path,
    max_words: int | None,
    *,
    where: str,
    list_texts: Callable[[], Collection[str]] = tuple,
) -> Path:
    """Give word vectors to every word embedding of a model file, and return their folder.

    Args:
        model: the content of the model file, which is changed.
        path: a file of vectors, or a processed folder.
        max_words: how many words of a file to read; None: all.
        list_texts: returns the words of the texts, for which a binary fastText model has vectors
            too if it does not list them.

    Raises:
        ConfigError: no layer reads words, or the folder is not one of vectors, or has several.
        DataError: the file is malformed.
    """
    embeddings = [layer for layer in model["layers"] if layer["block"] == "word_embedding"]
    if not embeddings:
        raise ConfigError(
            f"{where}: found no layer of the block word_embedding, so that --vectors "
            f"{path} would not be read; leave --vectors out."
        )
    if path.is_dir():
        manifest = read_mapping(path / MANIFEST)
        if manifest.get("kind") != "vectors":
            raise ConfigError(f"{path}: holds no word vectors, expected a folder that does.")
        if any(layer.get("vectors") for layer in embeddings):
            return path
        if len(manifest["tables"]) > 1:
            raise ConfigError(
                f"{path}: found the tables {', '.join(manifest['tables'])}, and no layer of "
                f"{where} that names one; say which: --set "
                f"layers.{embeddings[0]['name']}.vectors={next(iter(manifest['tables']))}."
            )
        folder = path
    else:
        words = list_texts() if path.is_file() and is_fasttext(path) else ()
        folder = convert_vectors(path, max_words, words)
        manifest = read_mapping(folder / MANIFEST)
    ((name, table),) = manifest["tables"].items()
    for layer in embeddings:
        layer |= {"vectors": name, "dim": table["dim"]}
    return folder


def read_start(name: str, params: Params) -> Start | None:
    """Return the trained cell that a cell starts from, if it does.

    Raises:
        DataError: a cell that it comes from, however far back, is not trained.
    """
    cell = name
    while (trained := params.find_start(cell)) is not None:
        folder = Path(params.experiments[cell].init)
        if not (folder / CELL).exists():
            raise _refuse(folder / CELL, trained, name)
        cell = trained
    if cell == name:
        return None
    experiment = params.experiments[name]
    folder, own = Path(experiment.init), experiment.init_seed
    found = read_trained_folder(folder)
    start = Start(
        folder=folder if own is None else folder / f"{SEED}{own}",
        init=found.init,
        plan=found.plan,
        has_seeds=own is None,
        keep_heads=experiment.keep_heads,
    )
    for seed in experiment.seeds:
        if not (start.find(seed) / WEIGHTS).exists():
            raise _refuse(start.find(seed) / WEIGHTS, folder.name, name)
    return start


def _refuse(path: Path, trained: str, name: str) -> DataError:
    return DataError(
        f"{path}: no such file, so the cell '{trained}', which '{name}' starts from, is "
        f"not trained yet; run `dvc repro finetune@{trained}`."
    )


def scale_numbers(
    model: dict[str, Any], plan: ModelPlan, task: Task, start: Start | None
) -> dict[str, Any]:
    """Return a model file whose head has the mean and the standard deviation of train's numbers.

    A head that says one of them keeps what it says, and one that starts from a trained head has
    those of that one, which its weights belong to.
    """
    heads = dict(model["heads"])
    for name, head in plan.heads.items():
        if head.head is not RegressionHead or head.options.get("output") == "sigmoid":
            continue
        if {*NUMBER_SCALE} & {*head.options}:
            continue
        trained = None if start is None else start.plan.heads.get(name)
        heads[name] = {
            **heads[name],
            **(_measure_numbers(task) if trained is None else _copy_scale(trained)),
        }
    return {**model, "heads": heads}


def _measure_numbers(task: Task) -> dict[str, float]:
    numbers = np.asarray(task.read_split("train").target, float)
    spread = float(numbers.std())
    values = (float(numbers.mean()), spread if spread > 0 else 1.0)
    return {name: float(f"{value:.6g}") for name, value in zip(NUMBER_SCALE, values, strict=True)}


def _copy_scale(head: HeadPlan) -> dict[str, float]:
    return {name: head.options[name] for name in NUMBER_SCALE if name in head.options}
