"""Losses of labels, over scores of a softmax or of sigmoids; a model file chooses one by name.

Shape letters: N examples or tokens, B batch, L labels.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.option import PositiveFloat, Probability
from nlp_core.config.base import ClosedModel
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, PADDING_LABEL, Head, Loss, Scores


class CrossEntropyConfig(ClosedModel):
    """Cross entropy with the label, or with the label smoothed: -sum_k q(k) log p(k).

    q(k) = (1 - label_smoothing) [k = y] + label_smoothing / L. With several labels for an example,
    each is a choice between yes and no, L = 2.

    Source: Szegedy et al. 2016 (rethinking the Inception architecture), section 7.
    """

    name: Literal["cross_entropy"]
    label_smoothing: Probability = 0.0
    """Share of the target that is spread evenly over all labels."""


class FocalConfig(ClosedModel):
    """Focal loss, in which confident right answers count less: -(1 - p(y))^gamma log p(y).

    Source: Lin et al. 2017 (focal loss), equation 5; their alpha is the class weight.
    """

    name: Literal["focal"]
    gamma: Annotated[float, Field(ge=0.0)] = 2.0
    """Exponent; 0 is the cross entropy."""


LabelLoss = Annotated[CrossEntropyConfig | FocalConfig, Field(discriminator="name")]

CROSS_ENTROPY = CrossEntropyConfig(name="cross_entropy")


class LabelLossHead(Head):
    """A head whose loss weighs labels.

    Args:
        class_weights: weight of each label in the loss, in the order of the labels.
        loss: `cross_entropy`, with a share of `label_smoothing`, or `focal`, with its `gamma`.

    Raises:
        ConfigError: the number of class weights is not the number of labels.
    """

    class_weights: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        class_weights: Sequence[PositiveFloat] | None = None,
        loss: LabelLoss = CROSS_ENTROPY,
        **options: Any,  # Any: those of the next class
    ) -> None:
        super().__init__(in_dim, num_labels, **options)
        if class_weights is not None and len(class_weights) != num_labels:
            raise ConfigError(
                f"{HEADS.name_of(type(self))}: class_weights: found {len(class_weights)} weights, "
                f"expected one for each of {num_labels} labels."
            )
        weight_L = None if class_weights is None else torch.tensor(class_weights)
        self.register_buffer("class_weights", weight_L, persistent=False)
        self.loss_config = loss


def compute_label_loss(
    scores_NL: Float[Tensor, "N L"],
    target_N: Int[Tensor, " N"],
    config: CrossEntropyConfig | FocalConfig,
    weight_L: Float[Tensor, " L"] | None,
    *,
    reduction: Literal["mean", "sum"] = "mean",
) -> Loss:
    """Return the loss of all rows whose target is not -1.

    sum = sum_i w(y_i) l_i, mean = sum / sum_i w(y_i), where w is 1 without weights. With smoothed
    labels l_i weighs the term of each label k by w(k) instead of w(y_i).
    """
    if isinstance(config, CrossEntropyConfig):
        return functional.cross_entropy(
            scores_NL,
            target_N,
            weight_L,
            ignore_index=PADDING_LABEL,
            reduction=reduction,
            label_smoothing=config.label_smoothing,
        )
    real_N = target_N != PADDING_LABEL
    label_N = target_N.masked_fill(~real_N, 0)
    log_prob_N = scores_NL.log_softmax(-1).gather(-1, label_N.unsqueeze(-1)).squeeze(-1)
    # below eps the loss is negligible, and the slope of a power under 1 has no bound
    miss_N = (-torch.expm1(log_prob_N)).clamp(min=torch.finfo(log_prob_N.dtype).eps)
    weight_N = real_N.to(scores_NL.dtype)
    if weight_L is not None:
        weight_N = weight_N * weight_L[label_N]
    total = -(weight_N * miss_N**config.gamma * log_prob_N).sum()
    return total if reduction == "sum" else total / weight_N.sum()


def compute_binary_loss(
    scores_BL: Scores, target_BL: Scores, config: CrossEntropyConfig | FocalConfig
) -> Scores:
    """Return the loss of each label as a choice between yes, p = sigmoid(score), and no.

    Cross entropy: -q log p - (1 - q) log(1 - p), q = (1 - label_smoothing) y + label_smoothing / 2.
    Focal: -(1 - p)^gamma log p where y = 1, -p^gamma log(1 - p) where y = 0.
    """
    # 16 bits would round a smoothed target
    dtype = torch.promote_types(scores_BL.dtype, torch.float32)
    scores_BL, target_BL = scores_BL.to(dtype), target_BL.to(dtype)
    if isinstance(config, CrossEntropyConfig):
        smoothing = config.label_smoothing
        return functional.binary_cross_entropy_with_logits(
            scores_BL, (1 - smoothing) * target_BL + smoothing / 2, reduction="none"
        )
    loss_BL = functional.binary_cross_entropy_with_logits(scores_BL, target_BL, reduction="none")
    # (1 - p(y))^gamma as the exponential of a logarithm, whose slope is bounded for every gamma
    log_miss_BL = -functional.binary_cross_entropy_with_logits(
        scores_BL, 1 - target_BL, reduction="none"
    )
    return (config.gamma * log_miss_BL).exp() * loss_BL
