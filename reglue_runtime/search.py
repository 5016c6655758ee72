"""Search for the likeliest answer that is written step by step. Training searches by it too.

Shape letters: B batch, K hypotheses of an example, R all hypotheses (B times K), A choices of a
step, S steps.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

STAY = -1
"""What a finished hypothesis writes."""
Draw: TypeAlias = Callable[[int, int], float]
"""Returns the random number, from 0 to 1, of an example and a step."""


class StepWriter(Protocol):
    """Hypotheses that are written step by step; those of an example are K rows in a run."""

    @property
    def done(self) -> np.ndarray:
        """Which hypotheses are complete, [R]."""

    def score(self) -> np.ndarray:
        """Return the log probability of each choice, -inf where it is impossible, [R, A]."""

    def advance(self, parent_R: np.ndarray, choice_R: np.ndarray) -> None:
        """Let each row go on from another one of its example, by a choice or STAY."""


class Written(NamedTuple):
    """The best answer of each example: choices [B, S], STAY after the end; log probability [B]."""

    choices: np.ndarray
    log_prob: np.ndarray


class Step(NamedTuple):
    """What each hypothesis goes on from and writes, [R], and its log probability then, [B, K]."""

    parent: np.ndarray
    choice: np.ndarray
    total: np.ndarray


def search(
    writer: StepWriter,
    *,
    batch: int,
    beam: int,
    max_steps: int,
    penalty: float = 0.0,
    top_p: float | None = None,
    draw: Draw | None = None,
) -> Written:
    """Return the likeliest answers that a beam search finds, or answers that are drawn.

    Args:
        beam: hypotheses of an example; 1: the greedy choice.
        max_steps: after which the search ends in any case.
        penalty: exponent of the length by which log probabilities are divided at the end.
        top_p: least probability of the likeliest choices that `draw` draws from, with a beam of 1;
            None: nothing is drawn.

    Source: Graves 2012 (sequence transduction), for the beam; Wu et al. 2016, eq. 14, for the
        exponent, with the length itself as base.
    """
    total_BK = np.full((batch, beam), -np.inf)
    total_BK[:, 0] = 0.0
    written_RS = np.empty((batch * beam, 0), dtype=np.int64)
    for number in range(max_steps):
        done_R = writer.done
        if (done_R | np.isinf(total_BK.ravel())).all():
            break
        score_RA = writer.score().astype(np.float64)
        if top_p is None or draw is None:
            step = _choose(score_RA, done_R, total_BK)
        else:
            step = _draw(score_RA, done_R, total_BK, top_p, [draw(b, number) for b in range(batch)])
        writer.advance(step.parent, step.choice)
        written_RS = np.concatenate([written_RS[step.parent], step.choice[:, None]], 1)
        total_BK = step.total
    return _take_best(written_RS, total_BK, writer.done, penalty)


def _choose(score_RA: np.ndarray, done_R: np.ndarray, total_BK: np.ndarray) -> Step:
    """Return the K likeliest steps of each example."""
    batch, beam = total_BK.shape
    open_RA = np.where(done_R[:, None], -np.inf, score_RA)
    stay_R1 = np.where(done_R, 0.0, -np.inf)[:, None]
    num_choices = score_RA.shape[1] + 1
    each = np.concatenate([open_RA, stay_R1], 1).reshape(batch, beam, num_choices)
    flat = (each + total_BK[:, :, None]).reshape(batch, -1)
    best_BK = np.argpartition(-flat, beam - 1, axis=1)[:, :beam]
    order_BK = np.argsort(-np.take_along_axis(flat, best_BK, 1), axis=1, kind="stable")
    best_BK = np.take_along_axis(best_BK, order_BK, 1)
    total_BK = np.take_along_axis(flat, best_BK, 1)
    parent_R = (best_BK // num_choices + np.arange(batch)[:, None] * beam).ravel()
    choice_R = (best_BK % num_choices).ravel()
    stays_R = np.isinf(total_BK.ravel()) | (choice_R == num_choices - 1)
    return Step(parent_R, np.where(stays_R, STAY, choice_R), total_BK)


def _draw(
    score_RA: np.ndarray,
    done_R: np.ndarray,
    total_BK: np.ndarray,
    top_p: float,
    shares: list[float],
) -> Step:
    """Return a drawn step of each example, which has one hypothesis."""
    items = zip(score_RA, done_R, shares, strict=True)
    choices = [STAY if done else choose_nucleus(row, top_p, share) for row, done, share in items]
    choice_R, rows = np.array(choices), np.arange(len(score_RA))
    gained_R = np.where(done_R, 0.0, score_RA[rows, choice_R])
    return Step(rows, choice_R, total_BK + gained_R[:, None])


def choose_nucleus(log_prob_A: np.ndarray, top_p: float, share: float) -> int:
    """Return the choice at a share of the likeliest choices, whose sum is at least `top_p`.

    Source: Holtzman et al. 2020 (neural text degeneration), section 3.1.
    """
    order = np.argsort(-log_prob_A, kind="stable")
    total = np.cumsum(np.exp(log_prob_A[order].astype(np.float64)))
    size = int(np.searchsorted(total, top_p * total[-1])) + 1
    nucleus = total[: min(size, len(total))]
    return int(order[min(int(np.searchsorted(nucleus, share * nucleus[-1], "right")), size - 1)])


def _take_best(
    written_RS: np.ndarray, total_BK: np.ndarray, done_R: np.ndarray, penalty: float
) -> Written:
    length_BK = np.clip((written_RS != STAY).sum(1), 1, None).reshape(total_BK.shape)
    rank_BK = total_BK / length_BK**penalty
    # an incomplete hypothesis can only be the best where none is complete
    done_BK = done_R.reshape(total_BK.shape)
    rank_BK = np.where(~done_BK & done_BK.any(1, keepdims=True), -np.inf, rank_BK)
    best_B = rank_BK.argmax(1)
    rows_B = np.arange(len(best_B)) * total_BK.shape[1] + best_B
    return Written(written_RS[rows_B], total_BK[np.arange(len(best_B)), best_B])
