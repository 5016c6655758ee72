"""Attention in both directions between two sequences, by a score of three terms.

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D width, E width of
the output.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block
from nlp_core.blocks.masking import masked_softmax, zero_padding
from nlp_core.blocks.option import Probability


class TrilinearScore(nn.Module):
    """Compare each token of X with each of Y: score_ts = w . [x_t; y_s; x_t * y_s].

    There is no bias: a softmax over the scores would ignore it.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, 1, bias=False)
        self.second = nn.Linear(dim, 1, bias=False)
        self.product = nn.Parameter(torch.empty(dim))
        bound = (3 * dim) ** -0.5  # that of one linear map of width 3D
        for weight in (self.first.weight, self.second.weight, self.product):
            nn.init.uniform_(weight, -bound, bound)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], y_BSD: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B T S"]:
        # in three terms: the tensor of all pairs would be D times as large
        product_BTS = torch.bmm(x_BTD * self.product, y_BSD.transpose(1, 2))
        scores: Tensor = product_BTS + self.first(x_BTD) + self.second(y_BSD).transpose(1, 2)
        return scores


def softmax_of_best(
    scores_BTS: Float[Tensor, "B T S"],
    mask_BT: Bool[Tensor, "B T"],
    mask_BS: Bool[Tensor, "B S"],
) -> Float[Tensor, "B T"]:
    """Return softmax_t(max_s score_ts) over real tokens; equal weights if Y has none."""
    lowest = torch.finfo(scores_BTS.dtype).min
    best_BT = scores_BTS.masked_fill(~mask_BS.unsqueeze(1), lowest).amax(-1)
    best_BT = best_BT.masked_fill(~mask_BS.any(1, keepdim=True), 0.0)
    return masked_softmax(best_BT, mask_BT)


class AttentionFlow(Block):
    """Let X and Y attend to each other.

    Args:
        dropout: probability of a zero in the weights over Y.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,))
    equal_widths = True

    def __init__(self, dim: int, other_dim: int, *, dropout: Probability = 0.0) -> None:
        super().__init__()
        self.score = TrilinearScore(dim)
        self.dropout = dropout

    join: Callable[[Tensor, Tensor, Tensor], Tensor]
    """Return the output for X, the attention of its tokens to Y and the weights [B, T] of X."""

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        y_BSD: Float[Tensor, "B S D"],
        mask_BS: Bool[Tensor, "B S"],
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
