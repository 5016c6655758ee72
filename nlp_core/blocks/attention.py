"""Attention of one sequence to another, of each to the other, or of a sequence to itself.

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D and E widths,
K width in which they are compared, H width of a history, A width of a hidden layer.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, VECTOR, Block, Shape, require_equal
from nlp_core.blocks.masking import (
    Mask,
    OtherMask,
    OtherTokens,
    Tokens,
    masked_softmax,
    zero_padding,
)
from nlp_core.blocks.option import Activation, PositiveInt, Probability, build_activation
from nlp_core.blocks.recurrent import BiLSTM


def attend(
    scores_BTS: Float[Tensor, "B T S"], y_BSD: OtherTokens, mask_BT: Mask, mask_BS: OtherMask
) -> Tokens:
    """Return for each real token the mean of `y`'s real tokens, weighted by softmax(scores)."""
    weight_BTS = masked_softmax(scores_BTS, mask_BS.unsqueeze(1))
    return zero_padding(torch.bmm(weight_BTS, zero_padding(y_BSD, mask_BS)), mask_BT)


def multiply_rows(x_BTD: Tensor, y_BSD: Tensor) -> Tensor:
    """Return x_t . y_s for each pair of tokens, [B, T, S]."""
    return torch.bmm(x_BTD, y_BSD.transpose(1, 2))


class PairAttention(Block):
    """Represent each token of X by a weighted sum over Y; both have one width."""

    ranks = ((SEQUENCE,), (SEQUENCE,))
    equal_widths = True

    score: Callable[[Tensor, Tensor], Tensor]
    """Return [B, T, S] of X [B, T, D] and Y [B, S, D]."""

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, y_BSD: OtherTokens, mask_BS: OtherMask
    ) -> Float[Tensor, "B T E"]:
        return attend(self.score(x_BTD, y_BSD), y_BSD, mask_BT, mask_BS)


@BLOCKS.register("cross_attention")
class CrossAttention(PairAttention):
    """Represent each token of X by a weighted sum over Y: softmax(X Y^T) Y, without parameters.

    Self attention is the same sequence given twice.

    Args:
        scaled: divide the scores by sqrt(D) before the softmax.

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, D].

    Source: Parikh et al. 2016 (decomposable attention), eq. 2; scaled as in
        Vaswani et al. 2017, eq. 1.
    """

    def __init__(self, dim: int, other_dim: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.scale = float(dim) ** -0.5 if scaled else 1.0

    def score(self, x_BTD: Tensor, y_BSD: Tensor) -> Tensor:
        return multiply_rows(x_BTD, y_BSD) * self.scale


@BLOCKS.register("match_attention")
class MatchAttention(PairAttention):
    """Align X with Y through one shared map: softmax(f(X) f(Y)^T) Y, f(x) = activation(W x + b).

    Args:
        activation: the function after the map.

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, D].

    Source: Chen et al. 2017 (DrQA), aligned question embedding, section 3.2.
    """

    def __init__(self, dim: int, other_dim: int, *, activation: Activation = "relu") -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.activation = build_activation(activation)

    def score(self, x_BTD: Tensor, y_BSD: Tensor) -> Tensor:
        query_BTD: Tensor = self.activation(self.linear(x_BTD))
        return multiply_rows(query_BTD, self.activation(self.linear(y_BSD)))


@BLOCKS.register("full_attention")
class FullAttention(Block):
    """Represent each token of X by a weighted sum over Y, comparing the histories of both.

    score_ts = f(U p_t) . (d * f(U q_s)) with the histories p of X's tokens and q of Y's (such as
    the concatenated vectors of all lower layers); y_t = sum_s softmax_s(score_ts) y_s. Of X itself
    only the mask is read.

    Args:
        hidden_dim: width K in which histories are compared.
        activation: f.

    Shape: X [B, T, D], Y [B, S, E], histories [B, T, H] and [B, S, H] to [B, T, E].

    Source: Huang et al. 2018 (FusionNet), section 2.3, symmetric form with nonlinearity.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,), (SEQUENCE,), (SEQUENCE,))

    def __init__(
        self,
        dim: int,
        other_dim: int,
        history_dim: int,
        other_history_dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(history_dim, hidden_dim, bias=False)
        self.activation = build_activation(activation)
        self.diagonal = nn.Parameter(torch.ones(hidden_dim))

    @classmethod
    def list_aligned(cls, count: int, options: Mapping[str, object]) -> list[tuple[int, ...]]:
        return [(0, 2), (1, 3)]

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        require_equal("full_attention: histories", inputs[2].dim, inputs[3].dim)
        return inputs[1]

    def forward(
        self,
        x_BTD: Tokens,
        mask_BT: Mask,
        y_BSE: Float[Tensor, "B S E"],
        mask_BS: OtherMask,
        history_BTH: Float[Tensor, "B T H"],
        mask_history_BT: Mask,
        other_BSH: Float[Tensor, "B S H"],
        mask_other_BS: OtherMask,
    ) -> Float[Tensor, "B T E"]:
        query_BTK: Tensor = self.activation(self.linear(history_BTH))
        key_BSK: Tensor = self.activation(self.linear(other_BSH)) * self.diagonal
        return attend(multiply_rows(query_BTK, key_BSK), y_BSE, mask_BT, mask_BS)


@BLOCKS.register("bilinear_attention")
class BilinearAttention(Block):
    """Score each token of X against one vector: score_t = x_t . (W y + b).

    Without a softmax: a head takes the scores as those of the start or end of a span.

    Shape: X [B, T, D] and y [B, E] to [B, T, 1], zeros at padding.

    Source: Chen et al. 2017 (DrQA), prediction, section 3.2.
    """

    ranks = ((SEQUENCE,), (VECTOR,))

    def __init__(self, dim: int, other_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(other_dim, dim)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(SEQUENCE, 1)

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, y_BE: Float[Tensor, "B E"], mask_y: None
    ) -> Float[Tensor, "B T 1"]:
        return zero_padding(torch.bmm(x_BTD, self.linear(y_BE).unsqueeze(-1)), mask_BT)


class TrilinearScore(nn.Module):
    """Compare each token of X with each of Y: score_ts = w . [x_t; y_s; x_t * y_s]."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        # no bias: a softmax over the scores would ignore it
        self.first = nn.Linear(dim, 1, bias=False)
        self.second = nn.Linear(dim, 1, bias=False)
        self.product = nn.Parameter(torch.empty(dim))
        bound = (3 * dim) ** -0.5  # that of one linear map of width 3D
        for weight in (self.first.weight, self.second.weight, self.product):
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x_BTD: Tokens, y_BSD: OtherTokens) -> Float[Tensor, "B T S"]:
        # in three terms: the tensor of all pairs would be D times as large
        product_BTS = multiply_rows(x_BTD * self.product, y_BSD)
        scores: Tensor = product_BTS + self.first(x_BTD) + self.second(y_BSD).transpose(1, 2)
        return scores


def softmax_of_best(
    scores_BTS: Float[Tensor, "B T S"], mask_BT: Mask, mask_BS: OtherMask
) -> Float[Tensor, "B T"]:
    """Return softmax_t(max_s score_ts) over real tokens; equal weights if Y has none."""
    lowest = torch.finfo(scores_BTS.dtype).min
    best_BT = scores_BTS.masked_fill(~mask_BS.unsqueeze(1), lowest).amax(-1)
    best_BT = best_BT.masked_fill(~mask_BS.any(1, keepdim=True), 0.0)
    return masked_softmax(best_BT, mask_BT)


class AttentionFlow(PairAttention):
    """Let X and Y attend to each other.

    Args:
        dropout: probability of a zero in the weights over Y.
    """

    def __init__(self, dim: int, other_dim: int, *, dropout: Probability = 0.0) -> None:
        super().__init__()
        self.score = TrilinearScore(dim)
        self.dropout = dropout

    join: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Return the output for X, the attention of its tokens to Y and the weights [B, T] of X."""

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, y_BSD: OtherTokens, mask_BS: OtherMask
    ) -> Float[Tensor, "B T E"]:
        scores_BTS = self.score(x_BTD, y_BSD)
        weight_BTS = masked_softmax(scores_BTS, mask_BS.unsqueeze(1))
        seen_BTD = torch.bmm(functional.dropout(weight_BTS, self.dropout, self.training), y_BSD)
        best_BT = softmax_of_best(scores_BTS, mask_BT, mask_BS)
        return zero_padding(self.join(x_BTD, seen_BTD, best_BT), mask_BT)


@BLOCKS.register("bidaf")
class BiDAF(AttentionFlow):
    """Let X and Y attend to each other: z_t = [x_t; a_t; x_t * a_t; x_t * b].

    X is the passage, Y the question. a_t = sum_s softmax_s(score_ts) y_s is the attention of x_t
    to Y and b = sum_t softmax_t(max_s score_ts) x_t that of Y to X, with
    score_ts = w . [x_t; y_s; x_t * y_s].

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, 4D].

    Source: Seo et al. 2017 (bidirectional attention flow), section 2, attention flow layer.
    """

    width_factor = 4

    def join(self, x_BTD: Tensor, seen_BTD: Tensor, best_BT: Tensor) -> Tensor:
        best_B1D = torch.bmm(best_BT.unsqueeze(1), x_BTD)
        return torch.cat([x_BTD, seen_BTD, x_BTD * seen_BTD, x_BTD * best_B1D], -1)


@BLOCKS.register("seq2seq_attention")
class Seq2SeqAttention(AttentionFlow):
    """Concatenate tokens of X, weighted by Y, and their attention to Y: z_t = [b_t x_t; a_t].

    a_t = sum_s softmax_s(score_ts) y_s and b_t = softmax_t(max_s score_ts), with
    score_ts = w . [x_t; y_s; x_t * y_s].

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, 2D].

    Source: NeuronBlocks, Seq2SeqAttention.
    Note: padding has no weight, and dropout zeroes weights, not the scores before the softmax.
    """

    width_factor = 2

    def join(self, x_BTD: Tensor, seen_BTD: Tensor, best_BT: Tensor) -> Tensor:
        return torch.cat([best_BT.unsqueeze(-1) * x_BTD, seen_BTD], -1)


class DotScore(nn.Module):
    """Compare tokens by score_ts = x_t . x_s."""

    def forward(self, x_BTD: Tokens) -> Float[Tensor, "B T T"]:
        return multiply_rows(x_BTD, x_BTD)


class BilinearScore(nn.Module):
    """Compare tokens by score_ts = x_t . W x_s."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim, bias=False)

    def forward(self, x_BTD: Tokens) -> Float[Tensor, "B T T"]:
        return multiply_rows(x_BTD, self.linear(x_BTD))


class AdditiveScore(nn.Module):
    """Compare tokens by score_ts = v . tanh(W x_t + U x_s)."""

    def __init__(self, dim: int, attention_dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, attention_dim, bias=False)
        self.key = nn.Linear(dim, attention_dim, bias=False)
        self.score = nn.Linear(attention_dim, 1, bias=False)

    def forward(self, x_BTD: Tokens) -> Float[Tensor, "B T T"]:
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

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T E"]:
        hidden_BTE = self.bilstm(x_BTD, mask_BT)
        return attend(self.score(hidden_BTE), hidden_BTE, mask_BT, mask_BT)


@BLOCKS.register("slot_attention")
class SlotAttention(Block):
    """Add to each token its attention to the others: y_t = [x_t; sum_s softmax_s(score_ts) x_s].

    A tagger of slots then sees the whole utterance at each token.

    Args:
        score: `concat`: v . tanh(W x_t + U x_s), `multiply`: x_t . W x_s, `dot`: x_t . x_s.
        attention_dim: width A of the hidden layer of `concat`.

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

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T E"]:
        seen_BTD = attend(self.score(x_BTD), x_BTD, mask_BT, mask_BT)
        return torch.cat([zero_padding(x_BTD, mask_BT), seen_BTD], -1)
