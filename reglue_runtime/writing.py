"""Texts that a model writes word by word: from ids to words, and the decoder.

An id below V, the number of a decoder's symbols, is END, UNKNOWN, or from FIRST on a word of its
list. V + j is a copy of the token at place j, whose word the list lacks.

Shape letters: B batch, T tokens, D width of a token, H width of the decoder, V symbols, K
hypotheses of an example, R all hypotheses (B times K), A choices of a step (V + T), S steps.

Source: as of nlp_core/heads/pointer.py, whose numbers these are.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from reglue_runtime.search import Written, search

END, UNKNOWN, FIRST = 0, 1, 2
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


class _Hypotheses:
    """Texts of a batch that several decoders write."""

    def __init__(
        self,
        decoders: Sequence[StepDecoder],
        parts: Sequence[np.ndarray],
        mask_RT: np.ndarray,
        copies_RT: np.ndarray,
        rules: Rules,
        temperature: float,
    ) -> None:
        self._parts = [*zip(decoders, parts, strict=True)]
        self._mask, self._copies = mask_RT, copies_RT
        self._rules, self._temperature = rules, temperature
        self._states = [
            decoder.read(np.full(len(part), -1), part, decoder.start(part))
            for decoder, part in self._parts
        ]

    @property
    def done(self) -> np.ndarray:
        return self._rules.done

    def score(self) -> np.ndarray:
        log_RA = sum(
            decoder.rate(state[0], part, self._mask, self._copies)
            for (decoder, part), state in zip(self._parts, self._states, strict=True)
        )
        assert isinstance(log_RA, np.ndarray)
        return _normalise(self._rules.restrict(log_RA) / self._temperature)

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> None:
        ids_R = self._rules.advance(parent_R, choice_R)
        self._states = [
            decoder.read(ids_R, part, tuple(item[parent_R] for item in state))
            for (decoder, part), state in zip(self._parts, self._states, strict=True)
        ]


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
        options = self._search
        mask_BT = np.arange(x_BTD.shape[1]) < np.array([*map(len, copies)])[:, None]
        copies_BT = np.full(mask_BT.shape, END)
        for row, ids in enumerate(copies):
            copies_BT[row, : len(ids)] = ids
        mask_RT, copies_RT = (
            np.repeat(mask_BT, options.beam, 0),
            np.repeat(copies_BT, options.beam, 0),
        )
        parts = np.split(np.repeat(x_BTD, options.beam, 0), len(self._decoders), -1)
        rules = self._begin(mask_RT.sum(1))
        return search(
            _Hypotheses(self._decoders, parts, mask_RT, copies_RT, rules, options.temperature),
            batch=len(x_BTD),
            beam=options.beam,
            max_steps=rules.max_steps,
            penalty=options.penalty,
            top_p=options.top_p,
            draw=lambda place, step: draw_number(options.seed, copies[place], step),
        )
