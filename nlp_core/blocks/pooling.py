"""Blocks that reduce a sequence to one vector.

Shape letters: B batch, T tokens, D width, P hops or kept tokens, E width of the output.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, VECTOR, Block, Shape
from nlp_core.blocks.masking import Mask, count_tokens, masked_softmax, pool_at, pool_max, pool_mean
from nlp_core.blocks.option import Pool, PositiveInt, read_option


@BLOCKS.register("pooling")
class Pooling(Block):
    """Reduce the real tokens of a sequence to one vector: maximum, mean, last or first.

    An example without tokens becomes zeros.

    Args:
        pool: `max` or `mean` over time, or the vector of the `last` or `first` token.

    Shape: [B, T, D] to [B, D].
    """

    output_rank = VECTOR

    def __init__(self, dim: int, *, pool: Pool = "max") -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B D"]:
        if self.pool == "max":
            return pool_max(x_BTD, mask_BT)
        if self.pool == "mean":
            return pool_mean(x_BTD, mask_BT)
        index_B = (count_tokens(mask_BT) - 1).clamp(min=0)
        return pool_at(x_BTD, index_B if self.pool == "last" else index_B * 0, mask_BT)


@BLOCKS.register("linear_attention")
class LinearAttention(Block):
    """Average real tokens by a learned query: y = sum_t softmax_t(w . x_t) x_t.

    Shape: [B, T, D] to [B, D].

    Source: Chen et al. 2017 (DrQA), question encoding, section 3.2.
    """

    output_rank = VECTOR

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, 1, bias=False)  # a bias would not change the softmax

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B D"]:
        weight_BT = masked_softmax(self.query(x_BTD).squeeze(-1), mask_BT)
        return torch.einsum("bt,btd->bd", weight_BT, x_BTD)


@BLOCKS.register("self_attention_pooling")
class SelfAttentionPooling(Block):
    """Average tokens with several weightings: y = [A_1 X; A_2 X; ...], A = softmax(V tanh(W X^T)).

    Each hop (a row of A) is a distribution over the real tokens.

    Args:
        attention_dim: rows of W.
        num_hops: rows of V.

    Shape: [B, T, D] to [B, num_hops * D].

    Source: Lin et al. 2017 (structured self-attentive sentence embedding), eq. 6 and 7.
    Note: their penalty on similar hops is a loss, not part of this block.
    """

    def __init__(
        self, dim: int, *, attention_dim: PositiveInt = 64, num_hops: PositiveInt = 1
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, attention_dim, bias=False)
        self.hops = nn.Linear(attention_dim, num_hops, bias=False)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(VECTOR, inputs[0].dim * read_option(cls, options, "num_hops", int))

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B E"]:
        scores_BPT = self.hops(torch.tanh(self.hidden(x_BTD))).transpose(1, 2)
        weight_BPT = masked_softmax(scores_BPT, mask_BT.unsqueeze(1))
        return torch.bmm(weight_BPT, x_BTD).flatten(1)


@BLOCKS.register("kmax_pooling")
class KMaxPooling(Block):
    """Keep the k largest values of each dimension over the real tokens, in order of time.

    y = [first kept value of each dimension; second; ...], filled up with zeros if there are fewer
    tokens. Of equal values the earlier ones are kept.

    Args:
        k: number of kept values.

    Shape: [B, T, D] to [B, k * D].

    Source: Kalchbrenner et al. 2014 (dynamic convolutional network), section 3.2.
    """

    def __init__(self, dim: int, *, k: PositiveInt) -> None:
        super().__init__()
        self.k = k

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return Shape(VECTOR, inputs[0].dim * read_option(cls, options, "k", int))

    def forward(self, x_BTD: Float[Tensor, "B T D"], mask_BT: Mask) -> Float[Tensor, "B E"]:
        missing = max(self.k - x_BTD.shape[1], 0)
        x_BTD = functional.pad(x_BTD, (0, 0, 0, missing))
        mask_BT1 = functional.pad(mask_BT, (0, missing)).unsqueeze(-1)
        ranked_BTD = x_BTD.masked_fill(~mask_BT1, -torch.inf)
        order_BTD = ranked_BTD.sort(dim=1, descending=True, stable=True).indices
        kept_BPD = order_BTD[:, : self.k].sort(1).values
        return x_BTD.masked_fill(~mask_BT1, 0.0).gather(1, kept_BPD).flatten(1)
