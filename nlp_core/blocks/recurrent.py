"""Bidirectional LSTM without packing, which would leave the fast path of a CPU.

Shape letters: B batch, T tokens, D width of the input, H width of one direction, E of both.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block, Shape
from nlp_core.blocks.masking import count_tokens, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option


class Directions(NamedTuple):
    """The states of both directions, each in its own reading order, with time as first axis.

    Attributes:
        forward: [T, B, H], first token first.
        backward: [T, B, H], last real token first.
    """

    forward: Tensor
    backward: Tensor


def reverse_index(mask_BT: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return for each position the one that it swaps with when real tokens are read backwards.

    Real tokens come first. Padded positions stay where they are, so reversing twice gives the
    sequence back.
    """
    position_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
    return torch.where(mask_BT, count_tokens(mask_BT).unsqueeze(1) - 1 - position_T, position_T)


class BidirectionalLayer(nn.Module):
    """One layer of two LSTMs, of which one reads each sequence from its own last token.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction.
    """

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(dim, hidden_dim)
        self.backward_lstm = nn.LSTM(dim, hidden_dim)

    def run(self, x_BTD: Float[Tensor, "B T D"], reverse_BT: Int[Tensor, "B T"]) -> Directions:
        """Return the states of both directions; those after a sequence's end mean nothing."""
        batch, time, dim = x_BTD.shape
        start_B = torch.arange(batch, device=x_BTD.device) * time
        rows = (reverse_BT.t() + start_B).reshape(-1)
        reversed_TBD = x_BTD.reshape(-1, dim).index_select(0, rows).view(time, batch, dim)
        return Directions(
            self.forward_lstm(x_BTD.transpose(0, 1))[0], self.backward_lstm(reversed_TBD)[0]
        )

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T E"]:
        """Return the states of both directions side by side at each token."""
        reverse_BT = reverse_index(mask_BT)
        states = self.run(x_BTD, reverse_BT)
        time, batch, width = states.backward.shape
        column_B1 = torch.arange(batch, device=x_BTD.device).unsqueeze(1)
        rows = (reverse_BT * batch + column_B1).reshape(-1)
        backward_BTH = states.backward.reshape(-1, width).index_select(0, rows)
        both = [states.forward.transpose(0, 1), backward_BTH.view(batch, time, width)]
        return zero_padding(torch.cat(both, -1), mask_BT)

    def last_states(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B E"]:
        """Return the state after reading all tokens forwards beside that after reading backwards.

        Zeros for a sequence without tokens.
        """
        states = self.run(x_BTD, reverse_index(mask_BT))
        column_B = torch.arange(len(mask_BT), device=x_BTD.device)
        last_B = (count_tokens(mask_BT) - 1).clamp(min=0)
        ends = [states.forward[last_B, column_B], states.backward[last_B, column_B]]
        return zero_padding(torch.cat(ends, -1), mask_BT.any(1))


@BLOCKS.register("bilstm")
class BiLSTM(Block):
    """Read a sequence in both directions: y_t = [forward LSTM at t; backward LSTM at t].

    The values are those of a packed bidirectional LSTM; each direction starts from zeros.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction, at least 1.
        num_layers: layers above each other, at least 1.
        dropout: probability of a zero between layers (not after the last), in [0, 1).

    Shape: [B, T, D] to [B, T, 2H].

    Source: Graves and Schmidhuber 2005 (bidirectional LSTM).
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        widths = [dim] + [2 * hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(BidirectionalLayer(width, hidden_dim) for width in widths)
        self.dropout = dropout

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of twice `hidden_dim`."""
        return Shape(SEQUENCE, 2 * read_option(cls, options, "hidden_dim", int))

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T E"]:
        """Return the last layer's states."""
        hidden = x_BTD
        for idx, layer in enumerate(self.layers):
            if idx:
                hidden = functional.dropout(hidden, self.dropout, self.training)
            hidden = layer(hidden, mask_BT)
        return hidden
