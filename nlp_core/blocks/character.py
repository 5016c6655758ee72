"""Vectors of words from their characters or pieces, once for each distinct word of a batch.

Shape letters: B batch, T tokens, U distinct words of a batch, C characters or pieces in a word,
K width of a character, D width of a word.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, CHARACTERS, SEQUENCE, Block
from nlp_core.blocks.convolution import SameConvolution
from nlp_core.blocks.embedding import draw_vectors
from nlp_core.blocks.masking import Mask, Tokens, pool_max, pool_mean, zero_padding
from nlp_core.blocks.option import Activation, PositiveInt, Probability, build_activation
from nlp_core.blocks.recurrent import RecurrentLayer
from nlp_core.data.vocabulary import MIN_COUNT, NUM_PIECES, SubwordVocabulary


class CharacterTable(nn.Embedding):
    """A learned vector for each character; character 0 is padding and stays zero."""

    def __init__(self, num_characters: int, dim: int) -> None:
        super().__init__(num_characters, dim, padding_idx=0)

    def reset_parameters(self) -> None:
        with torch.no_grad():
            draw_vectors(self.weight)
            self.weight[0] = 0.0


class WordComposer(Block):
    """Compose each word of its characters and look up the word of each token.

    Args:
        dim: width K of a character.
        dropout: probability of a zero in the vectors of the characters.
    """

    ranks = ((CHARACTERS,),)
    causal = True
    output_rank = SEQUENCE

    def __init__(
        self, num_characters: int, *, dim: PositiveInt = 30, dropout: Probability = 0.0
    ) -> None:
        super().__init__()
        self.table = CharacterTable(num_characters, dim)
        self.dropout = dropout

    compose: Callable[[Tensor, Tensor], Tensor]
    """Return words [U, D] of characters [U, C, K] and their mask [U, C]."""

    def forward(
        self, ids_UC: Int[Tensor, "U C"], index_BT: Int[Tensor, "B T"], mask_BT: Mask
    ) -> Tokens:
        x_UCK = functional.dropout(self.table(ids_UC), self.dropout, self.training)
        word_UD = self.compose(x_UCK, ids_UC != 0)
        rows = index_BT.masked_fill(~mask_BT, 0).reshape(-1)
        return zero_padding(word_UD.index_select(0, rows).view(*index_BT.shape, -1), mask_BT)


@BLOCKS.register("char_cnn")
class CharCNN(WordComposer):
    """Convolve a word's characters and keep the maximum of each filter.

    y = max_c activation(convolution(dropout(character vectors)))_c.

    Args:
        filters: width of the output.
        window: characters that one output sees.
        activation: the function before the maximum.

    Shape: ids [U, C], index [B, T] into the U words, mask [B, T] to [B, T, filters].

    Source: Ma and Hovy 2016 (BiLSTM-CNNs-CRF), section 2.1.
    """

    output_width = "filters"

    def __init__(
        self,
        num_characters: int,
        *,
        dim: PositiveInt = 30,
        filters: PositiveInt = 50,
        window: PositiveInt = 3,
        activation: Activation = "none",
        **options: Any,
    ) -> None:
        super().__init__(num_characters, dim=dim, **options)
        self.convolution = SameConvolution(dim, filters, window)
        self.activation = build_activation(activation)

    def compose(self, x_UCK: Tensor, mask_UC: Tensor) -> Tensor:
        return pool_max(self.activation(self.convolution(x_UCK, mask_UC)), mask_UC)


@BLOCKS.register("char_lstm")
class CharLSTM(WordComposer):
    """Read a word's characters with an LSTM in both directions and keep the two last states.

    Args:
        hidden_dim: width of one direction.

    Shape: ids [U, C], index [B, T] into the U words, mask [B, T] to [B, T, 2 * hidden_dim].

    Source: Lample et al. 2016 (neural architectures for NER), section 4.1.
    """

    output_width = "hidden_dim"
    width_factor = 2

    def __init__(
        self,
        num_characters: int,
        *,
        dim: PositiveInt = 30,
        hidden_dim: PositiveInt = 25,
        **options: Any,
    ) -> None:
        super().__init__(num_characters, dim=dim, **options)
        self.lstm = RecurrentLayer("lstm", partial(nn.LSTM, dim, hidden_dim), bidirectional=True)

    def compose(self, x_UCK: Tensor, mask_UC: Tensor) -> Tensor:
        return self.lstm.last_states(x_UCK, mask_UC)


@BLOCKS.register("subword_embedding")
class SubwordEmbedding(WordComposer):
    """Cut each word into pieces and pool their vectors: y = mean_p E[id_p], or the sum or maximum.

    The pieces come from a byte-pair encoding of the words of the training split, so a new word is
    read as known pieces. A new character is the unknown piece, whose vector is not trained.

    Args:
        dim: width D.
        num_pieces: the maximum number of pieces, single characters included.
        min_count: pairs of adjacent pieces that are rarer are not merged.
        lowercase: fold case before words are split.
        pool: how the vectors of a word's pieces become one.

    Shape: ids [U, C], index [B, T] into the U words, mask [B, T] to [B, T, D].

    Source: Sennrich et al. 2016 (subword units), section 3.2, for the pieces.
    Note: no piece crosses a word; a piece at the start of a word differs from the same one inside.
    """

    vocabulary = SubwordVocabulary
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
        **options: Any,
    ) -> None:
        super().__init__(num_ids, dim=dim, **options)
        self.pool = pool

    def compose(self, x_UCK: Tensor, mask_UC: Tensor) -> Tensor:
        if self.pool == "sum":
            return zero_padding(x_UCK, mask_UC).sum(1)
        return pool_max(x_UCK, mask_UC) if self.pool == "max" else pool_mean(x_UCK, mask_UC)
