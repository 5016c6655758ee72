"""Heads that give every token a label: softmax of each alone, or a conditional random field.

Shape letters: B batch, T tokens, D width of the input, L labels, N real tokens of a batch.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveFloat
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head
from nlp_core.heads.crf import (
    Chain,
    compute_log_partition,
    compute_marginals,
    find_best_path,
    score_path,
)
from nlp_core.heads.loss import (
    CROSS_ENTROPY,
    LabelLoss,
    build_class_weights,
    compute_label_loss,
)

LEAST_MARGINAL = 1e-30
"""What a marginal counts as at least where its logarithm is taken."""
Reduction = Literal["sentence", "token"]
"""What the summed loss of a batch is divided by: its sentences or its real tokens."""


def count_units(mask_BT: Bool[Tensor, "B T"], reduction: Reduction) -> Int[Tensor, ""]:
    """Return the number of sentences that have tokens, or of tokens; at least 1."""
    real = mask_BT.any(1) if reduction == "sentence" else mask_BT
    return real.sum().clamp(min=1)


def select_tokens(
    scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]
) -> Float[Tensor, "N L"]:
    """Return the scores of the real tokens, one behind the other."""
    return scores_BTL.flatten(0, 1).index_select(0, mask_BT.flatten().nonzero().squeeze(1))


@HEADS.register("tagging")
class TaggingHead(Head):
    """Label each token by itself: p_t = softmax(W x_t + b).

    loss = sum over real tokens of w(y_t) l_t, divided by the number of sentences or tokens, where w
    is 1 without class weights and l_t is the chosen loss, by default -log p_t(y_t).

    Args:
        in_dim: width D of the input.
        num_labels: number of labels L.
        reduction: `sentence` or `token`, see above.
        class_weights: weight of each label in the loss, in the order of the labels.
        loss: `cross_entropy`, with a share of `label_smoothing`, or `focal`, with its `gamma`.

    Shape: [B, T, D] to [B, T, L].

    Raises:
        ConfigError: the number of class weights is not the number of labels.
    """

    kinds = frozenset({"tagging", "intent_slots"})
    target = "tags"
    comparable = True
    ranks = ((SEQUENCE,),)
    class_weights: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        reduction: Reduction = "sentence",
        class_weights: Sequence[PositiveFloat] | None = None,
        loss: LabelLoss = CROSS_ENTROPY,
    ) -> None:
        super().__init__()
        weight_L = build_class_weights("tagging", class_weights, num_labels)
        self.emission = nn.Linear(in_dim, num_labels)
        self.register_buffer("class_weights", weight_L, persistent=False)
        self.reduction = reduction
        self.choice = loss

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T L"]:
        """Return the logits of the labels, zeros at padding."""
        return zero_padding(self.emission(x_BTD), mask_BT)

    def loss(
        self,
        scores_BTL: Float[Tensor, "B T L"],
        target_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """Return the mean of the losses; targets at padding are not read."""
        target_BT = target_BT.masked_fill(~mask_BT, PADDING_LABEL)
        total = compute_label_loss(
            scores_BTL.flatten(0, 1),
            target_BT.flatten(),
            self.choice,
            self.class_weights,
            reduction="sum",
        )
        return total / count_units(mask_BT, self.reduction)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of sentences or of tokens."""
        assert where is not None
        return count_units(where, self.reduction)

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of tokens."""
        assert where is not None
        return where.sum()

    def decode(self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]) -> Decoded:
        """Return each token's likeliest label, -1 at padding."""
        return Decoded(scores_BTL.argmax(-1).masked_fill(~mask_BT, PADDING_LABEL), None)

    def outputs(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "N L"]:
        """Return the logits of the labels, a row a real token."""
        return select_tokens(scores_BTL, mask_BT)

    def marginals(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T L"]:
        """Return the probability of each label at each token, zeros at padding."""
        return zero_padding(scores_BTL.softmax(-1), mask_BT)


@HEADS.register("crf_tagging")
class CRFTaggingHead(Head):
    """Label a sentence as a whole: p(y) = exp(score(y)) / Z, a linear-chain random field.

    score(y) = start(y_1) + sum_t (W x_t + b)(y_t) + sum_t transition(y_{t-1}, y_t) + end(y_n);
    loss = sum over sentences of log Z - score(target), divided by their number or the tokens'.
    Transitions, start and end begin at zero.

    Args:
        in_dim: width D of the input.
        num_labels: number of labels L.
        reduction: `sentence` or `token`, see above.

    Shape: [B, T, D] to emissions [B, T, L].

    Source: Lample et al. 2016 (neural architectures for NER), section 2.2.
    """

    kinds = frozenset({"tagging", "intent_slots"})
    target = "tags"
    comparable = True
    ranks = ((SEQUENCE,),)

    def __init__(self, in_dim: int, num_labels: int, *, reduction: Reduction = "sentence") -> None:
        super().__init__()
        self.emission = nn.Linear(in_dim, num_labels)
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))
        self.reduction = reduction

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T L"]:
        """Return the emissions, zeros at padding."""
        return zero_padding(self.emission(x_BTD), mask_BT)

    def loss(
        self,
        scores_BTL: Float[Tensor, "B T L"],
        target_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """Return the mean negative log likelihood; targets at padding are not read."""
        chain, full_BT = self._chain(scores_BTL), _give_each_a_token(mask_BT)
        score_B = score_path(chain, target_BT.masked_fill(~mask_BT, 0), full_BT)
        loss_B = (compute_log_partition(chain, full_BT) - score_B) * mask_BT[:, 0]
        total = loss_B.sum().to(self.transition.dtype)
        return total / count_units(mask_BT, self.reduction)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of sentences or of tokens."""
        assert where is not None
        return count_units(where, self.reduction)

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of tokens."""
        assert where is not None
        return where.sum()

    def decode(self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]) -> Decoded:
        """Return the likeliest labelling of each sentence, -1 at padding."""
        path_BT = find_best_path(self._chain(scores_BTL), _give_each_a_token(mask_BT))
        return Decoded(path_BT.masked_fill(~mask_BT, PADDING_LABEL), None)

    def outputs(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "N L"]:
        """Return the emissions, a row a real token: what each says before its neighbours do.

        A softmax of emissions is no marginal of the field, but it sees every change of the field
        that comes from the words, since transitions do not depend on them.
        """
        return select_tokens(scores_BTL, mask_BT)

    def marginals(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T L"]:
        """Return the probability of each label at each token, zeros at padding."""
        with torch.no_grad():
            found = compute_marginals(self._chain(scores_BTL), _give_each_a_token(mask_BT))
        return zero_padding(found.label.to(scores_BTL.dtype), mask_BT)

    def soften(
        self, scores_BTL: Float[Tensor, "B T L"], mask_BT: Bool[Tensor, "B T"] | None
    ) -> Float[Tensor, "B T L"]:
        """Return the log-probability of each label at each token, differentiable.

        Source: Wang et al. 2020 (structure-level knowledge distillation), section 3.2, posterior
            distillation: the field is told of by its marginals, which a softmax can learn too.
        """
        assert mask_BT is not None
        found = compute_marginals(self._chain(scores_BTL), _give_each_a_token(mask_BT))
        return found.label.clamp(min=LEAST_MARGINAL).log().to(scores_BTL.dtype)

    def _chain(self, scores_BTL: Tensor) -> Chain:
        parts = scores_BTL, self.transition, self.start, self.end
        return Chain(*(part.double() for part in parts))


def _give_each_a_token(mask_BT: Tensor) -> Tensor:
    """Count an empty sentence's first position as real: the recursions need one."""
    first_T = torch.arange(mask_BT.shape[1], device=mask_BT.device) == 0
    return mask_BT | first_T
