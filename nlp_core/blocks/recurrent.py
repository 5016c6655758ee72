"""Recurrent layers of one or two directions, without packing, which is slow on a CPU.

Shape letters: B batch, T tokens, D width of the input, H width of one direction, E of both.
"""

from collections.abc import Mapping
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


class RecurrentLayer(nn.Module):
    """One layer that reads sequences forwards and, if it has a second reader, backwards.

    A reader maps [T, B, D] to a pair whose first is its states [T, B, H], and looks only back in
    time. The backward one reads each sequence from its own last real token.
    """

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the forward and the backward reader; None for a layer of one direction."""
        raise NotImplementedError

    def run(self, x_BTD: Float[Tensor, "B T D"], reverse_BT: Int[Tensor, "B T"]) -> Directions:
        """Return the states of both directions; those after a sequence's end mean nothing."""
        forward, backward = self.readers()
        assert backward is not None, "a layer of one direction"
        batch, time, dim = x_BTD.shape
        start_B = torch.arange(batch, device=x_BTD.device) * time
        rows = (reverse_BT.t() + start_B).reshape(-1)
        reversed_TBD = x_BTD.reshape(-1, dim).index_select(0, rows).view(time, batch, dim)
        return Directions(_read(forward, x_BTD.transpose(0, 1)), _read(backward, reversed_TBD))

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T E"]:
        """Return the states of both directions side by side at each token."""
        forward, backward = self.readers()
        if backward is None:
            return zero_padding(_read(forward, x_BTD.transpose(0, 1)).transpose(0, 1), mask_BT)
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


def _read(reader: nn.Module, x_TBD: Float[Tensor, "T B D"]) -> Float[Tensor, "T B H"]:
    """Return a reader's states, of 32 bits on a CPU whatever autocast says.

    16 bits of an LSTM or a GRU need more there than the instructions that determinism pins.
    """
    if x_TBD.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            states_TBH: Tensor = reader(x_TBD.float())[0]
            return states_TBH
    states_TBH = reader(x_TBD)[0]
    return states_TBH


class BidirectionalLayer(RecurrentLayer):
    """One layer of two LSTMs.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction.
    """

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(dim, hidden_dim)
        self.backward_lstm = nn.LSTM(dim, hidden_dim)

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the two LSTMs."""
        return self.forward_lstm, self.backward_lstm


class ForwardLSTMLayer(RecurrentLayer):
    """One layer of one LSTM.

    Args:
        dim: width of the input.
        hidden_dim: width H of the output.
    """

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(dim, hidden_dim)

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the LSTM."""
        return self.forward_lstm, None


class GRULayer(RecurrentLayer):
    """One layer of one or two GRUs.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction.
        bidirectional: whether there is a second GRU that reads backwards.
    """

    def __init__(self, dim: int, hidden_dim: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.forward_gru = nn.GRU(dim, hidden_dim)
        self.backward_gru = nn.GRU(dim, hidden_dim) if bidirectional else None

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the GRUs."""
        return self.forward_gru, self.backward_gru


def read_layers(
    layers: nn.ModuleList,
    x_BTD: Float[Tensor, "B T D"],
    mask_BT: Bool[Tensor, "B T"],
    *,
    dropout: float,
) -> Float[Tensor, "B T E"]:
    """Return the states of the last of several layers, with dropout between them in training."""
    hidden = x_BTD
    for idx, layer in enumerate(layers):
        if idx:
            hidden = functional.dropout(hidden, dropout, layers.training)
        hidden = layer(hidden, mask_BT)
    return hidden


def state_widths(dim: int, output_dim: int, num_layers: int) -> list[int]:
    """Return the width of each layer's input: the first reads the input, the others states."""
    return [dim] + [output_dim] * (num_layers - 1)


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
        widths = state_widths(dim, 2 * hidden_dim, num_layers)
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
        return read_layers(self.layers, x_BTD, mask_BT, dropout=self.dropout)


@BLOCKS.register("forward_lstm")
class ForwardLSTM(Block):
    """Read a sequence forwards: y_t = LSTM at t, which has seen the tokens up to t.

    Args:
        dim: width of the input.
        hidden_dim: width H of the output, at least 1.
        num_layers: layers above each other, at least 1.
        dropout: probability of a zero between layers (not after the last), in [0, 1).

    Shape: [B, T, D] to [B, T, H].

    Source: Gers et al. 2000 (LSTM with forget gates).
    """

    causal = True

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        widths = state_widths(dim, hidden_dim, num_layers)
        self.layers = nn.ModuleList(ForwardLSTMLayer(width, hidden_dim) for width in widths)
        self.dropout = dropout

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of `hidden_dim`."""
        return Shape(SEQUENCE, read_option(cls, options, "hidden_dim", int))

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T E"]:
        """Return the last layer's states."""
        return read_layers(self.layers, x_BTD, mask_BT, dropout=self.dropout)


@BLOCKS.register("bigru")
class BiGRU(Block):
    """Read a sequence in both directions: y_t = [forward GRU at t; backward GRU at t].

    The values are those of a packed bidirectional GRU; each direction starts from zeros.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction, at least 1.
        num_layers: layers above each other, at least 1.
        dropout: probability of a zero between layers (not after the last), in [0, 1).
        bidirectional: false for forward GRUs alone.

    Shape: [B, T, D] to [B, T, 2H], or [B, T, H] with one direction.

    Source: Cho et al. 2014 (GRU), eq. 5-8.
    Note: the reset gate works on the mapped state, as cuDNN's does, not on the state itself.
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        widths = state_widths(dim, (1 + bidirectional) * hidden_dim, num_layers)
        self.layers = nn.ModuleList(
            GRULayer(width, hidden_dim, bidirectional=bidirectional) for width in widths
        )
        self.dropout = dropout

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        """Say yes when it reads forwards only."""
        return not read_option(cls, options, "bidirectional", bool)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of `hidden_dim` for each direction."""
        return Shape(SEQUENCE, directed_width(cls, options))

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T E"]:
        """Return the last layer's states."""
        return read_layers(self.layers, x_BTD, mask_BT, dropout=self.dropout)


def directed_width(owner: type[Block], options: Mapping[str, object]) -> int:
    """Return the output's width of a block with the options `hidden_dim` and `bidirectional`."""
    hidden_dim = read_option(owner, options, "hidden_dim", int)
    return hidden_dim * (1 + read_option(owner, options, "bidirectional", bool))
