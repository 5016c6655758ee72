"""Search passages for queries: the vectors of both towers, and the ranks of right passages.

Shape letters: N rows of a split, P passages, Q queries, D width of the vectors.
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.heads.retrieval import RetrievalHead
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.models.retrieval_split import RetrievalSplit

BATCH = 64
ROWS_A_CHUNK = 256
Vectors = NDArray[np.float32]


class Towers(NamedTuple):
    """The head of a model for retrieval, and the layers that it reads."""

    head: RetrievalHead
    query: str
    passage: str


def find_towers(model: GraphModel) -> Towers:
    for name, head in model.heads.items():
        if isinstance(head, RetrievalHead):
            return Towers(head, *model.plan.heads[name].inputs)
    raise AssertionError(f"{model.plan.where} has no head for retrieval")


@torch.no_grad()
def embed_rows(
    model: GraphModel, encoded: EncodedSplit, layer: str, rows: NDArray[np.int64]
) -> Vectors:
    """Return the vectors [N, D] of some rows whose products are similarities.

    Args:
        layer: of one of the towers.
    """
    part = model.select(model.plan.cut_below([layer])).eval()
    head, device = find_towers(model).head, model.device
    lengths = np.zeros(len(rows), dtype=np.int64)
    for name in part.plan.inputs:
        lengths = lengths + encoded.inputs[name].lengths[rows]
    found: Vectors | None = None
    for places in order_evaluation_batches(lengths, batch_size=BATCH):
        values, _ = part.compute_layers(encoded.batch(rows[places]).to(device))
        vectors = head.project(values[layer]).cpu().numpy()
        if found is None:
            found = np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
        found[places] = vectors
    assert found is not None, layer
    return found


def rank_passages(model: GraphModel, encoded: RetrievalSplit) -> list[int]:
    """Return the rank of each row's passage for its query, from 1, among the whole collection.

    Passages with equal scores all get the last of their ranks, so that ties never help.
    """
    key = _digest(model)
    if key not in encoded.ranks:
        encoded.ranks.clear()
        encoded.ranks[key] = list(_rank(model, encoded, _embed_collection(model, encoded, key)))
    return encoded.ranks[key]


def _embed_collection(model: GraphModel, encoded: RetrievalSplit, key: str) -> Vectors:
    kept, layer = encoded.collection.vectors, find_towers(model).passage
    if key not in kept:
        kept.clear()
        kept[key] = np.concatenate(
            [
                embed_rows(model, part, layer, np.arange(len(part.split)))
                for part in encoded.collection.parts
            ]
        )
    return kept[key]


def _rank(model: GraphModel, encoded: RetrievalSplit, passages_PD: Vectors) -> Iterator[int]:
    group = encoded.split.group
    assert group is not None, encoded.split.name
    _, first, query = np.unique(group, return_index=True, return_inverse=True)
    queries_QD = embed_rows(model, encoded, find_towers(model).query, first)
    for start in range(0, len(query), ROWS_A_CHUNK):
        rows = slice(start, start + ROWS_A_CHUNK)
        scores_NP = queries_QD[query[rows]] @ passages_PD.T
        own_N1 = np.take_along_axis(scores_NP, encoded.passage[rows, None], 1)
        yield from (scores_NP >= own_N1).sum(1).tolist()


def _digest(model: GraphModel) -> str:
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
