"""Attention of a sequence to itself with learned scores.

Shape letters: B batch, T tokens, S the same tokens as those attended to, D width, A width of the
attention, E width of the output.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlp_core.blocks.attention import attend
from nlp_core.blocks.base import BLOCKS, Block
from nlp_core.blocks.masking import Mask, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.blocks.recurrent import BiLSTM


class DotScore(nn.Module):
    """Compare tokens by score_ts = x_t . x_s."""

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T T"]:
        return torch.bmm(x_BTD, x_BTD.transpose(1, 2))


class BilinearScore(nn.Module):
    """Compare tokens by score_ts = x_t . W x_s."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T T"]:
        return torch.bmm(x_BTD, self.linear(x_BTD).transpose(1, 2))


class AdditiveScore(nn.Module):
    """Compare tokens by score_ts = v . tanh(W x_t + U x_s)."""

    def __init__(self, dim: int, attention_dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, attention_dim, bias=False)
        self.key = nn.Linear(dim, attention_dim, bias=False)
        self.score = nn.Linear(attention_dim, 1, bias=False)

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T T"]:
        pairs_BTSA = torch.tanh(self.query(x_BTD).unsqueeze(2) + self.key(x_BTD).unsqueeze(1))
        scores_BTS: Tensor = self.score(pairs_BTSA).squeeze(-1)
        return scores_BTS


@BLOCKS.register("bilstm_attention")
class BiLSTMAttention(Block):
    """Read with a BiLSTM and mix its states: y_t = sum_s softmax_s(h_t . W h_s) h_s.

    Args:
        hidden_dim: width H of one direction.
        num_layers: layers of the BiLSTM.
        dropout: probability of a zero between layers (not after the last).

    Shape: [B, T, D] to [B, T, 2H].

    Source: NeuronBlocks, BiLSTMAtt.
    Note: W starts small and of both signs. Uniform in [0, 1), as in the source, one state gets all
        the weight.
    """

    output_width = "hidden_dim"
    width_factor = 2

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.bilstm = BiLSTM(dim, hidden_dim=hidden_dim, num_layers=num_layers, dropout=dropout)
        self.score = BilinearScore(2 * hidden_dim)

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B T E"]:
        hidden_BTE = self.bilstm(x_BTD, mask_BT)
        return attend(self.score(hidden_BTE), hidden_BTE, mask_BT, mask_BT)


@BLOCKS.register("slot_attention")
class SlotAttention(Block):
    """Add to each token its attention to the others: y_t = [x_t; sum_s softmax_s(score_ts) x_s].

    A tagger of slots then sees the whole utterance at each token.

    Args:
        score: `concat`: v . tanh(W x_t + U x_s), `multiply`: x_t . W x_s, `dot`: x_t . x_s.
        attention_dim: width of the hidden layer of `concat`.

    Shape: [B, T, D] to [B, T, 2D].

    Source: Luong et al. 2015 (attention-based translation), eq. 8, of a sequence to itself;
        PyText, SlotAttention.
    """

    width_factor = 2

    def __init__(
        self,
        dim: int,
        *,
        score: Literal["concat", "multiply", "dot"] = "concat",
        attention_dim: PositiveInt = 64,
    ) -> None:
        super().__init__()
        self.score: nn.Module
        if score == "concat":
            self.score = AdditiveScore(dim, attention_dim)
        else:
            self.score = BilinearScore(dim) if score == "multiply" else DotScore()

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B T E"]:
        seen_BTD = attend(self.score(x_BTD), x_BTD, mask_BT, mask_BT)
        return torch.cat([zero_padding(x_BTD, mask_BT), seen_BTD], -1)
