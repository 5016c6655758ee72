"""From a graph's inputs to the arguments of the input layers, traceable for any sizes.

Each module takes all inputs by name and the mask of its layer. Shape letters as in `inputs.py`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nlp_core.data.vocabulary import PADDING, UNKNOWN

Tensors = Mapping[str, Tensor]


class WordForm(NamedTuple):
    """One look-up of a word.

    Attributes:
        name: of the form.
        is_vector: whether it finds only pretrained vectors, no word of the vocabulary.
        place: index of the form in the input.
    """

    name: str
    is_vector: bool
    place: int = 0


class ReadIds(nn.Module):
    """Take the first look-up that found an id; if none did, the unknown word.

    Args:
        name: of the ids, [K, B, T]; -1 if nothing was found.
        forms: the look-ups in order.
        own_rows: for each word of the vocabulary the id of its pretrained vector, or -1.
    """

    own_rows: Tensor

    def __init__(self, name: str, forms: Sequence[WordForm], own_rows: Tensor) -> None:
        super().__init__()
        self.name, self.forms = name, list(forms)
        self.num_words = len(own_rows)
        self.register_buffer("own_rows", own_rows)

    def forward(self, tensors: Tensors, mask_BT: Tensor) -> tuple[Tensor, ...]:
        """Return ids [B, T], 0 at padding."""
        ids_KBT = tensors[self.name]
        found_BT = torch.full_like(ids_KBT[0], UNKNOWN)
        for form in reversed(self.forms):
            id_BT = ids_KBT[form.place]
            if form.is_vector:
                own_BT = self.own_rows[id_BT.clamp(0, self.num_words - 1)]
                id_BT = torch.where((id_BT >= 0) & (id_BT < self.num_words), own_BT, id_BT)
            found_BT = torch.where(id_BT >= 0, id_BT, found_BT)
        return (found_BT.masked_fill(~mask_BT, PADDING),)


class ReadTensors(nn.Module):
    """Take tensors as they are: matches [B, T, G]; or spellings [U, C] and each token's word."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def forward(self, tensors: Tensors, mask_BT: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensors[name] for name in self.names)


class ReadNumbers(nn.Module):
    """Standardise numbers with the mean and deviation of the training split."""

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, mean: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))

    def forward(self, tensors: Tensors, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return numbers [B, W], or [B, T, W] with 0 at padding."""
        scaled = ((tensors[self.name] - self.mean) / self.std).float()
        return (scaled if mask is None else scaled.masked_fill(~mask.unsqueeze(-1), 0.0),)


class ReadWindows(nn.Module):
    """Take the windows of a pretrained encoder, and each token's place in them."""

    def __init__(self, name: str, *, reads_segments: bool) -> None:
        super().__init__()
        self.name, self.reads_segments = name, reads_segments

    def forward(self, tensors: Tensors, mask_BT: Tensor) -> tuple[Tensor, ...]:
        """Return ids, segments and mask of pieces, [W, L], and places [B, T]."""
        return *self.read_windows(tensors), tensors[f"{self.name}.places"]

    def read_windows(self, tensors: Tensors) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, segments and mask of pieces, [W, L]."""
        ids_WL = tensors[f"{self.name}.ids"]
        inside_WL = mask_lengths(tensors[f"{self.name}.lengths"], ids_WL.shape[1])
        segments = tensors[f"{self.name}.segments"] if self.reads_segments else ids_WL * 0
        return ids_WL, segments, inside_WL


class ReadTexts(ReadWindows):
    """Take texts as one window each; every piece is a place."""

    def forward(self, tensors: Tensors, mask_BT: Tensor) -> tuple[Tensor, ...]:
        """Return ids, segments, mask of pieces, and places, all [B, L]."""
        ids_BL, segments_BL, inside_BL = self.read_windows(tensors)
        batch, length = ids_BL.shape
        places_BL = torch.arange(batch * length).view(batch, length)
        return ids_BL, segments_BL, inside_BL, places_BL


def mask_lengths(lengths_B: Tensor, time: int | torch.SymInt) -> Tensor:
    """Return the mask of real tokens, [B, T]."""
    return torch.arange(time) < lengths_B.unsqueeze(1)  # type: ignore[arg-type]  # may be symbolic
