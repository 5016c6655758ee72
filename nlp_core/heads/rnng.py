"""Write a tree as shift and reduce actions, scored from a stack, the tokens left and the past.

Shape letters: B batch, T tokens, S steps, R hypotheses, D width of a token, H hidden width, A
actions, N constituents, C parts of a constituent.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.blocks.recurrent import RecurrentLayer, read_states
from nlp_core.heads.grammar import Level, trace
from reglue_runtime.search import STAY
from reglue_runtime.tree import OPEN, REDUCE, SHIFT

Composition = Literal["bilstm", "sum"]
Parts = Annotated[list[Literal["stack", "buffer", "actions"]], Field(min_length=1)]


class TreeNetwork(nn.Module):
    """The scorer of the head `rnng`, which documents its options; `in_dim` is the width D."""

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        hidden_dim: PositiveInt = 128,
        action_dim: PositiveInt = 32,
        composition: Composition = "bilstm",
        parts: Parts = ("stack", "buffer", "actions"),  # type: ignore[assignment]  # immutable
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        num_actions = OPEN + num_labels
        self.token = nn.Linear(in_dim, hidden_dim)
        self.label = nn.Embedding(num_labels, hidden_dim)
        self.stack_input = nn.Linear(hidden_dim, 4 * hidden_dim)
        self.stack_state = nn.Linear(hidden_dim, 4 * hidden_dim, bias=False)
        self.inner: RecurrentLayer | None = None
        if composition == "bilstm":
            build = partial(nn.LSTM, hidden_dim, hidden_dim)
            self.inner = RecurrentLayer("lstm", build, bidirectional=True)
        self.compose = nn.Linear(hidden_dim * (2 if self.inner else 1), hidden_dim)
        widths = {"stack": hidden_dim, "buffer": in_dim, "actions": hidden_dim}
        self.parts = list(parts)
        if "actions" in parts:
            self.action = nn.Embedding(num_actions + 1, action_dim)  # the last row: no action yet
            self.past = nn.LSTM(action_dim, hidden_dim)
        if "buffer" in parts:
            self.end = nn.Parameter(torch.randn(in_dim) * in_dim**-0.5)  # no token left
        self.hidden = nn.Linear(sum(widths[part] for part in parts), hidden_dim)
        self.out = nn.Linear(hidden_dim, num_actions)
        self.hidden_dim = hidden_dim
        self.dropout = dropout

    def forward(self, x_BTD: Tensor, mask_BT: Tensor, target_BS: Tensor) -> Tensor:
        """Return the log probability of each right action, 0 at padding, [B, S]."""
        real_BS = target_BS >= 0
        found = trace(target_BS)
        read_BS, below_BS = (item.to(x_BTD.device) for item in (found.read, found.below))
        wide_BTD = self.add_end(x_BTD, mask_BT)
        pushed_BSH = self._push(x_BTD, target_BS, read_BS, found.levels)
        parts = {
            "stack": lambda: self._run_stack(pushed_BSH, below_BS),
            "buffer": lambda: take_rows(wide_BTD, read_BS),
            "actions": lambda: self._run_past(target_BS),
        }
        logits_BSA = self.rate([parts[name]() for name in self.parts])
        right_BS = target_BS.clamp(min=0).unsqueeze(-1)
        log_prob_BS = logits_BSA.log_softmax(-1).gather(-1, right_BS).squeeze(-1)
        return log_prob_BS.masked_fill(~real_BS, 0.0)

    def rate(self, parts: Sequence[Tensor]) -> Tensor:
        hidden = functional.relu(self.hidden(self.drop(torch.cat(list(parts), -1))))
        logits: Tensor = self.out(self.drop(hidden))
        return logits

    def drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    def add_end(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the tokens, followed by what the buffer holds without tokens, [B, T + 1, D]."""
        wide_BTD = functional.pad(zero_padding(x_BTD, mask_BT), (0, 0, 0, 1))
        if "buffer" not in self.parts:
            return wide_BTD
        real = functional.pad(mask_BT, (0, 1)).unsqueeze(-1)
        return torch.where(real, wide_BTD, self.end)

    def _push(
        self, x_BTD: Tensor, target_BS: Tensor, read_BS: Tensor, levels: Sequence[Level]
    ) -> Tensor:
        """Return what each action pushes on the stack, [B, S, H]; zeros for that of a root."""
        last = x_BTD.shape[1] - 1
        token_BSH = take_rows(self.token(x_BTD), read_BS.clamp(max=last))
        label_BSH = self.label((target_BS - OPEN).clamp(min=0))
        action_BS1 = target_BS.unsqueeze(-1)
        pushed_BSH = torch.where(action_BS1 == SHIFT, token_BSH, label_BSH)
        pushed_BSH = pushed_BSH.masked_fill((action_BS1 == REDUCE) | (action_BS1 < 0), 0.0)
        flat = pushed_BSH.flatten(0, 1)
        for level in levels:
            made, label, parts, mask = (item.to(flat.device) for item in level)
            composed_NH = self.close(label, take_flat(flat, parts), mask)
            flat = flat.index_copy(0, made, composed_NH)
        return flat.view_as(pushed_BSH)

    def close(self, label_N: Tensor, parts_NCH: Tensor, mask_NC: Tensor) -> Tensor:
        """Return the vectors of constituents, [N, H]."""
        label_NH = self.label(label_N)
        if self.inner is None:
            return torch.tanh(self.compose(zero_padding(parts_NCH, mask_NC).sum(1) + label_NH))
        x_NCH = torch.cat([label_NH.unsqueeze(1), parts_NCH], 1)
        mask_NC = functional.pad(mask_NC, (1, 0), value=True)
        return torch.tanh(self.compose(self.inner.last_states(x_NCH, mask_NC)))

    def push(self, x_RH: Tensor, state: "StackState") -> "StackState":
        """Return the state of the stack after each row pushed a vector on a state."""
        gates_RG = self.stack_input(self.drop(x_RH)) + self.stack_state(state.hidden)
        return _step(gates_RG, state.memory)

    def _run_stack(self, pushed_BSH: Tensor, below_BS: Tensor) -> Tensor:
        """Return the top of the stack before each action, [B, S, H]."""
        gates_BSG = self.stack_input(self.drop(pushed_BSH))
        empty = pushed_BSH.new_zeros(len(pushed_BSH), self.hidden_dim)
        states = [StackState(empty, empty)]
        jumps = (below_BS != torch.arange(below_BS.shape[1], device=below_BS.device)).any(0)
        rows_B = torch.arange(len(empty), device=empty.device)
        for idx, jump in enumerate(jumps[:-1].tolist()):
            before = states[idx]
            if jump:
                places_B = below_BS[:, idx] * len(empty) + rows_B
                before = StackState(
                    *(take_flat(torch.cat(items), places_B) for items in zip(*states, strict=True))
                )
            gates_BG = gates_BSG[:, idx] + self.stack_state(before.hidden)
            states.append(_step(gates_BG, before.memory))
        return torch.stack([state.hidden for state in states], 1)

    def _run_past(self, target_BS: Tensor) -> Tensor:
        start = self.action.num_embeddings - 1
        before_BS = functional.pad(target_BS[:, :-1], (1, 0), value=start)
        x_BSE = self.drop(self.action(before_BS.clamp(min=0)))
        states_SBH, _ = read_states(self.past, x_BSE.transpose(0, 1))
        return states_SBH.transpose(0, 1)


class StackState(NamedTuple):
    """State of an LSTM: [B, H] each."""

    hidden: Tensor
    memory: Tensor


def _step(gates: Tensor, memory: Tensor) -> StackState:
    read, keep, write, show = gates.chunk(4, -1)
    memory = torch.sigmoid(keep) * memory + torch.sigmoid(read) * torch.tanh(write)
    return StackState(torch.sigmoid(show) * torch.tanh(memory), memory)


def take_flat(x: Tensor, places: Tensor) -> Tensor:
    """Return rows of [N, H] by their places, [..., H]."""
    return x.index_select(0, places.flatten()).view(*places.shape, -1)


def take_rows(x_BTD: Tensor, places_BS: Tensor) -> Tensor:
    """Return the vectors at some places of each row, [B, S, D]."""
    batch, time, _ = x_BTD.shape
    start_B1 = torch.arange(batch, device=x_BTD.device).unsqueeze(1) * time
    return take_flat(x_BTD.flatten(0, 1), start_B1 + places_BS)


class _Open(NamedTuple):
    """An open constituent: the state below it, and where its label and parts were pushed."""

    label: int
    below: int
    parts: tuple[int, ...]


class TreeScorer:
    """Scores the next actions of hypotheses, R rows whose tokens are `x` [R, T, D]."""

    def __init__(
        self, network: TreeNetwork, x_RTD: Tensor, mask_RT: Tensor, *, max_steps: int
    ) -> None:
        self._network = network
        self._tokens = network.token(x_RTD)
        self._buffer = network.add_end(x_RTD, mask_RT)
        rows, width = len(x_RTD), network.hidden_dim
        # after step s, row r is at (s + 1) R + r of states, and at s R + r of what was pushed
        self._hidden = x_RTD.new_zeros((max_steps + 1) * rows, width)
        self._memory = torch.zeros_like(self._hidden)
        self._pushed = x_RTD.new_zeros(max_steps * rows, width)
        self._top = torch.arange(rows, device=x_RTD.device)
        self._stacks: list[tuple[_Open, ...]] = [()] * rows
        self._step = 0
        self._past: tuple[Tensor, Tensor] | None = None
        self._state_R = x_RTD.new_zeros(0)
        if "actions" in network.parts:
            start = network.action.num_embeddings - 1
            self._remember(torch.full((rows,), start, device=x_RTD.device))

    def score(self, read_R: Tensor) -> Tensor:
        """Return the log probability of each action, [R, A]."""
        rows = torch.arange(len(read_R), device=self._buffer.device)
        parts = {
            "stack": lambda: self._hidden[self._top],
            "buffer": lambda: self._buffer[rows, read_R],
            "actions": lambda: self._state_R,
        }
        return self._network.rate([parts[name]() for name in self._network.parts]).log_softmax(-1)

    def advance(self, parent_R: Tensor, action_R: Tensor, read_R: Tensor) -> None:
        """Let each row go on from a row by an action; `read` are the tokens before it."""
        network, rows = self._network, len(parent_R)
        tops = self._top[parent_R].tolist()
        stacks = [self._stacks[parent] for parent in parent_R.tolist()]
        below, closed = list(tops), list[tuple[int, _Open]]()
        first = self._step * rows
        for row, action in enumerate(action_R.tolist()):
            stack, place = stacks[row], first + row
            if action == STAY:
                continue
            if action >= OPEN:
                stacks[row] = (*stack, _Open(action - OPEN, tops[row], ()))
                continue
            if action == REDUCE:
                *rest, last = stack
                closed.append((row, last))
                below[row], stack = last.below, tuple(rest)
            if stack:
                *rest, last = stack
                stack = (*rest, last._replace(parts=(*last.parts, place)))
            stacks[row] = stack
        pushed_RH = network.label((action_R - OPEN).clamp(min=0))
        last_token = self._tokens.shape[1] - 1
        every = torch.arange(rows, device=pushed_RH.device)
        token_RH = self._tokens[every, read_R.clamp(max=last_token)]
        pushed_RH = torch.where((action_R == SHIFT).unsqueeze(1), token_RH, pushed_RH)
        if closed:
            closed_NH = self._close([item for _, item in closed])
            pushed_RH[[row for row, _ in closed]] = closed_NH.to(pushed_RH.dtype)
        places = torch.tensor(below, device=pushed_RH.device)
        state = network.push(pushed_RH, StackState(self._hidden[places], self._memory[places]))
        self._pushed[first : first + rows] = pushed_RH
        self._hidden[first + rows : first + 2 * rows] = state.hidden
        self._memory[first + rows : first + 2 * rows] = state.memory
        stays = action_R == STAY
        self._top = torch.where(stays, self._top[parent_R], first + rows + every)
        self._stacks, self._step = stacks, self._step + 1
        if self._past is not None:
            self._past = (self._past[0][:, parent_R], self._past[1][:, parent_R])
            self._remember(action_R.clamp(min=0))

    def _close(self, items: Sequence[_Open]) -> Tensor:
        width = max(len(item.parts) for item in items)
        parts = torch.tensor([[*item.parts] + [0] * (width - len(item.parts)) for item in items])
        sizes = torch.tensor([len(item.parts) for item in items])
        label_N = torch.tensor([item.label for item in items])
        mask_NC = torch.arange(width) < sizes.unsqueeze(1)
        device = self._pushed.device
        parts_NCH = take_flat(self._pushed, parts.to(device))
        return self._network.close(label_N.to(device), parts_NCH, mask_NC.to(device))

    def _remember(self, action_R: Tensor) -> None:
        x_1RE = self._network.action(action_R).unsqueeze(0)
        states, self._past = read_states(self._network.past, x_1RE, self._past)
        self._state_R = states[0]
