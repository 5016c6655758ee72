"""Embeddings of symbols that annotate words, such as parts of speech.

Shape letters: B batch, T tokens, D width, V symbols.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, WORDS, Block
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.data.vocabulary import PADDING, UNKNOWN


@BLOCKS.register("category_embedding")
class CategoryEmbedding(Block):
    """Look up a vector for each token's symbol: y_t = W[id_t].

    It reads a column of one symbol for each token, such as `features.pos`. Symbols that are not in
    the training split share the row of the unknown symbol. That row is 0 and is only trained by
    symbols below `min_count` or hidden by `unknown_prob`.

    Args:
        dim: width D.
        min_count: rarer symbols of the training split are unknown.
        unknown_prob: probability that training takes a symbol for unknown.
        dropout: probability of a zero in the vectors.

    Shape: ids [B, T], mask [B, T] to [B, T, D].

    Source: Collobert et al. 2011 (natural language processing almost from scratch), section 3.2.3.
    Note: the rows start uniform in +-sqrt(3 / D), which gives them a variance of 1 / D.
    """

    ranks = ((WORDS,),)
    causal = True
    output_rank = SEQUENCE
    output_width = "dim"

    def __init__(
        self,
        num_symbols: int,
        *,
        dim: PositiveInt,
        min_count: PositiveInt = 1,
        unknown_prob: Probability = 0.0,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        bound = (3.0 / dim) ** 0.5
        weight = torch.empty(num_symbols, dim).uniform_(-bound, bound)
        weight[: UNKNOWN + 1] = 0.0
        self.weight = nn.Parameter(weight)
        self.unknown_prob = unknown_prob
        self.dropout = dropout

    def forward(
        self, ids_BT: Int[Tensor, "B T"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of the symbols, zeros at padding."""
        if self.training and self.unknown_prob > 0:
            hide_BT = torch.rand(ids_BT.shape, device=ids_BT.device) < self.unknown_prob
            ids_BT = ids_BT.masked_fill(hide_BT, UNKNOWN)
        x_BTD = functional.embedding(ids_BT, self.weight, padding_idx=PADDING)
        x_BTD = functional.dropout(x_BTD, self.dropout, self.training)
        return zero_padding(x_BTD, mask_BT)
