"""Texts that a bundle writes in pieces, with a graph that rates the next piece.

Shape letters: B batch, T pieces that are read, S pieces that are written, D width, R hypotheses,
V pieces of the vocabulary.

Source: as of nlp_core/heads/piece_writing.py, whose numbers these are.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reglue_runtime.example import InputExample
from reglue_runtime.session import Graph, Session
from reglue_runtime.writing import RuntimeWriter, State, TextRules, TextSearch

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def join_pieces(tokenizer: "Tokenizer", ids: Sequence[int]) -> str:
    """Return the text of pieces, with one space between words; numbers below 0 are left out."""
    return " ".join(tokenizer.decode([idx for idx in ids if idx >= 0]).split())


class GraphDecoder:
    """A decoder that reads all pieces before in each step."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def start(self, x_BTD: np.ndarray) -> State:
        return (np.empty((len(x_BTD), 0), dtype=np.int64),)

    def read(self, before_R: np.ndarray, x_RTD: np.ndarray, state: State) -> State:
        return (np.concatenate([state[0], before_R[:, None]], 1),)

    def rate(
        self, read_RS: np.ndarray, x_RTD: np.ndarray, mask_RT: np.ndarray, copies_RT: np.ndarray
    ) -> np.ndarray:
        given = {"states": x_RTD, "inside": mask_RT.astype(np.int64), "before": read_RS}
        return self._graph.run(given)["scores"]


class PieceRules(TextRules):
    """A text ends with its piece `end`, at the last step in any case."""

    def restrict(self, log_RA: np.ndarray) -> np.ndarray:
        if self._steps + 1 < self.max_steps:
            return log_RA
        return np.where(np.arange(log_RA.shape[1]) == self._end, log_RA, -np.inf)


class PieceText:
    """Writes texts for what an encoder read."""

    def __init__(self, writer: RuntimeWriter, tokenizer: "Tokenizer") -> None:
        self._writer, self._tokenizer = writer, tokenizer

    @classmethod
    def read(cls, note: Mapping[str, Any], folder: Path, num_threads: int) -> "PieceText":
        """Read the graph and the tokenizer that the note of a head names."""
        # Imported here: only models of pieces need it.
        from tokenizers import Tokenizer

        rules = partial(PieceRules, end=note["end"], max_words=note["search"]["max_words"])
        decoder = GraphDecoder(Session(folder / note["file"], num_threads=num_threads))
        writer = RuntimeWriter([decoder], TextSearch(**note["search"]), rules)
        return cls(writer, Tokenizer.from_file(str(folder / note["tokenizer"])))

    def write(
        self, states_BTD: np.ndarray, examples: Sequence[InputExample]
    ) -> list[dict[str, Any]]:
        # the states of padding are 0, and those of pieces are not
        sizes = (states_BTD != 0).any(-1).sum(1).tolist()
        found = self._writer.write(states_BTD, [range(size) for size in sizes])
        return [
            {"text": join_pieces(self._tokenizer, ids), "confidence": float(np.exp(log_prob))}
            for ids, log_prob in zip(found.choices.tolist(), found.log_prob.tolist(), strict=True)
        ]
