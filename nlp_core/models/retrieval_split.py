"""Splits of pairs of a query and a passage, with the passages that queries are searched in.

Shape letters: N rows of a split, P passages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from nlp_core.data.task import Split
from nlp_core.models.batch import Batch, EncodedSplit
from nlp_core.models.features import Featurizer

PASSAGE = "tokens_b"
"""The column whose tokens say whether two passages are the same."""


@dataclass(frozen=True)
class Collection:
    """Distinct passages, numbered in the order of their parts.

    Attributes:
        parts: rows with one passage each.
        vectors: the vectors [P, D] of the weights with the digest that is the key; the last ones.
    """

    parts: list[EncodedSplit]
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RetrievalSplit(EncodedSplit):
    """Pairs of a query and a passage.

    Attributes:
        passage: the number of each row's passage in the collection, [N].
        ranks: the rank of each row's passage, by the digest of the weights; the last ones.
    """

    passage: NDArray[np.int64]
    collection: Collection
    ranks: dict[str, list[int]] = field(default_factory=dict)

    def batch(self, rows: np.ndarray) -> Batch:
        found = super().batch(rows)
        assert found.group is not None, self.split.name
        passage = torch.from_numpy(self.passage[rows])
        return replace(found, group=torch.stack([found.group, passage], 1))


def encode_retrieval(
    featurizer: Featurizer, splits: Mapping[str, Split], *, shared: bool
) -> dict[str, RetrievalSplit]:
    """Turn splits of a retrieval task into arrays.

    Args:
        shared: whether the queries of each split are searched in the passages of all of them.
    """
    numbers: dict[str, int] = {}
    parts: list[EncodedSplit] = []
    found: dict[str, RetrievalSplit] = {}
    for name, split in splits.items():
        if not shared:
            numbers, parts = {}, []
        passage, new = _number_passages(split, numbers)
        if len(new):
            parts.append(featurizer.encode(split.subset("passages", new)))
        encoded = vars(featurizer.encode(split))
        collection = next(iter(found.values())).collection if found and shared else None
        found[name] = RetrievalSplit(
            **encoded, passage=passage, collection=collection or Collection(parts)
        )
    return found


def _number_passages(
    split: Split, numbers: dict[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row's passage, and the rows whose passage is new.

    Args:
        numbers: those of the passages seen so far, to which new ones are added.
    """
    column, new = split.texts[PASSAGE], []
    passage = np.empty(len(split), dtype=np.int64)
    for row in range(len(split)):
        size = len(numbers)
        passage[row] = numbers.setdefault(" ".join(column.row(row)), size)
        if passage[row] == size:
            new.append(row)
    return passage, np.array(new, dtype=np.int64)
