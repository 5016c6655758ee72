"""Losses of labels that a model file chooses by name, over scores of a softmax or of sigmoids.

Shape letters: N examples or tokens, B batch, L labels.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.option import PositiveFloat, Probability
from nlp_core.config.base import ClosedModel
from nlp_core.errors import ConfigError
from nlp_core.heads.base import PADDING_LABEL


class CrossEntropyConfig(ClosedModel):
    """Cross entropy with the label, or with the label smoothed: -sum_k q(k) log p(k).

    q(k) = (1 - label_smoothing) [k = y] + label_smoothing / L. Of several labels each is a choice
    of L = 2, yes and no.

    Source: Szegedy et al. 2016 (rethinking the Inception architecture), section 7.
    """

    name: Literal["cross_entropy"]
    label_smoothing: Probability = 0.0
    """Share of the target that is spread evenly over all labels, in [0, 1)."""


class FocalConfig(ClosedModel):
    """Focal loss, which counts what is already right for less: -(1 - p(y))^gamma log p(y).

    Source: Lin et al. 2017 (focal loss), equation 5; their alpha is the class weight.
    """

    name: Literal["focal"]
    gamma: Annotated[float, Field(ge=0.0)] = 2.0
    """Exponent, at least 0; 0 is the plain cross entropy."""


LabelLoss = Annotated[CrossEntropyConfig | FocalConfig, Field(discriminator="name")]
"""The option `loss` of heads that choose one label by a softmax, or each label by a sigmoid."""

CROSS_ENTROPY = CrossEntropyConfig(name="cross_entropy")


def build_class_weights(
    head: str, class_weights: Sequence[PositiveFloat] | None, num_labels: int
) -> Tensor | None:
    """Return the weights of the labels, [L], or None.

    Args:
        head: its registered name, for the error message.
        class_weights: the option of a model file.
        num_labels: number of labels L.

    Raises:
        ConfigError: the number of weights is not the number of labels.
    """
    if class_weights is None:
        return None
    if len(class_weights) != num_labels:
        raise ConfigError(
            f"{head}: class_weights: found {len(class_weights)} weights, expected one for each of "
            f"{num_labels} labels."
        )
    return torch.tensor(class_weights)


def compute_label_loss(
    scores_NL: Float[Tensor, "N L"],
    target_N: Int[Tensor, " N"],
    choice: CrossEntropyConfig | FocalConfig,
    weight_L: Float[Tensor, " L"] | None,
    *,
    reduction: Literal["mean", "sum"] = "mean",
) -> Float[Tensor, ""]:
    """Return the loss of all rows whose target is not -1, each weighted by its label's weight.

    sum = sum_i w(y_i) l_i, mean = sum / sum_i w(y_i), where w is 1 without weights. With smoothed
    labels l_i weights the term of each label k by w(k) in place of w(y_i).

    Args:
        scores_NL: logits of the labels.
        target_N: label ids; -1 is not read.
        choice: which loss, and its settings.
        weight_L: weight of each label.
        reduction: see above.
    """
    if isinstance(choice, CrossEntropyConfig):
        return functional.cross_entropy(
            scores_NL,
            target_N,
            weight_L,
            ignore_index=PADDING_LABEL,
            reduction=reduction,
            label_smoothing=choice.label_smoothing,
        )
    real_N = target_N != PADDING_LABEL
    label_N = target_N.masked_fill(~real_N, 0)
    log_prob_N = scores_NL.log_softmax(-1).gather(-1, label_N.unsqueeze(-1)).squeeze(-1)
    # Below eps the slope of a power under 1 has no bound, and the loss is nothing.
    miss_N = (-torch.expm1(log_prob_N)).clamp(min=torch.finfo(log_prob_N.dtype).eps)
    weight_N = real_N.to(scores_NL.dtype)
    if weight_L is not None:
        weight_N = weight_N * weight_L[label_N]
    total = -(weight_N * miss_N**choice.gamma * log_prob_N).sum()
    return total if reduction == "sum" else total / weight_N.sum()


def compute_binary_loss(
    scores_BL: Float[Tensor, "B L"],
    target_BL: Float[Tensor, "B L"],
    choice: CrossEntropyConfig | FocalConfig,
) -> Float[Tensor, "B L"]:
    """Return the loss of each label by itself, a choice between yes, p = sigmoid(score), and no.

    Cross entropy: -q log p - (1 - q) log(1 - p), q = (1 - label_smoothing) y + label_smoothing / 2.
    Focal: -(1 - p)^gamma log p where y = 1, -p^gamma log(1 - p) where y = 0.

    Args:
        scores_BL: logit of each label.
        target_BL: y, 1 where an example has a label, else 0.
        choice: which loss, and its settings.

    Source: Lin et al. 2017 (focal loss), equation 4; Szegedy et al. 2016, section 7, of two labels.
    Note: their alpha sets yes against no; the weights of a head set label against label.
    """
    # 16 bits would round a smoothed target.
    dtype = torch.promote_types(scores_BL.dtype, torch.float32)
    scores_BL, target_BL = scores_BL.to(dtype), target_BL.to(dtype)
    if isinstance(choice, CrossEntropyConfig):
        smoothing = choice.label_smoothing
        return functional.binary_cross_entropy_with_logits(
            scores_BL, (1 - smoothing) * target_BL + smoothing / 2, reduction="none"
        )
    loss_BL = functional.binary_cross_entropy_with_logits(scores_BL, target_BL, reduction="none")
    # (1 - p(y))^gamma as the exponential of a logarithm: its slope has a bound for every gamma.
    log_miss_BL = -functional.binary_cross_entropy_with_logits(
        scores_BL, 1 - target_BL, reduction="none"
    )
    return (choice.gamma * log_miss_BL).exp() * loss_BL
