"""Quasi-recurrent layers: convolutions over the input and a gated sum over time.

Shape letters: B batch, T tokens, D width of the input, H width of one direction.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import BLOCKS
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.blocks.recurrent import DirectedBlock, RecurrentLayer


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
