"""A layer of a trained model as a model of its own, whose bundle gives vectors of texts.

Shape letters: B batch, N examples, D width of the vectors.
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nlp_core.blocks.base import VECTOR
from nlp_core.config.column import TEXTS
from nlp_core.data.task import Split
from nlp_core.errors import ConfigError, ExportError, UsageError, suggest
from nlp_core.export.parity import MAX_DIFFERENCE, Parity, choose_rows
from nlp_core.export.real_examples import list_examples
from nlp_core.heads.retrieval import COSINE, EMBEDDING, EmbeddingHead, RetrievalHead
from nlp_core.models.batch import Batch
from nlp_core.models.ensemble import Ensemble
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import HeadPlan
from nlp_core.prediction.split_prediction import map_batches
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import Bundle


@dataclass(frozen=True)
class LayerModel(TrainedModel):
    """A layer of a trained model and all layers below it; `whole` is that model."""

    whole: TrainedModel = field(kw_only=True)

    @property
    def kind_name(self) -> str:
        return EMBEDDING

    @property
    def calibration(self) -> None:
        return None

    @property
    def texts(self) -> list[str]:
        """The columns of the texts that the layers read, which may be one of two."""
        axes = {column.partition(".")[0] for column in self.model.plan.inputs.values()}
        if TEXTS in axes:
            return self.whole.texts
        return [name for name in self.whole.texts if {name, name.replace("text", "tokens")} & axes]


def cut_layer(trained: TrainedModel, name: str) -> LayerModel:
    """Return a layer as a model.

    Raises:
        ConfigError: the model is an ensemble.
        UsageError: it has no such layer with one vector for a text.
    """
    plan = trained.model.plan
    if isinstance(trained.model, Ensemble):
        raise ConfigError(
            f"{trained.folder}: found an ensemble, expected one trained model; name one of its "
            "members."
        )
    ranks = {layer.name: layer.shape.rank for layer in plan.layers}
    if ranks.get(name) != VECTOR:
        found = "a layer with more than one vector" if name in ranks else "no layer of the model"
        fitting = [layer for layer, rank in ranks.items() if rank == VECTOR]
        raise UsageError(f"--layer: found '{name}', {found}. {suggest(name, fitting)}")
    heads = [trained.model.heads[key] for key, item in plan.heads.items() if name in item.inputs]
    similarity = next((item.similarity for item in heads if isinstance(item, RetrievalHead)), None)
    below = plan.cut_below([name])
    shape = next(layer.shape for layer in below.layers if layer.name == name)
    note = HeadPlan(EMBEDDING, EmbeddingHead, {}, [name], [shape], (), 1.0)
    model = trained.model.select(below)
    model.plan = replace(below, heads={EMBEDDING: note})
    model.heads[EMBEDDING] = EmbeddingHead(similarity=similarity)
    own = {item.name: getattr(trained, item.name) for item in fields(TrainedModel)}
    own |= {"model": model.eval(), "whole": trained, "layer": name}
    own["featurizer"] = Featurizer(model.plan, trained.featurizer.vocabularies, {EMBEDDING: []})
    return LayerModel(**own)


def embed_split(model: LayerModel, split: Split, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the vectors of some rows, [N, D]."""
    encoded = replace(model.featurizer, targets={}).encode(split)

    def embed(batch: Batch) -> list[Tensor]:
        ((vectors_BD, _),) = model.model(batch).values()
        return [*vectors_BD]

    return torch.stack(map_batches(encoded, embed, rows)).numpy()


def compare_vectors(
    model: LayerModel, examples: Split, bundle: Bundle, max_drop: float | None
) -> Parity:
    """Compare the vectors of a bundle with the trained model's on real examples.

    Args:
        max_drop: by how much 100 times the mean cosine of both may be below 100; None: each number
            must be the same.

    Raises:
        ExportError: they differ by more.
    """
    rows = choose_rows(len(examples), max_drop)
    right_ND = embed_split(model, examples, rows).astype(np.float64)
    predictions = bundle.predict(list_examples(model.whole, examples, rows))
    found_ND = np.array([item[EMBEDDING] for item in predictions])
    gap_N = (np.abs(right_ND - found_ND) / np.maximum(1.0, np.abs(right_ND))).max(1)
    parity = Parity(len(rows), int((gap_N <= MAX_DIFFERENCE).sum()), float(gap_N.max()))
    where = f"{model.name}: layer '{model.layer}'"
    if max_drop is None:
        if parity.same_labels < parity.examples:
            raise ExportError(
                f"{where}: the exported vectors of {parity.examples - parity.same_labels} of "
                f"{parity.examples} examples differ by up to {parity.max_difference:.2g}, expected "
                f"at most {MAX_DIFFERENCE:g}; no bundle was written. This is a bug of the export: "
                "please report it with the model file."
            )
        return parity
    lengths_N = np.linalg.norm(right_ND, axis=1) * np.linalg.norm(found_ND, axis=1)
    cosine = 100 * float(((right_ND * found_ND).sum(1) / np.maximum(lengths_N, 1e-12)).mean())
    if not 100 - cosine <= max_drop:
        raise ExportError(
            f"{where}: {bundle.manifest.variant}: found a mean cosine of {cosine:.2f} with the "
            f"trained model's vectors over {len(rows)} examples, expected {100 - max_drop:g} at "
            "least; no bundle was written. Export float32, or allow more with --max-drop."
        )
    return parity._replace(metric=COSINE, trained=100.0, exported=cosine)
