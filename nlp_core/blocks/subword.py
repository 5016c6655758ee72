"""Vectors of words from the vectors of their pieces, once for each distinct word of a batch.

Shape letters: B batch, T tokens, U distinct words of a batch, P pieces in a word, D width.
"""

from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, CHARACTERS, SEQUENCE, Block
from nlp_core.blocks.character import CharacterTable, place_words
from nlp_core.blocks.masking import pool_max, pool_mean, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.data.subword import MIN_COUNT, NUM_PIECES, SubwordVocabulary


@BLOCKS.register("subword_embedding")
class SubwordEmbedding(Block):
    """Cut each word into pieces and pool their vectors: y = mean_p E[id_p], or the sum or maximum.

    The pieces come from a byte-pair encoding of the words of the training split, so a new word is
    read as known pieces. A new character is the unknown piece, whose vector is not trained.

    Args:
        dim: width D.
        num_pieces: the maximum number of pieces, single characters included.
        min_count: pairs of adjacent pieces that are rarer are not merged.
        lowercase: fold case before words are split.
        pool: how the vectors of a word's pieces become one.
        dropout: probability of a zero in the vectors of the pieces.

    Shape: ids [U, P], index [B, T] into the U words, mask [B, T] to [B, T, D].

    Source: Sennrich et al. 2016 (subword units), section 3.2, for the pieces.
    Note: no piece crosses a word; a piece at the start of a word differs from the same one inside.
    """

    ranks = ((CHARACTERS,),)
    causal = True
    vocabulary = SubwordVocabulary
    output_rank = SEQUENCE
    output_width = "dim"

    def __init__(
        self,
        num_ids: int,
        *,
        dim: PositiveInt,
        num_pieces: PositiveInt = NUM_PIECES,
        min_count: PositiveInt = MIN_COUNT,
        lowercase: bool = False,
        pool: Literal["mean", "sum", "max"] = "mean",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.table = CharacterTable(num_ids, dim)
        self.pool = pool
        self.dropout = dropout

    def forward(
        self,
        ids_UP: Int[Tensor, "U P"],
        index_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T D"]:
        mask_UP = ids_UP != 0
        x_UPD = functional.dropout(self.table(ids_UP), self.dropout, self.training)
        if self.pool == "max":
            word_UD = pool_max(x_UPD, mask_UP)
        elif self.pool == "mean":
            word_UD = pool_mean(x_UPD, mask_UP)
        else:
            word_UD = zero_padding(x_UPD, mask_UP).sum(1)
        return place_words(word_UD, index_BT, mask_BT)
