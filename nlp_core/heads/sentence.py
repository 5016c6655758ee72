"""Heads on one vector of a text or of a pair of texts.

Shape letters: B batch, D width of the input, L labels, N = B L.
"""

from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.masking import Vector
from nlp_core.blocks.option import PositiveFloat
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, Decoded, Head, Labels, Loss, Scores, Values, VectorHead
from nlp_core.heads.loss import LabelLossHead, compute_binary_loss, compute_label_loss

Threshold = Annotated[float, Field(gt=0.0, lt=1.0)]


class LabelScoring(LabelLossHead):
    """Loss and predictions of the scores [B, L] of the labels of whole examples."""

    def loss(self, scores_BL: Scores, target_B: Labels, mask: object = None) -> Loss:
        return compute_label_loss(scores_BL, target_B, self.loss_config, self.class_weights)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        if self.class_weights is None:
            return super().count_terms(target, where)
        return self.class_weights[target].sum()

    def decode(self, scores_BL: Scores, mask: object = None) -> Decoded:
        return Decoded(scores_BL.argmax(-1), scores_BL.softmax(-1))

    def outputs(self, scores_BL: Scores, mask: object = None) -> Scores:
        return scores_BL


class ValueScoring(Head):
    """Mean squared error and predictions of a value [B] of each example."""

    def loss(self, scores_B: Values, target_B: Values, mask: object = None) -> Loss:
        return functional.mse_loss(scores_B, target_B)

    def decode(self, scores_B: Values, mask: object = None) -> Decoded:
        return Decoded(scores_B, None)

    def outputs(self, scores_B: Values, mask: object = None) -> Values:
        return scores_B


@HEADS.register("classification")
class ClassificationHead(LabelScoring, VectorHead):
    """Choose one label: p = softmax(MLP(x)).

    loss = sum_i w(y_i) * l_i / sum_i w(y_i), where w is 1 without class weights and l_i is the
    chosen loss, by default the cross entropy -log p_i(y_i).

    Shape: [B, D] to [B, L].
    """

    kinds = frozenset(
        {"classification", "pair_classification", "ranking", "intent_slots", "dialogue"}
    )


@HEADS.register("multi_label")
class MultiLabelHead(LabelLossHead, VectorHead):
    """Choose each label by itself: p = sigmoid(MLP(x)).

    loss = mean_i sum_k w(k) l_ik / sum_k w(k), where w is 1 without class weights and
    l_ik is the chosen loss, by default the cross entropy: -log p_ik where example i has label k,
    else -log(1 - p_ik). With label_smoothing s it is -q log p_ik - (1 - q) log(1 - p_ik), where q
    is 1 - s/2 or s/2; focal multiplies -log p_ik by (1 - p_ik)^gamma, -log(1 - p_ik) by p_ik^gamma.

    Args:
        threshold: the least probability of a label that is predicted.

    Shape: [B, D] to [B, L].

    Source: Lin et al. 2017 (focal loss), equation 4; Szegedy et al. 2016 (rethinking the Inception
        architecture), section 7, with two labels.
    Note: class_weights set label against label, where the alpha of Lin et al. sets yes against no.
    """

    kinds = frozenset({"multi_label"})
    target = "labels"

    def __init__(
        self, in_dim: int, num_labels: int, *, threshold: Threshold = 0.5, **options: Any
    ) -> None:
        super().__init__(in_dim, num_labels, **options)
        self.threshold = threshold

    def loss(self, scores_BL: Scores, target_BL: Scores, mask: None = None) -> Loss:
        loss_BL = compute_binary_loss(scores_BL, target_BL, self.loss_config)
        if self.class_weights is None:
            return loss_BL.mean()
        weight_L = self.class_weights.to(loss_BL.dtype)
        return (loss_BL @ (weight_L / weight_L.sum())).mean()

    def decode(self, scores_BL: Scores, mask: None = None) -> Decoded:
        prob_BL = scores_BL.sigmoid()
        return Decoded(prob_BL >= self.threshold, prob_BL)

    def outputs(self, scores_BL: Scores, mask: None = None) -> Float[Tensor, "N 2"]:
        """Return the logits of no and yes, a row for each label of each example."""
        yes_N = scores_BL.flatten()
        return torch.stack([torch.zeros_like(yes_N), yes_N], -1)


@HEADS.register("regression")
class RegressionHead(ValueScoring, VectorHead):
    """Predict a number: y = center + scale * MLP(x), or y = low + (high - low) * sigmoid(MLP(x)).

    loss = mean_i ((y_i - target_i) / scale)^2.

    Args:
        output: `identity`, or `sigmoid` to stay between `low` and `high`.
        low: the least value of a `sigmoid` output.
        high: the greatest value of a `sigmoid` output, above `low`.
        center: where an `identity` output begins, such as the mean of the targets.
        scale: the unit of an `identity` output and of the error, such as the standard deviation of
            the targets.

    Shape: [B, D] to [B].
    """

    kinds = frozenset({"regression", "pair_regression"})

    def __init__(
        self,
        in_dim: int,
        num_labels: int = 1,
        *,
        output: Literal["identity", "sigmoid"] = "identity",
        low: float = 0.0,
        high: float = 1.0,
        center: float = 0.0,
        scale: PositiveFloat = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(in_dim, 1, **options)
        if low >= high:
            raise ConfigError(f"regression: found low {low} and high {high}, expected low < high.")
        if output == "sigmoid" and (center, scale) != (0.0, 1.0):
            raise ConfigError(
                f"regression: found center {center} and scale {scale} with output sigmoid, which "
                "has low and high instead; remove them, or set output to identity."
            )
        self.output = output
        self.low = low
        self.high = high
        self.center = center
        self.scale = scale

    def forward(self, x_BD: Vector, mask: None = None) -> Values:
        value_B: Tensor = self.layers(x_BD).squeeze(-1)
        if self.output == "sigmoid":
            return self.low + (self.high - self.low) * value_B.sigmoid()
        return self.center + self.scale * value_B

    def loss(self, scores_B: Values, target_B: Values, mask: object = None) -> Loss:
        return super().loss(scores_B / self.scale, target_B / self.scale)

    def outputs(self, scores_B: Values, mask: object = None) -> Values:
        return (scores_B - self.center) / self.scale
