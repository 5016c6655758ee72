"""A decoder that writes symbols of its own, or copies from what it reads.

p(y_t) = g_t softmax(V m_t + b)(y_t) + (1 - g_t) sum over j with source_j = y_t of a_tj, where s_t
is the state of the decoder, a_t = softmax_j(x_j . W s_t) its attention, c_t =
sum_j a_tj x_j, m_t = tanh(M [s_t; c_t]) and g_t = sigmoid(u . [s_t; c_t]).

Shape letters: B batch, T tokens, S steps, D width of a token, H width of the decoder, V symbols of
its own. An id below V is a symbol, and V + j the token at place j.

Source: Luong et al. 2015 (attention), section 3.1, general score; See et al. 2017
    (pointer-generator networks), section 2.2.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.blocks.recurrent import read_states
from nlp_core.heads.base import hide_classes
from nlp_core.heads.rnng import take_rows

State = tuple[Tensor, Tensor]
"""State of the LSTM, [1, B, H] each."""


class Odds(NamedTuple):
    """Log probabilities of the symbols [B, S, V], and of a copy of each token [B, S, T]."""

    symbol: Tensor
    copy: Tensor


class Pointer(nn.Module):
    """Writes symbols or copies tokens, in states that a subclass computes; see the module.

    Args:
        num_symbols: V.
        dropout: probability of a zero in the inputs and in m.
    """

    symbol: nn.Embedding
    """Of symbols and, in the last row, of what no symbol is known of."""
    copied: nn.Linear

    def __init__(self, num_symbols: int, *, dropout: float) -> None:
        super().__init__()
        self.num_symbols = num_symbols
        self.dropout = dropout

    def add_output(self, in_dim: int, hidden_dim: int) -> None:
        """Add the weights of `rate`, after those of the states: their order decides the draws."""
        self.query = nn.Linear(hidden_dim, in_dim, bias=False)
        self.mix = nn.Linear(hidden_dim + in_dim, hidden_dim)
        self.gate = nn.Linear(hidden_dim + in_dim, 1)
        self.out = nn.Linear(hidden_dim, self.num_symbols)

    def embed(self, ids_BS: Tensor, x_BTD: Tensor) -> Tensor:
        """Return the vectors of symbols and copies, [B, S, E]; ids below 0 are none."""
        is_copy = ids_BS >= self.num_symbols
        symbol_BS = ids_BS.masked_fill(is_copy | (ids_BS < 0), self.num_symbols)
        place_BS = (ids_BS - self.num_symbols).clamp(min=0)
        copied_BSE = take_rows(self.copied(x_BTD), place_BS)
        return torch.where(is_copy.unsqueeze(-1), copied_BSE, self.symbol(symbol_BS))

    def rate(self, states_BSH: Tensor, x_BTD: Tensor, mask_BT: Tensor) -> Odds:
        energy_BST = torch.bmm(self.query(states_BSH), x_BTD.transpose(1, 2))
        copy_BST = hide_classes(energy_BST, mask_BT.unsqueeze(1)).log_softmax(-1)
        context_BSD = torch.bmm(copy_BST.exp(), x_BTD)
        both = torch.cat([states_BSH, context_BSD], -1)
        symbol_BSV = self.out(self._drop(torch.tanh(self.mix(both)))).log_softmax(-1)
        gate_BS1 = self.gate(both)
        writes, copies = -functional.softplus(-gate_BS1), -functional.softplus(gate_BS1)
        return Odds(symbol_BSV + writes, hide_classes(copy_BST + copies, mask_BT.unsqueeze(1)))

    def score(
        self,
        states_BSH: Tensor,
        x_BTD: Tensor,
        mask_BT: Tensor,
        target_BS: Tensor,
        source_BT: Tensor,
    ) -> Tensor:
        """Return the log probability of each right id, 0 at padding (-1), [B, S]."""
        odds = self.rate(states_BSH, x_BTD, mask_BT)
        own_BS = target_BS.clamp(0, self.num_symbols - 1).unsqueeze(-1)
        is_own_BS = (target_BS >= 0) & (target_BS < self.num_symbols)
        symbol_BS = hide_classes(odds.symbol.gather(-1, own_BS).squeeze(-1), is_own_BS)
        fits_BST = target_BS.unsqueeze(-1) == source_BT.unsqueeze(1)
        copy_BST = hide_classes(odds.copy, fits_BST)
        both = torch.cat([symbol_BS.unsqueeze(-1), copy_BST], -1)
        return both.logsumexp(-1).masked_fill(target_BS < 0, 0.0)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class PointerDecoder(Pointer):
    """Writes one id after the other; the states are those of an LSTM over the ids before.

    The heads that have it as an expert document its options.

    Args:
        in_dim: width D of a token.
        num_symbols: V.
    """

    def __init__(
        self,
        in_dim: int,
        num_symbols: int,
        *,
        hidden_dim: PositiveInt = 256,
        symbol_dim: PositiveInt = 64,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(num_symbols, dropout=dropout)
        self.symbol = nn.Embedding(num_symbols + 1, symbol_dim)  # the last row: the start
        self.copied = nn.Linear(in_dim, symbol_dim)
        self.first = nn.Linear(in_dim, 2 * hidden_dim)
        self.lstm = nn.LSTM(symbol_dim, hidden_dim)
        self.add_output(in_dim, hidden_dim)

    def start(self, x_BTD: Tensor, mask_BT: Tensor) -> State:
        """Return the first state, made of the first token's vector."""
        both_BH = torch.tanh(self.first(zero_padding(x_BTD, mask_BT)[:, 0])).unsqueeze(0)
        hidden, memory = both_BH.chunk(2, -1)
        return hidden.contiguous(), memory.contiguous()

    def read(self, before_BS: Tensor, x_BTD: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the states [B, S, H] after ids were read, -1 for the start, and the last one."""
        x_BSE = self.embed(before_BS, x_BTD)
        states_SBH, state = read_states(self.lstm, self._drop(x_BSE).transpose(0, 1), state)
        return states_SBH.transpose(0, 1), state

    def forward(
        self, x_BTD: Tensor, mask_BT: Tensor, target_BS: Tensor, source_BT: Tensor
    ) -> Tensor:
        """Return the log probability of each right id, 0 at padding (-1), [B, S].

        Args:
            source_BT: the id that a copy of each token writes.
        """
        x_BTD = self._drop(zero_padding(x_BTD, mask_BT))
        before_BS = functional.pad(target_BS[:, :-1], (1, 0), value=-1)
        states_BSH, _ = self.read(before_BS, x_BTD, self.start(x_BTD, mask_BT))
        return self.score(states_BSH, x_BTD, mask_BT, target_BS, source_BT)
