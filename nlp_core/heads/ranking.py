"""Heads that give each candidate of a question one score, trained by comparing candidates.

Shape letters: B batch (candidates of whole questions), D width of the input, N pairs or candidates
that count in a loss, Q questions.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.masking import Vector
from nlp_core.blocks.option import PositiveFloat
from nlp_core.config.base import ClosedModel
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, Decoded, Labels, Loss, Values, VectorHead, hide_classes


class MarginConfig(ClosedModel):
    """Hinge loss of a pair: max(0, margin - (right score - wrong score))."""

    name: Literal["margin"]
    margin: PositiveFloat = 1.0
    """By how much a right candidate should lead."""


class LogisticConfig(ClosedModel):
    """Logistic loss of a pair: log(1 + exp(wrong score - right score)).

    Source: Burges et al. 2005 (learning to rank using gradient descent, RankNet), section 3.
    """

    name: Literal["logistic"]


PairLoss = Annotated[MarginConfig | LogisticConfig, Field(discriminator="name")]
MARGIN = MarginConfig(name="margin")


class RankingHead(VectorHead):
    """Score each candidate: s = MLP(x), one number; a bias at the end would change no loss.

    Questions without a right and a wrong candidate are not trained on. Only the order of the scores
    within a question is trained, so the predicted label, the sign of a score, means little.

    Raises:
        ConfigError: the task does not have two labels, wrong and right.
    """

    kinds = frozenset({"ranking"})
    grouped = True
    bias = False

    def __init__(self, in_dim: int, num_labels: int, **options: Any) -> None:
        if num_labels != 2:
            raise ConfigError(
                f"ranking: found a task of {num_labels} labels, expected 2, wrong and right; use "
                "the head 'classification'."
            )
        super().__init__(in_dim, 1, **options)

    def forward(self, x_BD: Vector, mask: None = None) -> Values:
        score_B: Tensor = self.layers(x_BD).squeeze(-1)
        return score_B

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        assert where is not None
        mixed = set(where[target == 1].tolist()) & set(where[target != 1].tolist())
        return torch.tensor(len(mixed))

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        assert where is not None
        return torch.tensor(len(torch.unique(where)))

    def decode(self, scores_B: Values, mask: None = None) -> Decoded:
        """Return 1 for each score above 0, and sigmoid(score) as the right label's probability.

        In 64 bits, and the wrong label's by itself: it keeps the order of scores above 37, whose
        sigmoid is 1.
        """
        exact_B = scores_B.double()
        probability_B2 = torch.stack([(-exact_B).sigmoid(), exact_B.sigmoid()], -1)
        return Decoded((scores_B > 0).long(), probability_B2)

    def loss(self, scores_B: Values, target_B: Labels, group_B: Labels) -> Loss:
        """Return the mean over questions of the mean of their losses; 0 without losses."""
        right_B = target_B == 1
        same_BB = group_B.unsqueeze(1) == group_B
        loss_N, rows_N = self.compare(scores_B, right_B, same_BB)
        groups, place_N = torch.unique(group_B[rows_N], return_inverse=True)
        count_Q = torch.bincount(place_N, minlength=len(groups))
        mean: Tensor = (loss_N / count_Q[place_N]).sum() / max(len(groups), 1)
        return mean

    compare: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    """Return losses [N] and a candidate of the question of each.

    The arguments are scores [B], whether a candidate is right [B], and whether two are of the same
    question [B, B].
    """

    def outputs(self, scores_B: Values, group_B: Labels) -> Float[Tensor, "Q B"]:
        """Return the logits of a softmax over the candidates of each question."""
        own_QB = torch.unique(group_B).unsqueeze(1) == group_B
        return hide_classes(scores_B.expand_as(own_QB), own_QB)


@HEADS.register("pairwise_ranking")
class PairwiseRankingHead(RankingHead):
    """Score each candidate so that right ones lead wrong ones of the same question.

    loss = mean over questions of the mean over their pairs (right, wrong) of the chosen loss.

    Args:
        loss: `margin`, with its `margin`, or `logistic`.

    Shape: [B, D] to [B].
    """

    def __init__(
        self, in_dim: int, num_labels: int, *, loss: PairLoss = MARGIN, **options: Any
    ) -> None:
        super().__init__(in_dim, num_labels, **options)
        self.loss_config = loss

    def compare(self, scores_B: Tensor, right_B: Tensor, same_BB: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (same_BB & right_B.unsqueeze(1) & ~right_B).nonzero().unbind(1)
        lead_BB = scores_B.unsqueeze(1) - scores_B
        if isinstance(self.loss_config, MarginConfig):
            loss_BB = functional.relu(self.loss_config.margin - lead_BB)
        else:
            loss_BB = functional.softplus(-lead_BB)
        return loss_BB[first, second], first


@HEADS.register("listwise_ranking")
class ListwiseRankingHead(RankingHead):
    """Score each candidate so that the right ones win a softmax over those of their question.

    loss = mean over questions of the mean over their right candidates of -log softmax(s)(right).

    Shape: [B, D] to [B].

    Source: Cao et al. 2007 (learning to rank: from pairwise to listwise approach), section 4, with
        equal top-one probabilities of the right candidates.
    """

    def compare(self, scores_B: Tensor, right_B: Tensor, same_BB: Tensor) -> tuple[Tensor, Tensor]:
        log_sum_B = scores_B.expand_as(same_BB).masked_fill(~same_BB, -torch.inf).logsumexp(1)
        kept_B = right_B & (same_BB & ~right_B).any(1)
        return (log_sum_B - scores_B)[kept_B], kept_B
