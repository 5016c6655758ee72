"""Vectors of words from their characters, once for each distinct word of a batch.

Shape letters: B batch, T tokens, U distinct words of a batch, C characters in a word, K width of a
character, D width of a word.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, CHARACTERS, SEQUENCE, Block
from nlp_core.blocks.convolution import SameConvolution
from nlp_core.blocks.masking import pool_max, zero_padding
from nlp_core.blocks.option import Activation, PositiveInt, Probability, build_activation
from nlp_core.blocks.recurrent import RecurrentLayer


class CharacterTable(nn.Embedding):
    """A learned vector for each character; character 0 is padding and stays zero.

    The numbers start uniform in +-sqrt(3 / K), which gives them a variance of 1 / K.

    """

    def __init__(self, num_characters: int, dim: int) -> None:
        super().__init__(num_characters, dim, padding_idx=0)

    def reset_parameters(self) -> None:
        bound = (3.0 / self.embedding_dim) ** 0.5
        nn.init.uniform_(self.weight, -bound, bound)
        with torch.no_grad():
            self.weight[0] = 0.0


def place_words(
    word_UD: Float[Tensor, "U D"], index_BT: Int[Tensor, "B T"], mask_BT: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T D"]:
    """Return the vector of each token's word, zeros at padding."""
    rows = index_BT.masked_fill(~mask_BT, 0).reshape(-1)
    return zero_padding(word_UD.index_select(0, rows).view(*index_BT.shape, -1), mask_BT)


@BLOCKS.register("char_cnn")
class CharCNN(Block):
    """Convolve a word's characters and keep the maximum of each filter.

    y = max_c activation(convolution(dropout(character vectors)))_c.

    Args:
        dim: width K of a character.
        filters: width of the output.
        window: characters that one output sees.
        activation: the function before the maximum.
        dropout: probability of a zero in the character vectors.

    Shape: ids [U, C], index [B, T] into the U words, mask [B, T] to [B, T, filters].

    Source: Ma and Hovy 2016 (BiLSTM-CNNs-CRF), section 2.1.
    """

    ranks = ((CHARACTERS,),)
    causal = True
    output_rank = SEQUENCE
    output_width = "filters"

    def __init__(
        self,
        num_characters: int,
        *,
        dim: PositiveInt = 30,
        filters: PositiveInt = 50,
        window: PositiveInt = 3,
        activation: Activation = "none",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.table = CharacterTable(num_characters, dim)
        self.convolution = SameConvolution(dim, filters, window)
        self.activation = build_activation(activation)
        self.dropout = dropout

    def forward(
        self,
        ids_UC: Int[Tensor, "U C"],
        index_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T D"]:
        mask_UC = ids_UC != 0
        x_UCK = functional.dropout(self.table(ids_UC), self.dropout, self.training)
        word_UD = pool_max(self.activation(self.convolution(x_UCK, mask_UC)), mask_UC)
        return place_words(word_UD, index_BT, mask_BT)


@BLOCKS.register("char_lstm")
class CharLSTM(Block):
    """Read a word's characters with an LSTM in both directions and keep the two last states.

    Args:
        dim: width K of a character.
        hidden_dim: width of one direction.
        dropout: probability of a zero in the character vectors.

    Shape: ids [U, C], index [B, T] into the U words, mask [B, T] to [B, T, 2 * hidden_dim].

    Source: Lample et al. 2016 (neural architectures for NER), section 4.1.
    """

    ranks = ((CHARACTERS,),)
    causal = True
    output_rank = SEQUENCE
    output_width = "hidden_dim"
    width_factor = 2

    def __init__(
        self,
        num_characters: int,
        *,
        dim: PositiveInt = 30,
        hidden_dim: PositiveInt = 25,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.table = CharacterTable(num_characters, dim)
        self.lstm = RecurrentLayer("lstm", partial(nn.LSTM, dim, hidden_dim), bidirectional=True)
        self.dropout = dropout

    def forward(
        self,
        ids_UC: Int[Tensor, "U C"],
        index_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T D"]:
        x_UCK = functional.dropout(self.table(ids_UC), self.dropout, self.training)
        return place_words(self.lstm.last_states(x_UCK, ids_UC != 0), index_BT, mask_BT)
