"""Write bundle.json: how texts become inputs, and scores become predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from nlp_core.data.tokenization import describe_tokenizer
from nlp_core.errors import ConfigError
from nlp_core.export.inputs import InputPlan
from nlp_core.export.written import WRITTEN, describe_writing
from nlp_core.files import digest_file, write_json
from nlp_core.heads.base import Head
from nlp_core.heads.piece_writing import LabelTextHead
from nlp_core.heads.ranking import ListwiseRankingHead, PairwiseRankingHead
from nlp_core.heads.retrieval import COSINE, EmbeddingHead
from nlp_core.heads.sentence import ClassificationHead, MultiLabelHead, RegressionHead
from nlp_core.heads.span import SpanHead
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.models.ensemble import Ensemble
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.manifest import CALIBRATION, FORMAT, MANIFEST

PLAIN: dict[type[Head], str] = {
    ClassificationHead: "choice",
    LabelTextHead: "choice",
    MultiLabelHead: "choices",
    RegressionHead: "value",
    PairwiseRankingHead: "order",
    ListwiseRankingHead: "order",
    TaggingHead: "tokens",
    CRFTaggingHead: "field",
    SpanHead: "span",
    EmbeddingHead: "vector",
    **WRITTEN,
}
"""The decoding of each head that can be exported."""
REFUSED = {
    "RetrievalHead": "searches an index of passages; export a tower with --layer",
    "MaskedLanguageModelHead": "pretrains an encoder and predicts nothing",
    **dict.fromkeys(
        ("SANClassificationHead", "SANRegressionHead"), "reads segment ids, which no bundle has"
    ),
    "RNNGHead": "writes a tree step by step, which no graph can express",
    "NonautoregressiveParsingHead": "searches a tree in the symbols of all places, which no graph "
    "can express",
    "LanguageModelHead": "scores given texts and predicts nothing",
    "EncoderDecoderTaggingHead": "predicts tags one by one, which a graph cannot express",
}


def write_manifest(
    folder: Path, trained: TrainedModel, inputs: InputPlan, *, variant: str, graph: str
) -> None:
    """Write bundle.json, with the digest of every other file, and the files of the heads.

    `graph`: name of the file with the graph or the program.
    """
    plans = trained.model.plan.heads.items()
    by_target: dict[str, str] = {plan.head.target: name for name, plan in plans}
    targets = trained.featurizer.targets
    heads = [_describe_head(trained, by_target[target], folder) for target in targets]
    files = sorted(path.name for path in folder.iterdir())
    tokenizer = {
        "name": trained.tokenizer,
        "substitutions": describe_tokenizer(trained.tokenizer),
        "max_tokens": trained.max_tokens,
    }
    note = {
        "format": FORMAT,
        "kind": trained.kind_name,
        "variant": variant,
        "tokenizer": tokenizer,
        "texts": trained.texts,
        "inputs": inputs.notes,
        "heads": heads,
        "graph": graph,
        "files": {name: digest_file(folder / name) for name in files},
    }
    if (calibration := trained.calibration) is not None:
        note[CALIBRATION] = calibration
    write_json(folder / MANIFEST, note)


def check_heads(trained: TrainedModel) -> None:
    """Raise ConfigError if no bundle can decode a head."""
    is_ensemble = isinstance(trained.model, Ensemble)
    for name, plan in trained.model.scored.plan.heads.items():
        if reason := _find_reason(plan.head, is_ensemble=is_ensemble):
            raise ConfigError(
                f"{trained.model.plan.where}: head '{name}': it {reason}; no bundle can be made."
            )


def _find_reason(head: type[Head], *, is_ensemble: bool) -> str | None:
    """Return why no bundle can decode a head; None: one can."""
    if is_ensemble and head in WRITTEN:
        return "is an ensemble's that writes step by step"
    if head in PLAIN:
        return None
    return REFUSED.get(head.__name__, "is a plug-in's, whose decoding is code")


def _describe_head(trained: TrainedModel, name: str, folder: Path) -> dict[str, Any]:
    """Return the note of a head, and write its file if it has one."""
    head = trained.model.head(name)
    note: dict[str, Any] = {
        "output": name,
        "decoding": PLAIN[type(head)],
        "target": head.target,
        "labels": trained.featurizer.targets[head.target],
    }
    if isinstance(head, EmbeddingHead):
        # the towers of a retrieval model compare with each other, other layers only with themselves
        layer = "" if head.similarity else f" {trained.layer}"
        note["weights"] = trained.digest_weights() + layer
        note["similarity"] = head.similarity or COSINE
    if isinstance(head, MultiLabelHead):
        note["threshold"] = head.threshold
    if isinstance(head, TaggingHead | CRFTaggingHead):
        note["scheme"] = trained.task.scheme
    note |= _write_field(head, name, folder)
    if isinstance(trained.model, Ensemble):
        ensemble = trained.model
        members = [{"output": part} for part in ensemble.parts[name]]
        if not isinstance(head, CRFTaggingHead):
            for item in members:
                part = item["output"]
                item |= _write_field(ensemble.scored.heads[part], part, folder)
        return note | {"members": members, "combination": ensemble.combination}
    if type(head) in WRITTEN:
        note |= describe_writing(trained.model, name, note["labels"], folder)
    if isinstance(head, SpanHead):
        note["max_answer_tokens"] = head.max_answer_tokens
        note["threshold"] = repr(float(head.threshold)) if head.has_none else None
    return note


def _write_field(head: nn.Module, name: str, folder: Path) -> dict[str, str]:
    """Write the transitions of a random field, and return the part of its note; else nothing."""
    if not isinstance(head, CRFTaggingHead):
        return {}
    file = f"{name}.npy"
    rows = torch.stack([head.start, head.end, *head.transition])
    np.save(folder / file, rows.detach().numpy())
    return {"file": file}
