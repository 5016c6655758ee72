"""Recurrent layers of one or two directions, without packing, which is slow on a CPU.

Quasi-recurrent ones are convolutions over the input and a gated sum over time.

Shape letters: B batch, T tokens, D width of the input, H width of one direction, E of all.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block, Shape
from nlp_core.blocks.masking import Mask, Tokens, count_tokens, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option


def reverse_index(mask_BT: Mask) -> Int[Tensor, "B T"]:
    """Return for each position the one that it swaps with when real tokens are reversed.

    Real tokens come first, and padding stays in place, so this is its own inverse.
    """
    position_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
    return torch.where(mask_BT, count_tokens(mask_BT).unsqueeze(1) - 1 - position_T, position_T)


class RecurrentLayer(nn.Module):
    """A layer that reads sequences forwards and, with a second reader, backwards.

    A reader maps [T, B, D] to a pair whose first item is its states [T, B, H], and only looks back
    in time. The backward reader starts at the last real token of each sequence. In the weights the
    readers are called `forward_<name>` and `backward_<name>`.
    """

    def __init__(self, name: str, build: Callable[[], nn.Module], *, bidirectional: bool) -> None:
        super().__init__()
        for direction in ("forward", "backward")[: 1 + bidirectional]:
            self.add_module(f"{direction}_{name}", build())

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the forward and the backward reader, if there is one."""
        forward, *backward = self.children()
        return forward, backward[0] if backward else None

    def run(self, x_BTD: Tokens, reverse_BT: Int[Tensor, "B T"]) -> tuple[Tensor, Tensor]:
        """Return the states [T, B, H] of both directions, each in its own reading order.

        The backward ones begin with the last real token; states after a sequence's end are
        arbitrary.
        """
        forward, backward = self.readers()
        assert backward is not None, "a layer of one direction"
        batch, time, dim = x_BTD.shape
        start_B = torch.arange(batch, device=x_BTD.device) * time
        rows = (reverse_BT.t() + start_B).reshape(-1)
        reversed_TBD = x_BTD.reshape(-1, dim).index_select(0, rows).view(time, batch, dim)
        forward_TBH, _ = read_states(forward, x_BTD.transpose(0, 1))
        backward_TBH, _ = read_states(backward, reversed_TBD)
        return forward_TBH, backward_TBH

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T E"]:
        forward, backward = self.readers()
        if backward is None:
            states_TBH, _ = read_states(forward, x_BTD.transpose(0, 1))
            return zero_padding(states_TBH.transpose(0, 1), mask_BT)
        reverse_BT = reverse_index(mask_BT)
        forward_TBH, backward_TBH = self.run(x_BTD, reverse_BT)
        time, batch, width = backward_TBH.shape
        column_B1 = torch.arange(batch, device=x_BTD.device).unsqueeze(1)
        rows = (reverse_BT * batch + column_B1).reshape(-1)
        backward_BTH = backward_TBH.reshape(-1, width).index_select(0, rows)
        both = [forward_TBH.transpose(0, 1), backward_BTH.view(batch, time, width)]
        return zero_padding(torch.cat(both, -1), mask_BT)

    def last_states(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B E"]:
        """Return the concatenated final states of both directions; zeros without tokens."""
        forward_TBH, backward_TBH = self.run(x_BTD, reverse_index(mask_BT))
        column_B = torch.arange(len(mask_BT), device=x_BTD.device)
        last_B = (count_tokens(mask_BT) - 1).clamp(min=0)
        ends = [forward_TBH[last_B, column_B], backward_TBH[last_B, column_B]]
        return zero_padding(torch.cat(ends, -1), mask_BT.any(1))


def read_states(
    reader: nn.Module,
    x_TBD: Float[Tensor, "T B D"],
    state: Any = None,  # Any: as of the reader
) -> tuple[Float[Tensor, "T B H"], Any]:
    """Return a reader's states and its last one, in 32 bits on a CPU even under autocast.

    With 16 bits an LSTM or a GRU needs more instructions than those that determinism pins.
    """
    if x_TBD.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        first = () if state is None else (tuple(part.float() for part in state),)
        with torch.autocast("cpu", enabled=False):
            states_TBH, last = reader(x_TBD.float(), *first)
    else:
        states_TBH, last = reader(x_TBD, *(() if state is None else (state,)))
    return states_TBH, last


class RecurrentBlock(Block):
    """A stack of recurrent layers.

    Args:
        hidden_dim: width H of one direction.
        num_layers: number of stacked layers.
        dropout: probability of a zero between layers (not after the last).
    """

    output_width = "hidden_dim"

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
        **options: Any,  # Any: those that a subclass builds its layers with
    ) -> None:
        super().__init__()
        output_dim = self.infer(Shape(SEQUENCE, dim), hidden_dim=hidden_dim, **options).dim
        widths = [dim] + [output_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(
            self.build_layer(width, hidden_dim, **options) for width in widths
        )
        self.dropout = dropout

    build_layer: Callable[..., RecurrentLayer]
    """Return a layer of `dim, hidden_dim, **options`."""

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T E"]:
        hidden = x_BTD
        for idx, layer in enumerate(self.layers):
            if idx:
                hidden = functional.dropout(hidden, self.dropout, self.training)
            hidden = layer(hidden, mask_BT)
        return hidden


@BLOCKS.register("bilstm")
class BiLSTM(RecurrentBlock):
    """Read a sequence in both directions: y_t = [forward LSTM at t; backward LSTM at t].

    The values are those of a packed bidirectional LSTM; each direction starts from zeros.

    Shape: [B, T, D] to [B, T, 2H].

    Source: Graves and Schmidhuber 2005 (bidirectional LSTM).
    """

    width_factor = 2

    def build_layer(self, dim: int, hidden_dim: int) -> RecurrentLayer:
        return RecurrentLayer("lstm", partial(nn.LSTM, dim, hidden_dim), bidirectional=True)


@BLOCKS.register("forward_lstm")
class ForwardLSTM(RecurrentBlock):
    """Read a sequence forwards: y_t = LSTM at t, which has seen the tokens up to t.

    Shape: [B, T, D] to [B, T, H].

    Source: Gers et al. 2000 (LSTM with forget gates).
    """

    causal = True

    def build_layer(self, dim: int, hidden_dim: int) -> RecurrentLayer:
        return RecurrentLayer("lstm", partial(nn.LSTM, dim, hidden_dim), bidirectional=False)


class DirectedBlock(RecurrentBlock):
    """A stack of recurrent layers of one or two directions.

    Args:
        bidirectional: false for forward layers only.
    """

    def __init__(self, dim: int, *, bidirectional: bool = True, **options: Any) -> None:
        super().__init__(dim, bidirectional=bidirectional, **options)

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        return not read_option(cls, options, "bidirectional", bool)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        directions = 1 + read_option(cls, options, "bidirectional", bool)
        return Shape(SEQUENCE, directions * read_option(cls, options, "hidden_dim", int))


@BLOCKS.register("bigru")
class BiGRU(DirectedBlock):
    """Read a sequence in both directions: y_t = [forward GRU at t; backward GRU at t].

    The values are those of a packed bidirectional GRU; each direction starts from zeros.

    Shape: [B, T, D] to [B, T, 2H], or [B, T, H] with one direction.

    Source: Cho et al. 2014 (GRU), eq. 5-8.
    Note: the reset gate is applied to the mapped state, as in cuDNN, not to the state itself.
    """

    def build_layer(self, dim: int, hidden_dim: int, *, bidirectional: bool) -> RecurrentLayer:
        return RecurrentLayer("gru", partial(nn.GRU, dim, hidden_dim), bidirectional=bidirectional)


class QuasiRecurrent(nn.Module):
    """Read a sequence forwards with memory c_t = f_t c_{t-1} + (1 - f_t) z_t and y_t = o_t c_t.

    z = tanh, f = sigmoid and o = sigmoid of three convolutions over a token and those before it.
    """

    def __init__(self, dim: int, hidden_dim: int, *, window: int, zoneout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(window * dim, 3 * hidden_dim)
        self.window = window
        self.zoneout = zoneout

    def forward(self, x_TBD: Float[Tensor, "T B D"]) -> tuple[Float[Tensor, "T B H"], None]:
        """Return the outputs, and None where a torch layer would return its last state."""
        time = len(x_TBD)
        wide = functional.pad(x_TBD, (0, 0, 0, 0, self.window - 1, 0))
        windows = torch.cat([wide[start : start + time] for start in range(self.window)], -1)
        candidate, forget, output = self.linear(windows).chunk(3, -1)
        write_TBH = torch.sigmoid(-forget)  # 1 - f
        if self.training and self.zoneout:
            write_TBH = write_TBH * (torch.rand_like(write_TBH) >= self.zoneout)
        added_TBH = write_TBH * torch.tanh(candidate)
        memory = torch.zeros_like(added_TBH[0])
        memories = []
        for kept, added in zip((1.0 - write_TBH).unbind(), added_TBH.unbind(), strict=True):
            memory = torch.addcmul(added, kept, memory)
            memories.append(memory)
        return torch.sigmoid(output) * torch.stack(memories), None


@BLOCKS.register("qrnn")
class QRNN(DirectedBlock):
    """Read a sequence in both directions with quasi-recurrent layers and fo-pooling.

    c_t = f_t c_{t-1} + (1 - f_t) z_t and y_t = o_t c_t, where z (after tanh), f and o (after
    sigmoid) are convolutions over the token and the `window - 1` tokens read before it.

    Args:
        window: tokens that the convolutions see.
        zoneout: probability that training sets f to 1, so that a number of the memory is kept.

    Shape: [B, T, D] to [B, T, 2H], or [B, T, H] with one direction.

    Source: Bradbury et al. 2017 (quasi-recurrent networks), eq. 1, 4 and 6.
    """

    def __init__(
        self, dim: int, *, window: PositiveInt = 2, zoneout: Probability = 0.0, **options: Any
    ) -> None:
        super().__init__(dim, window=window, zoneout=zoneout, **options)

    def build_layer(
        self, dim: int, hidden_dim: int, *, window: int, zoneout: float, bidirectional: bool
    ) -> RecurrentLayer:
        build = partial(QuasiRecurrent, dim, hidden_dim, window=window, zoneout=zoneout)
        return RecurrentLayer("qrnn", build, bidirectional=bidirectional)
