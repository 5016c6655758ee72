"""A head that writes all symbols of a tree at once, and then rewrites those it is least sure of.

Shape letters: B batch, T tokens, S symbols, D width of a token, H width of the decoder, A symbols
and then copies of each token, R hypotheses, C constituents.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nlp_core.blocks.masking import count_tokens, pool_max, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.blocks.recurrent import BiLSTM
from nlp_core.blocks.transformer import EncoderLayer, sinusoidal_positions
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS
from nlp_core.heads.parsing import Scorer, SymbolParsingHead, list_actions
from nlp_core.heads.pointer import Pointer
from nlp_core.heads.rnng import take_rows
from reglue_runtime.tree import OPEN

MASKED = -1
"""The id of a symbol that is to be predicted."""


def mask_predict(predict: Callable[[Tensor], Tensor], inside_BS: Tensor, iterations: int) -> Tensor:
    """Return the log probabilities [B, S, A] with which each symbol was chosen.

    First all symbols are predicted, given none. Then, i = 1 ... K - 1, the floor(N (K - i) / K) of
    the N symbols that were chosen with the least probability are predicted again, given the others.

    Args:
        predict: from ids [B, S], -1 where they are masked, to log probabilities.
        inside_BS: where there is a symbol.
        iterations: K.

    Source: Ghazvininejad et al. 2019 (mask-predict), section 3.
    """
    size_B = inside_BS.sum(1)
    ids_BS = torch.full(inside_BS.shape, MASKED, device=inside_BS.device)
    best_BS = torch.zeros(inside_BS.shape, dtype=torch.float64, device=inside_BS.device)
    odds_BSA: Tensor | None = None
    for step in range(iterations):
        num_B1 = (size_B * (iterations - step) // iterations).unsqueeze(1)
        masked_BS = _rank(best_BS.masked_fill(~inside_BS, torch.inf)) < num_B1
        found_BSA = predict(ids_BS.masked_fill(masked_BS, MASKED))
        best = found_BSA.double().max(-1)
        ids_BS = torch.where(masked_BS, best.indices, ids_BS)
        best_BS = torch.where(masked_BS, best.values, best_BS)
        if odds_BSA is not None:
            found_BSA = torch.where(masked_BS.unsqueeze(-1), found_BSA, odds_BSA)
        odds_BSA = found_BSA
    assert odds_BSA is not None, iterations
    return odds_BSA


def _rank(values_BS: Tensor) -> Tensor:
    """Return the place of each value among those of its row, the least first."""
    return values_BS.argsort(dim=1, stable=True).argsort(dim=1)


class ParallelDecoder(Pointer):
    """Transformer layers over the tokens and all symbols, some masked, and a BiLSTM over symbols.

    A symbol also reads the token at its share of the sentence, before any attention.
    """

    def __init__(
        self,
        in_dim: int,
        num_symbols: int,
        *,
        hidden_dim: PositiveInt = 128,
        num_layers: PositiveInt = 1,
        num_heads: PositiveInt = 4,
        iterations: PositiveInt = 4,
        max_constituents: PositiveInt = 20,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(num_symbols, dropout=dropout)
        if hidden_dim % num_heads or hidden_dim % 2:
            raise ConfigError(
                f"hidden_dim: found {hidden_dim}, expected a multiple of 2 and of num_heads, "
                f"{num_heads}."
            )
        self.symbol = nn.Embedding(num_symbols + 1, hidden_dim)  # the last row: masked
        self.copied = nn.Linear(in_dim, hidden_dim)
        self.token = nn.Linear(in_dim, hidden_dim)
        self.layers = nn.ModuleList(
            EncoderLayer(
                hidden_dim,
                num_heads=num_heads,
                ff_dim=2 * hidden_dim,
                dropout=dropout,
                activation="relu",
                pre_norm=True,
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(hidden_dim)
        self.lstm = BiLSTM(hidden_dim, hidden_dim=hidden_dim // 2)
        self.count = nn.Sequential(
            nn.Linear(in_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, max_constituents)
        )
        self.add_output(in_dim, hidden_dim)
        self.iterations = iterations

    def rate_counts(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the log probability of 1, 2 ... constituents, [B, C]."""
        logits_BC: Tensor = self.count(self._drop(pool_max(x_BTD, mask_BT)))
        return logits_BC.log_softmax(-1)

    def read(self, ids_BS: Tensor, x_BTD: Tensor, mask_BT: Tensor, inside_BS: Tensor) -> Tensor:
        """Return the states [B, S, H] of symbols, given those that are not masked."""
        time, size = x_BTD.shape[1], ids_BS.shape[1]
        place_S = torch.arange(size, device=x_BTD.device)
        share_BS = (2 * place_S + 1) * count_tokens(mask_BT).unsqueeze(1)
        place_BS = share_BS // (2 * inside_BS.sum(1, keepdim=True)).clamp(min=1)
        token_BTH = self.token(x_BTD)
        near_BSH = take_rows(token_BTH, place_BS.clamp(max=time - 1))
        symbol_BSH = self.embed(ids_BS, x_BTD) + near_BSH
        width = symbol_BSH.shape[-1]
        parts = [
            part + sinusoidal_positions(part.shape[1], width, like=part)
            for part in (token_BTH, symbol_BSH)
        ]
        hidden, mask = self._drop(torch.cat(parts, 1)), torch.cat([mask_BT, inside_BS], 1)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        states_BSH: Tensor = self.norm(hidden[:, time:])
        # neighbours agree on what each has opened or closed, which attention learns slowly
        states_BSH = states_BSH + self.lstm(states_BSH, inside_BS)
        return states_BSH

    def forward(
        self, x_BTD: Tensor, mask_BT: Tensor, target_BS: Tensor, source_BT: Tensor
    ) -> Tensor:
        """Return the log probability of each masked id, 0 of others, [B, S].

        That of the first id is increased by the log probability of the number of constituents. In
        training some symbols are masked, as many as drawn; else all of them.
        """
        inside_BS = target_BS >= 0
        masked_BS = inside_BS
        if self.training and self.iterations > 1:
            masked_BS = _draw(inside_BS)
        x_BTD = self._drop(zero_padding(x_BTD, mask_BT))
        ids_BS = target_BS.masked_fill(masked_BS, MASKED)
        states_BSH = self.read(ids_BS, x_BTD, mask_BT, inside_BS)
        log_prob_BS = self.score(states_BSH, x_BTD, mask_BT, target_BS, source_BT)
        is_opening_BS = (target_BS >= OPEN) & (target_BS < self.num_symbols)
        count_BC = self.rate_counts(x_BTD, mask_BT)
        right_B1 = is_opening_BS.sum(1, keepdim=True).clamp(1, count_BC.shape[1]) - 1
        first_BS = torch.arange(target_BS.shape[1], device=x_BTD.device) == 0
        count_B1 = count_BC.gather(1, right_B1)
        return log_prob_BS.masked_fill(~masked_BS, 0.0) + count_B1 * first_BS

    def plan(self, x_RTD: Tensor, mask_RT: Tensor) -> Tensor:
        """Return the log probabilities of the symbols and copies at each place, [R, S, A]."""
        x_RTD = zero_padding(x_RTD, mask_RT)
        # each constituent is opened and closed
        size_R = count_tokens(mask_RT) + 2 * (self.rate_counts(x_RTD, mask_RT).argmax(1) + 1)
        inside_RS = torch.arange(int(size_R.max()), device=x_RTD.device) < size_R.unsqueeze(1)

        def predict(ids_RS: Tensor) -> Tensor:
            states_RSH = self.read(ids_RS, x_RTD, mask_RT, inside_RS)
            return torch.cat(self.rate(states_RSH, x_RTD, mask_RT), -1)

        odds_RSA = mask_predict(predict, inside_RS, self.iterations)
        last_R = (size_R - 1).clamp(min=0)
        # what follows the planned end is as likely as at the end
        place_S = torch.arange(odds_RSA.shape[1], device=last_R.device)
        place_RS = torch.minimum(place_S, last_R.unsqueeze(1))
        return take_rows(odds_RSA, place_RS)


def _draw(inside_BS: Tensor) -> Tensor:
    """Return a mask of 1 to all of the symbols of each row, each number as likely."""
    size_B, device = inside_BS.sum(1), inside_BS.device
    keys_BS = torch.rand(inside_BS.shape, device=device).masked_fill(~inside_BS, torch.inf)
    num_B = 1 + (torch.rand(len(size_B), device=device) * size_B).long().clamp(max=size_B - 1)
    return (_rank(keys_BS) < num_B.unsqueeze(1)) & inside_BS


class PlannedScorer:
    """Scores actions only by their place; from the last place on the scores stay the same."""

    def __init__(self, odds_RSA: Tensor, num_symbols: int) -> None:
        self._odds, self._num_symbols, self._steps = odds_RSA, num_symbols, 0

    def score(self, read_R: Tensor) -> Tensor:
        odds_RA = self._odds[:, min(self._steps, self._odds.shape[1] - 1)]
        return list_actions(
            odds_RA[:, : self._num_symbols], odds_RA[:, self._num_symbols :], read_R
        )

    def advance(self, parent_R: Tensor, action_R: Tensor, read_R: Tensor) -> None:
        self._odds = self._odds[parent_R]
        self._steps += 1


@HEADS.register("nonautoregressive_parsing")
class NonautoregressiveParsingHead(SymbolParsingHead):
    """Predict all symbols of a tree at once, and those of the least probability again.

    The number of constituents, and with it that of the symbols, is predicted first. Transformer
    layers read the tokens and all symbols, of which some are masked, and a BiLSTM the symbols. A
    symbol opens a constituent, closes one, or copies the token that the attention points at. In
    training 1 to all symbols are masked; the loss is minus their log probability and that of the
    number of constituents, a mean over the sentences. An answer needs `iterations` passes, however
    long it is; a search then finds the likeliest tree in the symbols' probabilities.

    Args:
        hidden_dim: width of the decoder, a multiple of `num_heads` and of 2.
        num_layers: transformer layers.
        num_heads: heads of their attention.
        iterations: passes of an answer; with 1 nothing is predicted again, and training masks all.
        max_constituents: the most that a tree is predicted to have.
        dropout: probability of a zero in the inputs and the layers, and before the softmax.
        constraints: also `none`: any symbols in any order, which may be no tree.

    Shape: [B, T, D], right actions [B, S] to log probabilities [B, S, E].

    Source: Ghazvininejad et al. 2019 (mask-predict); Babu et al. 2021 (non-autoregressive semantic
        parsing), for trees of intents and slots with copies.
    Note: one length is tried, not several; the BiLSTM and the search for a tree are ours.
    """

    expert = ParallelDecoder

    def start(self, expert: nn.Module, x_RTD: Tensor, mask_RT: Tensor, max_steps: int) -> Scorer:
        assert isinstance(expert, ParallelDecoder), type(expert)
        return PlannedScorer(expert.plan(x_RTD, mask_RT), expert.num_symbols)
