"""Texts that a model writes word by word: from ids to words, and the decoder and its search.

An id below V, the number of a decoder's symbols, is END, UNKNOWN, or from FIRST on a word of its
list. V + j is a copy of the token at place j, whose word the list lacks.

Shape letters: B batch, T tokens, D width of a token, H width of the decoder, V symbols, K
hypotheses of an example, R all hypotheses (B times K), A choices of a step (V + T), S steps.

Source: as of nlp_core/heads/pointer.py and nlp_core/heads/search.py, whose numbers these are.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

END, UNKNOWN, FIRST = 0, 1, 2
STAY = -1
Draw: TypeAlias = Callable[[int, int], float]
"""Returns the random number, from 0 to 1, of an example and a step."""
Weights: TypeAlias = Mapping[str, np.ndarray]
State: TypeAlias = tuple[np.ndarray, ...]
"""Of hypotheses, each array with a row for each of them."""


class StepDecoder(Protocol):
    """Rates what hypotheses go on with; see `Decoder`."""

    def start(self, x_BTD: np.ndarray) -> State: ...
    def read(self, before_R: np.ndarray, x_RTD: np.ndarray, state: State) -> State: ...
    def rate(
        self, read: np.ndarray, x_RTD: np.ndarray, mask_RT: np.ndarray, copies_RT: np.ndarray
    ) -> np.ndarray: ...


def number_copies(tokens: Sequence[str], number: Mapping[str, int]) -> list[int]:
    """Return the id that a copy of each token writes; `number` has the place of each word.

    A word that the list lacks has the id of its first place.
    """
    first: dict[str, int] = {}
    size = FIRST + len(number)
    return [
        FIRST + number[token] if token in number else size + first.setdefault(token, place)
        for place, token in enumerate(tokens)
    ]


def number_words(
    words: Sequence[str], tokens: Sequence[str], number: Mapping[str, int]
) -> list[int]:
    """Return the ids that write words, with an END, after tokens were read."""
    copies = dict(zip(tokens, number_copies(tokens, number), strict=True))
    return [
        *(FIRST + number[word] if word in number else copies.get(word, UNKNOWN) for word in words),
        END,
    ]


def write_words(ids: Sequence[int], words: Sequence[str], tokens: Sequence[str]) -> str:
    """Return the text of ids up to their END, with spaces between the words."""
    found = []
    for item in ids:
        if item < FIRST:
            break
        place = item - FIRST
        found.append(words[place] if place < len(words) else tokens[place - len(words)])
    return " ".join(found)


def draw_number(seed: int, copies: Sequence[int], step: int) -> float:
    """Return a number from 0 to 1 that depends only on these, so on no batch and no machine."""
    text = f"{seed}:{','.join(map(str, copies))}:{step}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) / 256**7


def choose_nucleus(log_prob_A: np.ndarray, top_p: float, share: float) -> int:
    """Return the choice at a share of the likeliest choices, whose sum is at least `top_p`.

    Source: Holtzman et al. 2020 (neural text degeneration), section 3.1.
    """
    order = np.argsort(-log_prob_A, kind="stable")
    total = np.cumsum(np.exp(log_prob_A[order].astype(np.float64)))
    size = int(np.searchsorted(total, top_p * total[-1])) + 1
    nucleus = total[: min(size, len(total))]
    return int(order[min(int(np.searchsorted(nucleus, share * nucleus[-1], "right")), size - 1)])


class Decoder:
    """A pointer decoder; the names of its weights are those of the module in training."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.num_symbols = len(weights["out.bias"])

    def start(self, x_BTD: np.ndarray) -> State:
        hidden, memory = np.split(np.tanh(self._map("first", x_BTD[:, 0])), 2, -1)
        return hidden, memory

    def read(self, before_R: np.ndarray, x_RTD: np.ndarray, state: State) -> State:
        """Return the state after ids were read, -1 for the start."""
        hidden_RH, memory_RH = state
        is_copy_R = before_R >= self.num_symbols
        own_R = np.where(is_copy_R | (before_R < 0), self.num_symbols, before_R)
        place_R = np.clip(before_R - self.num_symbols, 0, None)
        copied_RE = self._map("copied", x_RTD[np.arange(len(place_R)), place_R])
        x_RE = np.where(is_copy_R[:, None], copied_RE, self._weights["symbol.weight"][own_R])
        gates = (
            x_RE @ self._weights["lstm.weight_ih_l0"].T
            + self._weights["lstm.bias_ih_l0"]
            + hidden_RH @ self._weights["lstm.weight_hh_l0"].T
            + self._weights["lstm.bias_hh_l0"]
        )
        enter, forget, cell, leave = np.split(gates, 4, -1)
        memory_RH = _squash(forget) * memory_RH + _squash(enter) * np.tanh(cell)
        return _squash(leave) * np.tanh(memory_RH), memory_RH

    def rate(
        self, hidden_RH: np.ndarray, x_RTD: np.ndarray, mask_RT: np.ndarray, copies_RT: np.ndarray
    ) -> np.ndarray:
        """Return the log probability of each symbol, and after them of a copy of each place."""
        query_RD = hidden_RH @ self._weights["query.weight"].T
        energy_RT = np.where(mask_RT, np.matmul(x_RTD, query_RD[:, :, None])[:, :, 0], -np.inf)
        copy_RT = np.exp(_normalise(energy_RT))
        context_RD = np.matmul(copy_RT[:, None], x_RTD)[:, 0]
        both = np.concatenate([hidden_RH, context_RD], -1)
        symbol_RV = np.exp(_normalise(self._map("out", np.tanh(self._map("mix", both)))))
        gate_R1 = _squash(self._map("gate", both))
        chances = np.concatenate([symbol_RV * gate_R1, np.zeros_like(copy_RT)], 1)
        rows = np.broadcast_to(np.arange(len(copy_RT))[:, None], mask_RT.shape)
        np.add.at(chances, (rows[mask_RT], copies_RT[mask_RT]), (copy_RT * (1 - gate_R1))[mask_RT])
        with np.errstate(divide="ignore"):
            log_prob: np.ndarray = np.log(chances)
        return log_prob

    def _map(self, name: str, x: np.ndarray) -> np.ndarray:
        mapped: np.ndarray = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return mapped


def _squash(x: np.ndarray) -> np.ndarray:
    squashed: np.ndarray = (1 + np.tanh(x / 2)) / 2
    return squashed


def _normalise(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    log_prob: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return log_prob


class Written(NamedTuple):
    """Ids of the best answers [B, S], and the log probability of each, [B]."""

    ids: np.ndarray
    log_prob: np.ndarray


class TextSearch(NamedTuple):
    """How texts are chosen; see the options of the head `seq2seq`."""

    beam: int
    penalty: float = 0.0
    max_words: int = 0
    top_p: float | None = None
    temperature: float = 1.0
    seed: int = 0


class Rules(Protocol):
    """What hypotheses can go on with, [R]; `max_steps` of them at most."""

    max_steps: int

    @property
    def done(self) -> np.ndarray: ...

    def restrict(self, log_RA: np.ndarray) -> np.ndarray:
        """Return log probabilities of the choices, -inf where they are impossible."""

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> np.ndarray:
        """Let each row continue a given row, and return the ids that decoders read next."""


class TextRules:
    """A text ends with its END, at the last step in any case. Training reads this class too."""

    def __init__(self, sizes_R: np.ndarray, max_words: int, end: int = END) -> None:
        self.max_steps, self._end = max_words, end
        self.done = sizes_R == 0
        self._steps = 0

    def restrict(self, log_RA: np.ndarray) -> np.ndarray:
        log_RA[:, UNKNOWN] = -np.inf
        if self._steps + 1 == self.max_steps:
            log_RA[:, END + 1 :] = -np.inf
            log_RA[:, END] = 0.0  # certain, even if its probability is 0 in 32 bits
        return log_RA

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> np.ndarray:
        self._steps += 1
        self.done = self.done[parent_R] | (choice_R == self._end)
        return choice_R


class RuntimeWriter:
    """Writes texts with several decoders, which choose by the product of their probabilities.

    Args:
        begin: from the tokens of each hypothesis, [R], to the rules of its text.
    """

    def __init__(
        self,
        decoders: Sequence[StepDecoder],
        search: TextSearch,
        begin: Callable[[np.ndarray], Rules] | None = None,
    ) -> None:
        self._decoders = decoders
        self._search = search
        self._begin = begin or partial(TextRules, max_words=search.max_words)

    @classmethod
    def read(
        cls,
        note: Mapping[str, Any],
        path: Path,
        begin: Callable[[np.ndarray], Rules] | None = None,
    ) -> "RuntimeWriter":
        """Read a file of all weights, flat, whose names and shapes the note has by decoder."""
        flat, place = np.load(path, allow_pickle=False), 0
        decoders = []
        for shapes in note["weights"]:
            weights = {}
            for name, shape in shapes:
                size = int(np.prod(shape))
                weights[name] = flat[place : place + size].reshape(shape)
                place += size
            decoders.append(Decoder(weights))
        return cls(decoders, TextSearch(**note["search"]), begin)

    def write(self, x_BTD: np.ndarray, copies: Sequence[Sequence[int]]) -> Written:
        """Write a text for each example; `copies` are the ids of its tokens."""
        beam = self._search.beam
        mask_BT = np.arange(x_BTD.shape[1]) < np.array([*map(len, copies)])[:, None]
        copies_BT = np.full(mask_BT.shape, END)
        for row, ids in enumerate(copies):
            copies_BT[row, : len(ids)] = ids
        mask_RT, copies_RT = np.repeat(mask_BT, beam, 0), np.repeat(copies_BT, beam, 0)
        parts = np.split(np.repeat(x_BTD, beam, 0), len(self._decoders), -1)
        states = [
            decoder.read(np.full(len(part), -1), part, decoder.start(part))
            for decoder, part in zip(self._decoders, parts, strict=True)
        ]
        total_BK = np.full((len(x_BTD), beam), -np.inf)
        total_BK[:, 0] = 0.0
        rules = self._begin(mask_RT.sum(1))
        written_RS = np.empty((total_BK.size, 0), dtype=np.int64)
        for step in range(rules.max_steps):
            done_R = rules.done
            if (done_R | np.isinf(total_BK.ravel())).all():
                break
            items = zip(self._decoders, states, parts, strict=True)
            log_RA = sum(
                decoder.rate(state[0], part, mask_RT, copies_RT) for decoder, state, part in items
            )
            assert isinstance(log_RA, np.ndarray)
            score_RA = _normalise(rules.restrict(log_RA) / self._search.temperature)
            score_RA = np.where(done_R[:, None], -np.inf, score_RA.astype(np.float64))
            parent_R, choice_R, total_BK = self._choose(score_RA, done_R, total_BK, copies, step)
            written_RS = np.concatenate([written_RS[parent_R], choice_R[:, None]], 1)
            ids_R = rules.advance(parent_R, choice_R)
            states = [
                decoder.read(ids_R, part, tuple(item[parent_R] for item in state))
                for decoder, part, state in zip(self._decoders, parts, states, strict=True)
            ]
        return self._take_best(rules.done, written_RS, total_BK)

    def _choose(
        self,
        score_RA: np.ndarray,
        done_R: np.ndarray,
        total_BK: np.ndarray,
        copies: Sequence[Sequence[int]],
        step: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return parents, choices and log probabilities after a step."""
        batch, beam = total_BK.shape
        if self._search.top_p is not None:
            seed, top_p = self._search.seed, self._search.top_p
            choice_R = np.array(
                [
                    STAY
                    if done
                    else choose_nucleus(row, top_p, draw_number(seed, copies[place], step))
                    for place, (row, done) in enumerate(zip(score_RA, done_R, strict=True))
                ]
            )
            rows = np.arange(batch)
            gained_B = np.where(done_R, 0.0, score_RA[rows, choice_R])
            return rows, choice_R, total_BK + gained_B[:, None]
        stay_R1 = np.where(done_R, 0.0, -np.inf)[:, None]
        num_choices = score_RA.shape[1] + 1
        each = np.concatenate([score_RA, stay_R1], 1).reshape(batch, beam, num_choices)
        flat = (each + total_BK[:, :, None]).reshape(batch, -1)
        best_BK = np.argpartition(-flat, beam - 1, axis=1)[:, :beam]
        order_BK = np.argsort(-np.take_along_axis(flat, best_BK, 1), axis=1, kind="stable")
        best_BK = np.take_along_axis(best_BK, order_BK, 1)
        total_BK = np.take_along_axis(flat, best_BK, 1)
        parent_R = (best_BK // num_choices + np.arange(batch)[:, None] * beam).ravel()
        choice_R = (best_BK % num_choices).ravel()
        stays = np.isinf(total_BK.ravel()) | (choice_R == num_choices - 1)
        return parent_R, np.where(stays, STAY, choice_R), total_BK

    def _take_best(
        self, done_R: np.ndarray, written_RS: np.ndarray, total_BK: np.ndarray
    ) -> Written:
        length_BK = np.clip((written_RS != STAY).sum(1), 1, None).reshape(total_BK.shape)
        rank_BK = total_BK / length_BK**self._search.penalty
        done_BK = done_R.reshape(total_BK.shape)
        rank_BK = np.where(~done_BK & done_BK.any(1, keepdims=True), -np.inf, rank_BK)
        best_B = rank_BK.argmax(1)
        rows = np.arange(len(best_B))
        ids = written_RS[rows * total_BK.shape[1] + best_B]
        return Written(ids, total_BK[rows, best_B])
