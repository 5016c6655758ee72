"""Decode answers as spans of a passage, as the head `span` does, in 64-bit floats.

Shape letters: B batch, T tokens of the passage, S positions: the tokens, after one for "no answer"
if questions may have none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reglue_runtime.example import InputExample
from reglue_runtime.text import Offsets

PASSAGE, TOKENS = "text_b", "tokens_b"


def find_answers(
    scores_BS2: np.ndarray,
    examples: Sequence[InputExample],
    *,
    locate: Callable[[str], list[Offsets]],
    max_tokens: int,
    threshold: float | None,
) -> list[dict[str, Any]]:
    """Return each answer with its first and last token and its probability.

    `threshold`: an empty answer is given if its log-probability exceeds the best span's by more;
    None if every question has an answer.
    """
    found = []
    for scores_S2, example in zip(scores_BS2, examples, strict=True):
        passage, tokens = example.texts[PASSAGE], example.tokens[TOKENS]
        shift = int(threshold is not None)
        log_S2 = _normalise(scores_S2[: shift + len(tokens)].astype(np.float64))
        first, last, score = find_best_span(log_S2[shift:, 0], log_S2[shift:, 1], max_tokens)
        item = {"answer": "", "first": first, "last": last, "confidence": float(np.exp(score))}
        none = float(log_S2[0].sum())
        if threshold is not None and none - score > threshold:
            item |= {"first": None, "last": None, "confidence": float(np.exp(none))}
        else:
            places = _find_places(passage, tokens, locate)
            item["answer"] = passage[places[first].start : places[last].end]
        found.append(item)
    return found


def find_best_span(
    start_T: np.ndarray, end_T: np.ndarray, max_tokens: int
) -> tuple[int, int, float]:
    """Return the pair i <= j < i + max_tokens with the highest start_i + end_j, and that sum.

    Ties go to the first i, then to the first j.
    """
    width = min(max_tokens, len(start_T))
    padded = np.concatenate([end_T, np.full(width - 1, -np.inf)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    more_T = windows.argmax(-1)
    score_T = start_T + np.take_along_axis(windows, more_T[:, None], -1)[:, 0]
    first = int(score_T.argmax())
    return first, first + int(more_T[first]), float(score_T[first])


def _normalise(scores_S2: np.ndarray) -> np.ndarray:
    shifted = scores_S2 - scores_S2.max(0)
    log_S2: np.ndarray = shifted - np.log(np.exp(shifted).sum(0))
    return log_S2


def _find_places(
    passage: str, tokens: Sequence[str], locate: Callable[[str], list[Offsets]]
) -> list[Offsets]:
    """Return the tokens' offsets; given tokens have one space between them."""
    places = locate(passage)
    if [passage[place.start : place.end] for place in places] == list(tokens):
        return places
    ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
    return [
        Offsets(int(end) - len(token), int(end)) for token, end in zip(tokens, ends, strict=True)
    ]
