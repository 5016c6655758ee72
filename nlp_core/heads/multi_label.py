"""The head that chooses any number of labels for a text.

Shape letters: B batch, D width of the input, L labels, N = B L.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from nlp_core.blocks.option import Activation, PositiveFloat, PositiveInt, Probability
from nlp_core.heads.base import HEADS, Decoded, Head, HiddenLayers
from nlp_core.heads.loss import (
    CROSS_ENTROPY,
    LabelLoss,
    build_class_weights,
    compute_binary_loss,
)

Threshold = Annotated[float, Field(gt=0.0, lt=1.0)]
"""The least probability of a label that is chosen, above 0 and below 1."""


@HEADS.register("multi_label")
class MultiLabelHead(Head):
    """Choose each label by itself: p = sigmoid(MLP(x)).

    loss = mean_i sum_k w(k) l_ik / sum_k w(k), where w is 1 without class weights and
    l_ik is the chosen loss, by default the cross entropy: -log p_ik where example i has label k,
    else -log(1 - p_ik). With label_smoothing s it is -q log p_ik - (1 - q) log(1 - p_ik), where q
    is 1 - s/2 or s/2; focal multiplies -log p_ik by (1 - p_ik)^gamma, -log(1 - p_ik) by p_ik^gamma.

    Args:
        in_dim: width D of the input.
        num_labels: number of labels L.
        hidden_dims: widths of hidden layers; empty for a linear map.
        activation: the function after each hidden layer.
        batch_norm: normalise before each activation.
        dropout: probability of a zero in the input of each layer, in [0, 1).
        class_weights: weight of each label in the loss, in the order of the labels.
        loss: `cross_entropy`, with a share of `label_smoothing`, or `focal`, with its `gamma`.
        threshold: the least probability of a label that is chosen, in (0, 1).

    Shape: [B, D] to [B, L].

    Raises:
        ConfigError: the number of class weights is not the number of labels.

    Source: Lin et al. 2017 (focal loss), equation 4; Szegedy et al. 2016 (rethinking the Inception
        architecture), section 7, of two labels.
    Note: class_weights set label against label, where the alpha of Lin et al. sets yes against no.
    """

    kinds = frozenset({"multi_label"})
    target = "labels"
    comparable = True
    class_weights: Tensor | None

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        hidden_dims: Sequence[PositiveInt] = (),
        activation: Activation = "prelu",
        batch_norm: bool = False,
        dropout: Probability = 0.0,
        class_weights: Sequence[PositiveFloat] | None = None,
        loss: LabelLoss = CROSS_ENTROPY,
        threshold: Threshold = 0.5,
    ) -> None:
        super().__init__()
        weight_L = build_class_weights("multi_label", class_weights, num_labels)
        self.layers = HiddenLayers(
            in_dim,
            num_labels,
            hidden_dims=hidden_dims,
            activation=activation,
            batch_norm=batch_norm,
            dropout=dropout,
        )
        self.register_buffer("class_weights", weight_L, persistent=False)
        self.choice = loss
        self.threshold = threshold

    def forward(self, x_BD: Float[Tensor, "B D"], mask: None = None) -> Float[Tensor, "B L"]:
        """Return the logits of the labels."""
        scores_BL: Tensor = self.layers(x_BD)
        return scores_BL

    def loss(
        self, scores_BL: Float[Tensor, "B L"], target_BL: Float[Tensor, "B L"], mask: None = None
    ) -> Float[Tensor, ""]:
        """Return the weighted mean of the losses; targets are 0 or 1."""
        loss_BL = compute_binary_loss(scores_BL, target_BL, self.choice)
        if self.class_weights is None:
            return loss_BL.mean()
        weight_L = self.class_weights.to(loss_BL.dtype)
        return (loss_BL @ (weight_L / weight_L.sum())).mean()

    def decode(self, scores_BL: Float[Tensor, "B L"], mask: None = None) -> Decoded:
        """Return which labels are chosen and the probabilities of all."""
        prob_BL = scores_BL.sigmoid()
        return Decoded(prob_BL >= self.threshold, prob_BL)

    def outputs(self, scores_BL: Float[Tensor, "B L"], mask: None = None) -> Float[Tensor, "N 2"]:
        """Return the logits of no and of yes, a row for each label of each example."""
        yes_N = scores_BL.flatten()
        return torch.stack([torch.zeros_like(yes_N), yes_N], -1)
