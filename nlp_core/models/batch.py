"""A split as arrays, and the batches of tensors that a model reads of it.

Shape letters: B batch, T tokens, C characters in a word, L labels, U distinct words of a batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlp_core.data.batching import Ragged
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import Rows
from nlp_core.data.task import Split
from nlp_core.data.vocabulary import UNKNOWN, Feature
from nlp_core.kinds import ANSWERS, LABEL, NEXT_WORD, OUTPUT, TREE

IGNORED = -1
WRITTEN = (ANSWERS, OUTPUT, TREE)
"""The targets whose answers are made of an example's texts."""


@dataclass(frozen=True)
class Shares:
    """The shares of a part of a batch in the whole batch, by head."""

    terms: Mapping[str, float]
    """Of the terms of its mean loss."""
    rows: Mapping[str, float]
    """Of the rows by which two of its passes are compared."""
    soft: Mapping[str, float] = field(default_factory=dict)
    """Of the terms of a student's mean soft loss."""
    windows: float = 1.0
    """Of the windows whose layers a student matches."""


@dataclass(frozen=True)
class Batch:
    """The input of a model in one step."""

    features: dict[str, tuple[Tensor, ...]]
    """For each raw-input layer the input of its block: (ids_BT,), (ids_UC, index_BT) ..."""
    masks: dict[str, Tensor]
    """mask_BT of each model input that has tokens."""
    targets: dict[str, Tensor]
    """By column label ids [B] or [B, T] (-1 at padding), values [B], 0 or 1 for each label [B, L]
    where several may be right, or first and last token of an answer [B, 2] (-1 without an answer);
    without unlabeled columns."""
    rows: np.ndarray
    """Row numbers of the examples in their split, [B]."""
    group: Tensor | None = None
    """Question number of each candidate, [B]; None if the kind has no groups."""
    shares: Shares | None = None
    """Of this part in a step's batch; None: the batch is whole."""
    parts: Tensor | None = None
    """Of pairs in the input `texts`, 1 or 2 at pieces of the first or second text, 0 at special
    pieces and padding, [B, T]."""
    copies: Tensor | None = None
    """The id that writes a copy of each token, -1 at padding, [B, T]; None: no text is written."""
    draws: Tensor | None = None
    """Numbers in [0, 1) by which masked pieces are replaced, on the CPU, [B, T]; None: none is."""

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return replace(
            self,
            features={
                layer: tuple(item.to(device) for item in items)
                for layer, items in self.features.items()
            },
            masks={name: item.to(device) for name, item in self.masks.items()},
            targets={name: item.to(device) for name, item in self.targets.items()},
            group=None if self.group is None else self.group.to(device),
            parts=None if self.parts is None else self.parts.to(device),
            copies=None if self.copies is None else self.copies.to(device),
        )


@dataclass(frozen=True)
class EncodedSplit:
    """A split as arrays."""

    split: Split
    features: dict[str, Feature]
    """By raw-input layer."""
    inputs: dict[str, Ragged]
    """For each model input that has tokens, the lengths of its texts."""
    targets: dict[str, Ragged | Rows]
    """By column (label, tags) label ids or values; unlabeled columns are left out."""
    parts: Ragged | None = None
    """Of pairs in the input `texts`, the text of each piece; see Batch."""
    copies: Ragged | None = None
    """The id that writes a copy of each token; None if no text is written."""
    multiple: int = field(default=1, kw_only=True)
    """To which the lengths of a batch are padded."""
    pieces: PieceVocabulary | None = field(default=None, kw_only=True)
    """What texts are written in; None: in words and copies."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example over all inputs, which decide its batch, [N]."""
        total: np.ndarray = sum(
            (column.lengths for column in self.inputs.values()), np.zeros(len(self.split), int)
        )
        return total

    @property
    def labels(self) -> np.ndarray:
        """The label of each example, of a kind with one label for each, [N]."""
        right = self.targets[LABEL]
        assert not isinstance(right, Ragged)
        found: np.ndarray = np.asarray(right[np.arange(len(self.split))])
        return found

    @property
    def unknown_share(self) -> float | None:
        """The share of the next words that the vocabulary lacks; None: none is predicted."""
        words = self.targets.get(NEXT_WORD)
        if not isinstance(words, Ragged):
            return None
        return float((words.values == UNKNOWN).sum() / (words.values >= 0).sum())

    def write_answer(self, name: str, row: int, ids: list[int], labels: list[str]) -> Any:
        """Return what a model found for a target of WRITTEN; see `Split.write_answer`."""
        if name == OUTPUT and self.pieces is not None:
            return self.pieces.write(ids)
        return self.split.write_answer(name, row, ids, labels)

    def draw(self, seed: int, step: int) -> "EncodedSplit":
        """Return the split as a training step reads it; subclasses may draw something."""
        return self

    def batch(self, rows: np.ndarray) -> Batch:
        # a plug-in's column may not know of multiples
        more = {"multiple": self.multiple} if self.multiple > 1 else {}
        features = {
            layer: tuple(torch.from_numpy(array) for array in item.take(rows, **more))
            for layer, item in self.features.items()
        }
        masks = {
            name: torch.from_numpy(item.mask(rows, **more)) for name, item in self.inputs.items()
        }
        targets = {
            name: torch.from_numpy(
                item.take(rows, padding=IGNORED, **more) if isinstance(item, Ragged) else item[rows]
            )
            for name, item in self.targets.items()
        }
        group = None
        if self.split.group is not None:
            group = torch.from_numpy(_separate_repeats(self.split.group[rows], rows))
        parts = None if self.parts is None else torch.from_numpy(self.parts.take(rows, **more))
        copies = None
        if self.copies is not None:
            copies = torch.from_numpy(self.copies.take(rows, padding=IGNORED, **more))
        return Batch(features, masks, targets, rows, group, parts=parts, copies=copies)


def _separate_repeats(group: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return numbers by which a question that a resample has twice is two questions."""
    _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    if counts.max(initial=1) == 1:
        return group
    order = np.argsort(place, kind="stable")
    repeat = np.empty_like(place)
    repeat[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers: np.ndarray = np.unique(np.stack([group, repeat]), axis=1, return_inverse=True)[1]
    return numbers.ravel()


def find_label(labels: Sequence[str], number: int) -> str:
    """Return a label by its number; below 0 there is none, an empty one."""
    return labels[number] if number >= 0 else ""
