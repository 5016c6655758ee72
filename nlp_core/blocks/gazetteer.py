"""Vectors of the types that a gazetteer gives to phrases.

Shape letters: B batch, T tokens, G types, D width.
"""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, WORDS, Block
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.config.reader import PATH_PART
from nlp_core.data.gazetteer import Gazetteer

ProjectPath = Annotated[str, Field(pattern=rf"^{PATH_PART}(/{PATH_PART})*$")]


@BLOCKS.register("gazetteer_embedding")
class GazetteerEmbedding(Block):
    """Sum the vectors of the types of the phrase around a token: y_t = sum_k w_tk E_k.

    w_tk is the weight of type k of the phrase around the token, 0 outside phrases. Phrases are
    matched from the left, longest first, without overlaps. They are saved with the vocabulary; only
    training reads the file.

    Args:
        dim: width D.
        file: the gazetteer, lines `phrase TAB type [TAB weight]`; its path from the project's root.
        lowercase: ignore case.
        dropout: probability of a zero in the vectors.

    Shape: weights [B, T, G], mask [B, T] to [B, T, D].

    Source: Aly et al. 2018 (PyText), section 4.1, dictionary features.
    Note: the first token already reveals the phrase, so a language model cannot use this block.
    """

    ranks = ((WORDS,),)
    vocabulary = Gazetteer
    files = ("file",)
    output_rank = SEQUENCE
    output_width = "dim"

    def __init__(
        self,
        num_types: int,
        *,
        dim: PositiveInt,
        file: ProjectPath,
        lowercase: bool = False,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        bound = (3.0 / dim) ** 0.5
        self.weight = nn.Parameter(torch.empty(num_types, dim).uniform_(-bound, bound))
        self.dropout = dropout

    def forward(
        self, weights_BTG: Float[Tensor, "B T G"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the summed vectors, zeros outside phrases and at padding."""
        x_BTD = functional.dropout(weights_BTG @ self.weight, self.dropout, self.training)
        return zero_padding(x_BTD, mask_BT)
