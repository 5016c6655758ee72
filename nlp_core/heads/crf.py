"""Linear-chain conditional random field: partition function, marginals and best path.

score(y) = start(y_1) + sum_t emission_t(y_t) + sum_t transition(y_{t-1}, y_t) + end(y_n).

The sums over all paths use 64-bit probabilities, rescaled at each token. They are exact for any
emissions, as long as no two transitions differ by more than about 600.

Shape letters: B batch, T tokens, L labels, I labels of the previous token, K directions.

Source: Lafferty et al. 2001 (conditional random fields), section 3; the scaling is that of hidden
    Markov models, Rabiner 1989, section V.A.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from nlp_core.blocks.masking import Mask, count_tokens
from nlp_core.blocks.recurrent import reverse_index


class Chain(NamedTuple):
    """The scores of a field."""

    emission: Tensor
    """Of each label at each token, [B, T, L]."""
    transition: Tensor
    """From the label of a row to that of a column, [L, L]."""
    start: Tensor
    """Of each label as the first, [L]."""
    end: Tensor
    """Of each label as the last, [L]."""


class Marginals(NamedTuple):
    """The results of the forward-backward algorithm.

    Two adjacent labels have the probability P(y_{t-1} = i, y_t = j) =
    before[b, t, i] * exp(transition[i, j] - largest transition) * after[b, t, j].
    """

    log_partition: Tensor
    """Log of the summed exp(score) of all paths, [B]."""
    label: Tensor
    """Probability of each label at each token, [B, T, L]; zeros at padding."""
    before: Tensor
    after: Tensor
    """As `before` [B, T - 1, L], zeros at padding."""


def compute_marginals(chain: Chain, mask_BT: Mask) -> Marginals:
    """Run the forward and the backward algorithm as one recursion over two batches.

    The backward algorithm is the forward one on reversed sentences with transposed transitions.
    Scores must be 64-bit floats. Real tokens come first; each sentence has at least one.
    """
    batch, time, _ = chain.emission.shape
    shift = chain.transition.max()
    weight_LL = (chain.transition - shift).exp()
    top_BT = chain.emission.amax(-1)
    weight_BTL = (chain.emission - top_BT.unsqueeze(-1)).exp()
    turn_BTL = reverse_index(mask_BT).unsqueeze(-1).expand_as(weight_BTL)
    both = _recur(
        torch.stack([weight_BTL, weight_BTL.gather(1, turn_BTL)]),
        torch.stack([weight_LL, weight_LL.t()]),
        torch.stack([chain.start, chain.end]),
    )
    last_B = count_tokens(mask_BT) - 1
    rows_B = torch.arange(batch, device=mask_BT.device)
    finish_B = (both.belief[0, rows_B, last_B] * (chain.end - chain.end.max()).exp()).sum(-1)
    log_scale_BT = both.scale[0].log() + top_BT
    log_scale_BT[:, 1:] += shift
    log_partition_B = (log_scale_BT * mask_BT).sum(1) + finish_B.log() + chain.end.max()
    log_partition_B += chain.start.max()
    backward_BTL = both.belief[1].gather(1, turn_BTL)
    joint_BTL = both.message[0] * backward_BTL
    total_BT1 = joint_BTL.sum(-1, keepdim=True)
    mask_BT1 = mask_BT.unsqueeze(-1)
    return Marginals(
        log_partition=log_partition_B,
        label=(joint_BTL / total_BT1).masked_fill(~mask_BT1, 0.0),
        before=both.belief[0, :, : time - 1] * mask_BT1[:, 1:],
        after=(backward_BTL / total_BT1)[:, 1:].masked_fill(~mask_BT1[:, 1:], 0.0),
    )


class _Recursion(NamedTuple):
    """Each is [2, B, T, L] but scale [2, B, T]: belief = message * weight / scale, summing to 1."""

    message: Tensor
    belief: Tensor
    scale: Tensor


def _recur(weight_KBTL: Tensor, weight_KLL: Tensor, first_KL: Tensor) -> _Recursion:
    """Pass beliefs along the tokens of K batches, each with its own transitions."""
    weights = weight_KBTL.unbind(2)
    first_K1L = (first_KL - first_KL.amax(-1, keepdim=True)).exp().unsqueeze(1)
    message = first_K1L.expand_as(weights[0])
    messages: list[Tensor] = []
    beliefs: list[Tensor] = []
    scales: list[Tensor] = []
    for weight_KBL in weights:
        if beliefs:
            message = torch.bmm(beliefs[-1], weight_KLL)
        joint_KBL = message * weight_KBL
        scale_KB1 = joint_KBL.sum(-1, keepdim=True)
        messages.append(message)
        beliefs.append(joint_KBL / scale_KB1)
        scales.append(scale_KB1)
    return _Recursion(torch.stack(messages, 2), torch.stack(beliefs, 2), torch.cat(scales, -1))


class LogPartition(torch.autograd.Function):
    """log Z of each sentence, whose gradient is the marginals: no graph through the recursion."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        emission_BTL: Float[Tensor, "B T L"],
        transition_LL: Float[Tensor, "L L"],
        start_L: Float[Tensor, " L"],
        end_L: Float[Tensor, " L"],
        mask_BT: Mask,
    ) -> Float[Tensor, " B"]:
        found = compute_marginals(Chain(emission_BTL, transition_LL, start_L, end_L), mask_BT)
        weight_LL = (transition_LL - transition_LL.max()).exp()
        last_B = count_tokens(mask_BT) - 1
        ctx.save_for_backward(found.label, found.before, found.after, weight_LL, last_B)
        return found.log_partition

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_B: Tensor) -> tuple[Tensor | None, ...]:
        """Return the expected counts of labels and of pairs, times the gradient of log Z."""
        label_BTL, before_BTI, after_BTL, weight_LL, last_B = ctx.saved_tensors  # type: ignore[attr-defined]  # set by save_for_backward
        grad_emission_BTL = label_BTL * grad_B.view(-1, 1, 1)
        pair_LL = (before_BTI * grad_B.view(-1, 1, 1)).flatten(0, 1).t() @ after_BTL.flatten(0, 1)
        rows_B = torch.arange(len(last_B), device=last_B.device)
        grad_start_L = grad_emission_BTL[:, 0].sum(0)
        grad_end_L = grad_emission_BTL[rows_B, last_B].sum(0)
        return grad_emission_BTL, pair_LL * weight_LL, grad_start_L, grad_end_L, None


def compute_log_partition(chain: Chain, mask_BT: Mask) -> Float[Tensor, " B"]:
    """Return log Z of each sentence, differentiable once in all scores."""
    log_partition_B: Tensor = LogPartition.apply(*chain, mask_BT)  # type: ignore[no-untyped-call]
    return log_partition_B


def score_path(chain: Chain, label_BT: Int[Tensor, "B T"], mask_BT: Mask) -> Float[Tensor, " B"]:
    """Return the score of one labelling of each sentence; labels at padding are not read."""
    num_labels = chain.emission.shape[-1]
    label_BT = label_BT.masked_fill(~mask_BT, 0)
    emission_BT = chain.emission.gather(-1, label_BT.unsqueeze(-1)).squeeze(-1)
    pair_BT = label_BT[:, :-1] * num_labels + label_BT[:, 1:]
    step_BT = chain.transition.reshape(-1).index_select(0, pair_BT.reshape(-1)).view_as(pair_BT)
    last_B1 = label_BT.gather(1, (count_tokens(mask_BT) - 1).unsqueeze(1))
    ends_B = chain.start.index_select(0, label_BT[:, 0])
    ends_B = ends_B + chain.end.index_select(0, last_B1.squeeze(1))
    steps_B = (step_BT * mask_BT[:, 1:]).sum(1)
    return ends_B + (emission_BT * mask_BT).sum(1) + steps_B


def find_best_path(chain: Chain, mask_BT: Mask) -> Int[Tensor, "B T"]:
    """Return the labels of the highest score (Viterbi); those at padding repeat the last one."""
    last_B = count_tokens(mask_BT) - 1
    score_BL = chain.emission[:, 0] + chain.start
    scores, pointers = [score_BL], []
    for emission_BL in chain.emission.unbind(1)[1:]:
        best = (score_BL.unsqueeze(-1) + chain.transition).max(1)
        score_BL = best.values + emission_BL
        scores.append(score_BL)
        pointers.append(best.indices)
    rows_B = torch.arange(len(last_B), device=last_B.device)
    label_B = (torch.stack(scores, 1)[rows_B, last_B] + chain.end).argmax(-1)
    path = [label_B]
    for idx in range(len(pointers), 0, -1):
        before_B = pointers[idx - 1].gather(1, label_B.unsqueeze(1)).squeeze(1)
        label_B = torch.where(idx <= last_B, before_B, label_B)
        path.append(label_B)
    return torch.stack(path[::-1], 1)
