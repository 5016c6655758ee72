"""Texts of several sentences: the earlier turns of a dialogue, the sentences of a document.

Shape letters: B batch, T tokens of all turns or sentences, N turns or sentences, M sentences of a
batch, S tokens of the longest one, D width of a word, H width of the state, E of a sentence,
V words.
"""

from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, TOKEN_NUMBERS, VECTOR, WORDS, Block, Shape
from nlp_core.blocks.convolution import Conv
from nlp_core.blocks.embedding import draw_vectors
from nlp_core.blocks.masking import Mask, OtherMask, pool_max, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option
from nlp_core.blocks.recurrent import BiLSTM, RecurrentLayer
from nlp_core.data.sentence_size import SizeVocabulary
from nlp_core.data.vocabulary import PADDING, UNKNOWN, Vocabulary, WordVocabulary
from reglue_runtime.text import SPECIAL, TURN


@BLOCKS.register("history_encoder")
class HistoryEncoder(Block):
    """Encode each earlier turn by attention over its words, and all of them by an LSTM.

    s_n = sum over t of softmax_t(w . e_t) e_t, over the words of turn n, each with the vector e_t;
    y is the last state of an LSTM over s_1 ... s_N. Turns end with a token of their own, so the
    first turn of a dialogue has a history of one empty turn.

    Args:
        dim: width D of a word's vector.
        hidden_dim: width H of the LSTM.
        min_count: rarer words of the training split are unknown.
        unknown_prob: probability that training takes a word for unknown.
        dropout: probability of a zero in the vectors of words.

    Shape: ids [B, T], mask [B, T] to [B, H].

    Source: Aly et al. 2018 (PyText), the contextual model of intents and slots.
    Note: no layer reads the words of two turns, and word vectors are not pretrained.
    """

    ranks = ((WORDS,),)
    output_rank = VECTOR
    output_width = "hidden_dim"

    def __init__(
        self,
        num_words: int,
        *,
        dim: PositiveInt = 50,
        hidden_dim: PositiveInt = 50,
        min_count: PositiveInt = 1,
        unknown_prob: Probability = 0.05,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw_vectors(torch.empty(num_words, dim)))
        self.score = nn.Linear(dim, 1, bias=False)
        self.lstm = RecurrentLayer("lstm", lambda: nn.LSTM(dim, hidden_dim), bidirectional=False)
        self.unknown_prob = unknown_prob
        self.dropout = nn.Dropout(dropout)
        self.end = len(SPECIAL) + 1  # some word; `start` knows the vocabulary's id of TURN

    @classmethod
    def start(cls, vocabulary: Vocabulary, *dims: int, **options: Any) -> Block:  # Any: checked
        assert isinstance(vocabulary, WordVocabulary), type(vocabulary)
        block = cls(len(vocabulary), **options)
        block.end = vocabulary.ids.get(TURN, UNKNOWN)
        return block

    def forward(self, ids_BT: Int[Tensor, "B T"], mask_BT: Mask) -> Float[Tensor, "B H"]:
        is_end_BT = (ids_BT == self.end) & mask_BT
        if self.training and self.unknown_prob > 0:
            hidden_BT = torch.rand(ids_BT.shape, device=ids_BT.device) < self.unknown_prob
            hidden_BT = hidden_BT & ~is_end_BT & (ids_BT != PADDING)
            ids_BT = ids_BT.masked_fill(hidden_BT, UNKNOWN)
        x_BTD = self.dropout(zero_padding(functional.embedding(ids_BT, self.weight), mask_BT))
        # turn n has the tokens after n ends; there are at most as many turns as tokens
        turn_BT = is_end_BT.long().cumsum(1) - is_end_BT.long()
        place_T = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        inside_BNT = (turn_BT.unsqueeze(1) == place_T.view(1, -1, 1)) & mask_BT.unsqueeze(1)
        score_B1T = self.score(x_BTD).transpose(1, 2)
        lowest = torch.finfo(score_B1T.dtype).min
        share_BNT = score_B1T.masked_fill(~inside_BNT, lowest).softmax(-1)
        turns_BND = torch.bmm(share_BNT.masked_fill(~inside_BNT, 0.0), x_BTD)
        real_BN = inside_BNT.any(2)
        states_BNH = self.lstm(turns_BND, real_BN)
        last_BN1 = (place_T == real_BN.sum(1, keepdim=True) - 1).unsqueeze(-1)
        last_BH: Tensor = states_BNH.masked_fill(~last_BN1, 0.0).sum(1)
        return last_BH


@BLOCKS.register("sentence_encoder")
class SentenceEncoder(Block):
    """Encode each sentence of a document by itself: the maximum over its words' states.

    s_n = max over t of net(x)_t, over the words of sentence n, where `net` reads only these words.

    Args:
        net: a BiLSTM, or a convolution with ReLU.
        hidden_dim: width H of one direction of the BiLSTM, or the filters of the convolution.
        window: words that the convolution sees.

    Shape: sizes of sentences [B, N, 1], mask [B, N], words [B, T, D], mask [B, T] to [B, N, E];
        E = 2H for the BiLSTM, H for the convolution.

    Source: Aly et al. 2018 (PyText), SeqNN: a representation of each sentence, then one over them.
    """

    ranks = ((TOKEN_NUMBERS,), (SEQUENCE,))
    output_rank = SEQUENCE
    vocabulary = SizeVocabulary

    def __init__(
        self,
        num: int,
        dim: int,
        *,
        net: Literal["bilstm", "conv"] = "bilstm",
        hidden_dim: PositiveInt = 50,
        window: PositiveInt = 3,
    ) -> None:
        super().__init__()
        self.net: Block = (
            BiLSTM(dim, hidden_dim=hidden_dim)
            if net == "bilstm"
            else Conv(dim, filters=hidden_dim, window=window)
        )

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        directions = 2 if read_option(cls, options, "net", str) == "bilstm" else 1
        return Shape(SEQUENCE, directions * read_option(cls, options, "hidden_dim", int))

    def forward(
        self,
        sizes_BN1: Float[Tensor, "B N 1"],
        mask_BN: OtherMask,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Mask,
    ) -> Float[Tensor, "B N E"]:
        size_BN = sizes_BN1.squeeze(-1).round().long().clamp(min=0).masked_fill(~mask_BN, 0)
        start_BN = size_BN.cumsum(1) - size_BN
        time = x_BTD.shape[1]
        longest = size_BN.max().clamp(min=1).item()  # not int(), which no graph can express
        step_S = torch.arange(longest, device=x_BTD.device)
        place_BNS = start_BN.unsqueeze(-1) + step_S
        inside_BNS = (step_S < size_BN.unsqueeze(-1)) & (place_BNS < mask_BT.sum(1).view(-1, 1, 1))
        row_B11 = torch.arange(x_BTD.shape[0], device=x_BTD.device).view(-1, 1, 1)
        x_BNSD = x_BTD[row_B11, place_BNS.clamp(max=time - 1)]
        mask_MS = inside_BNS.flatten(0, 1)
        best_ME = pool_max(self.net(x_BNSD.flatten(0, 1), mask_MS), mask_MS)
        return zero_padding(best_ME.view(*size_BN.shape, -1), mask_BN)
