"""Heads that label tokens: each by a softmax, or a sentence by a conditional random field.

Shape letters: B batch, T tokens, D width of the input, L labels, N real tokens of a batch.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, zero_padding
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head
from nlp_core.heads.crf import (
    Chain,
    compute_log_partition,
    compute_marginals,
    find_best_path,
    score_path,
)
from nlp_core.heads.loss import LabelLossHead, compute_label_loss

LEAST_MARGINAL = 1e-30
"""The least marginal of which the logarithm is taken."""
Reduction = Literal["sentence", "token"]


class EmissionHead(Head):
    """Score each label at each token: W x_t + b.

    Args:
        reduction: whether the summed loss is divided by the number of sentences with tokens
            (`sentence`) or of real tokens (`token`).
    """

    kinds = frozenset({"tagging", "intent_slots"})
    target = "tags"
    ranks = ((SEQUENCE,),)

    def __init__(self, in_dim: int, num_labels: int, *, reduction: Reduction = "sentence") -> None:
        super().__init__()
        self.emission = nn.Linear(in_dim, num_labels)
        self.reduction = reduction

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> Float[Tensor, "B T L"]:
        return zero_padding(self.emission(x_BTD), mask_BT)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of sentences or tokens, at least 1."""
        assert where is not None
        real = where.any(1) if self.reduction == "sentence" else where
        return real.sum().clamp(min=1)

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        assert where is not None
        return where.sum()

    def outputs(self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask) -> Float[Tensor, "N L"]:
        """Return the scores of the labels, a row for each real token.

        A softmax of the emissions of a random field is not its marginals, but it changes with the
        words whenever the field does: transitions do not depend on words.
        """
        return scores_BTL.flatten(0, 1).index_select(0, mask_BT.flatten().nonzero().squeeze(1))


@HEADS.register("tagging")
class TaggingHead(LabelLossHead, EmissionHead):
    """Label each token by itself: p_t = softmax(W x_t + b).

    loss = sum over real tokens of w(y_t) l_t, divided by the number of sentences or tokens, where w
    is 1 without class weights and l_t is the chosen loss, by default -log p_t(y_t).

    Shape: [B, T, D] to [B, T, L].
    """

    def loss(
        self, scores_BTL: Float[Tensor, "B T L"], target_BT: Int[Tensor, "B T"], mask_BT: Mask
    ) -> Float[Tensor, ""]:
        target_BT = target_BT.masked_fill(~mask_BT, PADDING_LABEL)
        total = compute_label_loss(
            scores_BTL.flatten(0, 1),
            target_BT.flatten(),
            self.loss_config,
            self.class_weights,
            reduction="sum",
        )
        return total / self.count_terms(target_BT, mask_BT)

    def decode(self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask) -> Decoded:
        return Decoded(scores_BTL.argmax(-1).masked_fill(~mask_BT, PADDING_LABEL), None)

    def marginals(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask
    ) -> Float[Tensor, "B T L"]:
        """Return the probability of each label at each token, zeros at padding."""
        return zero_padding(scores_BTL.softmax(-1), mask_BT)


@HEADS.register("crf_tagging")
class CRFTaggingHead(EmissionHead):
    """Label a sentence as a whole: p(y) = exp(score(y)) / Z, a linear-chain random field.

    score(y) = start(y_1) + sum_t (W x_t + b)(y_t) + sum_t transition(y_{t-1}, y_t) + end(y_n);
    loss = sum over sentences of log Z - score(target), divided by their number or the tokens'.
    Transitions, start and end begin at zero.

    Shape: [B, T, D] to emissions [B, T, L].

    Source: Lample et al. 2016 (neural architectures for NER), section 2.2.
    """

    structured = True

    def __init__(self, in_dim: int, num_labels: int, **options: Reduction) -> None:
        super().__init__(in_dim, num_labels, **options)
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    def loss(
        self, scores_BTL: Float[Tensor, "B T L"], target_BT: Int[Tensor, "B T"], mask_BT: Mask
    ) -> Float[Tensor, ""]:
        chain, full_BT = self._chain(scores_BTL), _fill_empty(mask_BT)
        score_B = score_path(chain, target_BT.masked_fill(~mask_BT, 0), full_BT)
        loss_B = (compute_log_partition(chain, full_BT) - score_B) * mask_BT[:, 0]
        total = loss_B.sum().to(self.transition.dtype)
        return total / self.count_terms(target_BT, mask_BT)

    def decode(self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask) -> Decoded:
        path_BT = find_best_path(self._chain(scores_BTL), _fill_empty(mask_BT))
        return Decoded(path_BT.masked_fill(~mask_BT, PADDING_LABEL), None)

    def marginals(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask
    ) -> Float[Tensor, "B T L"]:
        with torch.no_grad():
            found = compute_marginals(self._chain(scores_BTL), _fill_empty(mask_BT))
        return zero_padding(found.label.to(scores_BTL.dtype), mask_BT)

    def soften(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Mask | None
    ) -> Float[Tensor, "B T L"]:
        """Return the log-probability of each label at each token, differentiable.

        Source: Wang et al. 2020 (structure-level knowledge distillation), section 3.2, posterior
            distillation: marginals describe the field, and a softmax can learn them too.
        """
        assert mask_BT is not None
        found = compute_marginals(self._chain(scores_BTL), _fill_empty(mask_BT))
        return found.label.clamp(min=LEAST_MARGINAL).log().to(scores_BTL.dtype)

    def _chain(self, scores_BTL: Tensor) -> Chain:
        parts = scores_BTL, self.transition, self.start, self.end
        return Chain(*(part.double() for part in parts))


def _fill_empty(mask_BT: Tensor) -> Tensor:
    """Make the first position of each sentence real: the recursions need a token."""
    first_T = torch.arange(mask_BT.shape[1], device=mask_BT.device) == 0
    return mask_BT | first_T
