"""Vectors of the types that a gazetteer gives to phrases.

Shape letters: B batch, T tokens, G types, D width.
"""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, WORDS, Block, Shape
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option
from nlp_core.config.reader import PATH_PART
from nlp_core.data.gazetteer import GazetteerVocabulary

ProjectPath = Annotated[str, Field(pattern=rf"^{PATH_PART}(/{PATH_PART})*$")]


@BLOCKS.register("gazetteer_embedding")
class GazetteerEmbedding(Block):
    """Sum the vectors of the types of the phrase around a token: y_t = sum_k w_tk E_k.

    w_tk is the weight of type k of the phrase that the token stands in, 0 outside phrases. Phrases
    are looked for from the left, the longest one first, and none overlaps another. The phrases are
    stored with the vocabulary; the file is read when a model is trained, and no more.

    Args:
        num_types: number of types G.
        dim: width D, at least 1.
        file: the gazetteer, lines `phrase TAB type [TAB weight]`; its path from the project's root.
        lowercase: whether case does not count.
        dropout: probability of a zero in the vectors, in [0, 1).

    Shape: weights [B, T, G], mask [B, T] to [B, T, D].

    Source: Aly et al. 2018 (PyText), section 4.1, dictionary features.
    Note: a phrase is known at its first token already, so the block is none for a language model.
    """

    ranks = ((WORDS,),)
    vocabulary = GazetteerVocabulary
    files = ("file",)

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

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of width `dim`."""
        return Shape(SEQUENCE, read_option(cls, options, "dim", int))

    def forward(
        self, weights_BTG: Float[Tensor, "B T G"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the summed vectors, zeros outside phrases and at padding."""
        x_BTD = functional.dropout(weights_BTG @ self.weight, self.dropout, self.training)
        return zero_padding(x_BTD, mask_BT)
