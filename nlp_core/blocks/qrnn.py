"""Quasi-recurrent layers: convolutions do the work, a sum over time keeps the memory.

Shape letters: B batch, T tokens, D width of the input, H width of one direction, E of all.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS, SEQUENCE, Block, Shape
from nlp_core.blocks.option import PositiveInt, Probability, read_option
from nlp_core.blocks.recurrent import (
    RecurrentLayer,
    directed_width,
    read_layers,
    state_widths,
)


class QuasiRecurrent(nn.Module):
    """Read a sequence forwards with memory c_t = f_t c_{t-1} + (1 - f_t) z_t and y_t = o_t c_t.

    z = tanh, f = sigmoid and o = sigmoid of three convolutions over a token and those before it.

    Args:
        dim: width of the input.
        hidden_dim: width H of the output.
        window: tokens that the convolutions see.
        zoneout: probability that, while training, a number of the memory keeps its value.
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


class QuasiRecurrentLayer(RecurrentLayer):
    """One layer of one or two directions.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction.
        window: tokens that the convolutions see.
        zoneout: see `QuasiRecurrent`.
        bidirectional: whether there is a second reader that reads backwards.
    """

    def __init__(
        self, dim: int, hidden_dim: int, *, window: int, zoneout: float, bidirectional: bool
    ) -> None:
        super().__init__()
        self.forward_qrnn = QuasiRecurrent(dim, hidden_dim, window=window, zoneout=zoneout)
        self.backward_qrnn = (
            QuasiRecurrent(dim, hidden_dim, window=window, zoneout=zoneout)
            if bidirectional
            else None
        )

    def readers(self) -> tuple[nn.Module, nn.Module | None]:
        """Return the readers of both directions."""
        return self.forward_qrnn, self.backward_qrnn


@BLOCKS.register("qrnn")
class QRNN(Block):
    """Read a sequence in both directions with quasi-recurrent layers and fo-pooling.

    c_t = f_t c_{t-1} + (1 - f_t) z_t and y_t = o_t c_t, where z (after tanh), f and o (after
    sigmoid) are convolutions over the token and the `window - 1` tokens read before it.

    Args:
        dim: width of the input.
        hidden_dim: width H of one direction, at least 1.
        window: tokens that the convolutions see, at least 1.
        num_layers: layers above each other, at least 1.
        dropout: probability of a zero between layers (not after the last), in [0, 1).
        zoneout: probability that, while training, f is set to 1, in [0, 1).
        bidirectional: false for forward layers alone.

    Shape: [B, T, D] to [B, T, 2H], or [B, T, H] with one direction.

    Source: Bradbury et al. 2017 (quasi-recurrent networks), eq. 1, 4 and 6.
    """

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: PositiveInt = 128,
        window: PositiveInt = 2,
        num_layers: PositiveInt = 1,
        dropout: Probability = 0.0,
        zoneout: Probability = 0.0,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        widths = state_widths(dim, (1 + bidirectional) * hidden_dim, num_layers)
        self.layers = nn.ModuleList(
            QuasiRecurrentLayer(
                width, hidden_dim, window=window, zoneout=zoneout, bidirectional=bidirectional
            )
            for width in widths
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
        """Return the last layer's outputs."""
        return read_layers(self.layers, x_BTD, mask_BT, dropout=self.dropout)
