"""Search for the likeliest answer that is written step by step.

Shape letters: B batch, K hypotheses of an example, R all hypotheses (B times K), A choices of a
step, S steps.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from reglue_runtime.writing import choose_nucleus

STAY = -1
"""What a finished hypothesis writes."""


@runtime_checkable
class Writer(Protocol):
    """Hypotheses that are written step by step; those of an example are K rows in a run."""

    @property
    def done(self) -> Tensor:
        """Which hypotheses are complete, [R]."""

    def score(self) -> Tensor:
        """Return the log probability of each choice, -inf where it is impossible, [R, A]."""

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        """Let each row go on from another one of its example, by a choice or STAY."""


class BestChoices(NamedTuple):
    """The best hypothesis of each example.

    Attributes:
        choices: [B, S], STAY after the end.
        log_prob: of the whole, [B].
    """

    choices: Tensor
    log_prob: Tensor

    def join(self) -> Tensor:
        """Return log probability and choices of each answer as numbers, [B, 1 + S]."""
        return torch.cat([self.log_prob.unsqueeze(1), self.choices.double()], 1)


@torch.no_grad()
def search(
    writer: Writer, *, batch: int, beam: int, max_steps: int, penalty: float = 0.0
) -> BestChoices:
    """Return the likeliest answers that a beam search finds.

    Args:
        beam: hypotheses of an example; 1: the greedy choice.
        max_steps: after which the search ends in any case.
        penalty: exponent of the length by which log probabilities are divided at the end.

    Source: Graves 2012 (sequence transduction), for the beam; Wu et al. 2016, eq. 14, for the
        exponent, with the length itself as base.
    """
    total_BK = torch.full((batch, beam), -torch.inf, dtype=torch.float64)
    total_BK[:, 0] = 0.0
    first_B1 = torch.arange(batch).unsqueeze(1) * beam
    written_RS = torch.empty(batch * beam, 0, dtype=torch.int64)
    for _ in range(max_steps):
        done_R = writer.done.cpu()
        if bool((done_R | total_BK.isinf().flatten()).all()):
            break
        score_RA = writer.score().double().cpu().masked_fill(done_R.unsqueeze(1), -torch.inf)
        stay_R1 = torch.where(done_R, 0.0, -torch.inf).unsqueeze(1)
        num_choices = score_RA.shape[1] + 1
        each = torch.cat([score_RA, stay_R1], 1).view(batch, beam, num_choices)
        best = (each + total_BK.unsqueeze(-1)).flatten(1).topk(beam)
        total_BK = best.values
        parent_R = (best.indices // num_choices + first_B1).flatten()
        choice_R = (best.indices % num_choices).flatten()
        stays = total_BK.isinf().flatten() | (choice_R == num_choices - 1)
        choice_R = choice_R.masked_fill(stays, STAY)
        writer.advance(parent_R, choice_R)
        written_RS = torch.cat([written_RS[parent_R], choice_R.unsqueeze(1)], 1)
    done_BK = writer.done.cpu().view(batch, beam)
    length_BK = (written_RS != STAY).sum(1).view(batch, beam).clamp(min=1)
    rank_BK = total_BK / length_BK.double() ** penalty
    # a hypothesis that is not done can only be the best where none is
    rank_BK = rank_BK.masked_fill(~done_BK & done_BK.any(1, keepdim=True), -torch.inf)
    best_B = rank_BK.argmax(1)
    rows_B = best_B + first_B1.squeeze(1)
    return BestChoices(written_RS[rows_B], total_BK.gather(1, best_B.unsqueeze(1)).squeeze(1))


@torch.no_grad()
def sample(
    writer: Writer, *, max_steps: int, top_p: float, draw: Callable[[int, int], float]
) -> BestChoices:
    """Return an answer for each example, whose choices are drawn; see `choose_nucleus`.

    Args:
        top_p: least probability of the likeliest choices that are drawn from.
        draw: returns a number from 0 to 1 for an example and a step.
    """
    total_B = torch.zeros(len(writer.done), dtype=torch.float64)
    rows_B = torch.arange(len(total_B))
    written_BS = torch.empty(len(total_B), 0, dtype=torch.int64)
    for step in range(max_steps):
        done = writer.done.tolist()
        if all(done):
            break
        score_BA = writer.score().double().cpu()
        choices = [
            STAY if is_done else choose_nucleus(row, top_p, draw(place, step))
            for place, (row, is_done) in enumerate(zip(score_BA.numpy(), done, strict=True))
        ]
        choice_B = torch.tensor(choices)
        gained_B = score_BA[rows_B, choice_B.clamp(min=0)]
        total_B = total_B + gained_B.masked_fill(choice_B == STAY, 0.0)
        writer.advance(rows_B, choice_B)
        written_BS = torch.cat([written_BS, choice_B.unsqueeze(1)], 1)
    return BestChoices(written_BS, total_B)
