"""Attention of one sequence to another (or to itself, given twice).

Shape letters: B batch, T tokens of the first sequence, S tokens of the second, D width.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block, Shape, require_equal
from nlp_core.blocks.masking import masked_softmax, zero_padding
from nlp_core.blocks.option import Activation, build_activation


def attend(
    scores_BTS: Float[Tensor, "B T S"],
    y_BSD: Float[Tensor, "B S D"],
    mask_BT: Bool[Tensor, "B T"],
    mask_BS: Bool[Tensor, "B S"],
) -> Float[Tensor, "B T D"]:
    """Return for each real token the mean of `y`'s real tokens, weighed by softmax(scores)."""
    weight_BTS = masked_softmax(scores_BTS, mask_BS.unsqueeze(1))
    return zero_padding(torch.bmm(weight_BTS, zero_padding(y_BSD, mask_BS)), mask_BT)


@BLOCKS.register("cross_attention")
class CrossAttention(Block):
    """Say each token of X in words of Y: softmax(X Y^T) Y, with no parameters.

    Self attention is the same sequence given twice.

    Args:
        dim: width of X.
        other_dim: width of Y, equal to that of X.
        scaled: divide the scores by sqrt(D) before the softmax.

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, D].

    Source: Parikh et al. 2016 (decomposable attention), eq. 2; scaled as in
        Vaswani et al. 2017, eq. 1.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,))

    def __init__(self, dim: int, other_dim: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.scale = float(dim) ** -0.5 if scaled else 1.0

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the first input's shape; the widths must be equal."""
        require_equal("cross_attention", inputs[0].dim, inputs[1].dim)
        return inputs[0]

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        y_BSD: Float[Tensor, "B S D"],
        mask_BS: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B T D"]:
        """Return what each token of X sees in Y."""
        scores_BTS = torch.bmm(x_BTD, y_BSD.transpose(1, 2)) * self.scale
        return attend(scores_BTS, y_BSD, mask_BT, mask_BS)


@BLOCKS.register("match_attention")
class MatchAttention(Block):
    """Align X with Y through one shared map: softmax(f(X) f(Y)^T) Y, f(x) = activation(W x + b).

    Args:
        dim: width of X.
        other_dim: width of Y, equal to that of X.
        activation: the function after the map.

    Shape: X [B, T, D] and Y [B, S, D] to [B, T, D].

    Source: Chen et al. 2017 (DrQA), aligned question embedding, section 3.2.
    """

    ranks = ((SEQUENCE,), (SEQUENCE,))

    def __init__(self, dim: int, other_dim: int, *, activation: Activation = "relu") -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.activation = build_activation(activation)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the first input's shape; the widths must be equal."""
        require_equal("match_attention", inputs[0].dim, inputs[1].dim)
        return inputs[0]

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        y_BSD: Float[Tensor, "B S D"],
        mask_BS: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B T D"]:
        """Return what each token of X sees in Y."""
        query_BTD: Tensor = self.activation(self.linear(x_BTD))
        key_BSD: Tensor = self.activation(self.linear(y_BSD))
        return attend(torch.bmm(query_BTD, key_BSD.transpose(1, 2)), y_BSD, mask_BT, mask_BS)
