"""Transformer encoder layers with random initial weights.

Shape letters: B batch, T tokens, D width, H heads, K width of a head.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, Block, Shape
from nlp_core.blocks.masking import Mask, Tokens, zero_padding
from nlp_core.blocks.option import (
    Activation,
    PositiveInt,
    Probability,
    build_activation,
    read_option,
)
from nlp_core.errors import ConfigError


class MultiHeadAttention(nn.Module):
    """Attend from each token to all real ones, in several heads at once.

    y_t = O [sum_s softmax_s(q_t . k_s / sqrt(K)) v_s for each head]. Keys have no bias: the softmax
    would ignore it. Outputs at padding are arbitrary.
    """

    def __init__(self, dim: int, num_heads: int, *, dropout: float) -> None:
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        self.num_heads = num_heads
        self.dropout = dropout
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Tokens:
        # an example without tokens attends to its first place: a softmax over nothing is NaN
        first_T = torch.arange(mask_BT.shape[1], device=mask_BT.device) == 0
        seen_BT = mask_BT | (first_T & ~mask_BT.any(1, keepdim=True))
        mixed_BHTK = functional.scaled_dot_product_attention(
            self._split(self.query(x_BTD)),
            self._split(self.key(x_BTD)),
            self._split(self.value(x_BTD)),
            attn_mask=seen_BT[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        y_BTD: Tensor = self.output(mixed_BHTK.transpose(1, 2).reshape(x_BTD.shape))
        return y_BTD

    def _split(self, x_BTD: Tensor) -> Tensor:
        batch, time, _ = x_BTD.shape
        return x_BTD.view(batch, time, self.num_heads, -1).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network, each with a residual and a layer normalisation.

    Outputs at padding are arbitrary. With `pre_norm` the input of each part is normalised, not the
    sum after it.
    """

    def __init__(
        self,
        dim: int,
        *,
        num_heads: int,
        ff_dim: int,
        dropout: float,
        activation: Activation,
        pre_norm: bool,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(dim, num_heads, dropout=dropout)
        self.attention_norm = nn.LayerNorm(dim)
        self.hidden = nn.Linear(dim, ff_dim)
        self.activation = build_activation(activation)
        self.output = nn.Linear(ff_dim, dim)
        self.output_norm = nn.LayerNorm(dim)
        self.dropout = dropout
        self.pre_norm = pre_norm

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Tokens:
        if self.pre_norm:
            x_BTD = x_BTD + self._drop(self.attention(self.attention_norm(x_BTD), mask_BT))
            return x_BTD + self._drop(self._feed(self.output_norm(x_BTD)))
        x_BTD = self.attention_norm(x_BTD + self._drop(self.attention(x_BTD, mask_BT)))
        y_BTD: Tensor = self.output_norm(x_BTD + self._drop(self._feed(x_BTD)))
        return y_BTD

    def _feed(self, x_BTD: Tensor) -> Tensor:
        y_BTD: Tensor = self.output(self._drop(self.activation(self.hidden(x_BTD))))
        return y_BTD

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


def sinusoidal_positions(time: int, dim: int, *, like: Tensor) -> Float[Tensor, "T D"]:
    """Return p with p_{t,2i} = sin(t / 10000^(2i/D)) and p_{t,2i+1} = cos(t / 10000^(2i/D)).

    It has the type and device of `like`. Source: Vaswani et al. 2017, section 3.5.
    """
    even = torch.arange(0, dim, 2, device=like.device, dtype=torch.float64)
    position = torch.arange(time, device=like.device, dtype=torch.float64)
    angle = position.unsqueeze(1) * 10000.0 ** (-even / dim)
    both = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    return both[:, :dim].to(like.dtype)


@BLOCKS.register("transformer")
class Transformer(Block):
    """Encode a sequence with transformer layers.

    Pre-norm layers are x = x + attention(norm(x)), x = x + feed_forward(norm(x)), with one more
    normalisation after the last; post-norm ones x = norm(x + attention(x)),
    x = norm(x + feed_forward(x)).

    Args:
        num_layers: number of stacked layers.
        num_heads: heads of the attention, a divisor of D.
        ff_dim: width of the feed-forward network's hidden layer.
        dropout: probability of a zero in the input, the attention weights, the hidden layers and
            the outputs of both parts.
        activation: the function of the hidden layer.
        norm: `pre` (needs no warm-up of the learning rate) or `post` (as first published).
        positions: `sinusoidal` ones are added to the input; with `none` tokens have no order.

    Shape: [B, T, D] to [B, T, D].

    Source: Vaswani et al. 2017 (Transformer), section 3; pre-norm: Xiong et al. 2020, figure 1.
    """

    def __init__(
        self,
        dim: int,
        *,
        num_layers: PositiveInt = 1,
        num_heads: PositiveInt = 4,
        ff_dim: PositiveInt = 512,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        norm: Literal["pre", "post"] = "pre",
        positions: Literal["none", "sinusoidal"] = "sinusoidal",
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(
                dim,
                num_heads=num_heads,
                ff_dim=ff_dim,
                dropout=dropout,
                activation=activation,
                pre_norm=norm == "pre",
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim) if norm == "pre" else None
        self.positions = positions
        self.dropout = dropout

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        num_heads = read_option(cls, options, "num_heads", int)
        if inputs[0].dim % num_heads:
            raise ConfigError(
                f"transformer: num_heads: found {num_heads} heads for an input of width "
                f"{inputs[0].dim}, expected a divisor of the width; change it, or the width by a "
                "linear layer before this one."
            )
        return inputs[0]

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Tokens:
        hidden = zero_padding(x_BTD, mask_BT)
        if self.positions == "sinusoidal":
            hidden = hidden + sinusoidal_positions(*hidden.shape[1:], like=hidden)
        hidden = functional.dropout(hidden, self.dropout, self.training)
        for layer in self.layers:
            hidden = layer(hidden, mask_BT)
        return zero_padding(hidden if self.norm is None else self.norm(hidden), mask_BT)
