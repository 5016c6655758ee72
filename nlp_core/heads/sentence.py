"""Heads that judge a whole text, or a pair of texts, from one vector.

Shape letters: B batch, D width of the input, L labels.
"""

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.option import Activation, PositiveFloat, PositiveInt, Probability
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, Decoded, Head, HiddenLayers
from nlp_core.heads.loss import (
    CROSS_ENTROPY,
    LabelLoss,
    build_class_weights,
    compute_label_loss,
)


class LabelScoring(Head):
    """Loss and decoding of scores [B, L] of the labels of whole examples."""

    comparable = True
    class_weights: Tensor | None
    choice: LabelLoss

    def loss(
        self, scores_BL: Float[Tensor, "B L"], target_B: Int[Tensor, " B"], mask: object = None
    ) -> Float[Tensor, ""]:
        """Return the weighted mean of the losses."""
        return compute_label_loss(scores_BL, target_B, self.choice, self.class_weights)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the sum of the examples' weights."""
        if self.class_weights is None:
            return super().count_terms(target, where)
        return self.class_weights[target].sum()

    def decode(self, scores_BL: Float[Tensor, "B L"], mask: object = None) -> Decoded:
        """Return the likeliest labels and the probabilities of all."""
        return Decoded(scores_BL.argmax(-1), scores_BL.softmax(-1))

    def outputs(self, scores_BL: Float[Tensor, "B L"], mask: object = None) -> Float[Tensor, "B L"]:
        """Return the logits of the labels, a row an example."""
        return scores_BL


class ValueScoring(Head):
    """Loss and decoding of a value [B] for each example."""

    comparable = True

    def loss(
        self, scores_B: Float[Tensor, " B"], target_B: Float[Tensor, " B"], mask: object = None
    ) -> Float[Tensor, ""]:
        """Return the mean squared error."""
        return functional.mse_loss(scores_B, target_B)

    def decode(self, scores_B: Float[Tensor, " B"], mask: object = None) -> Decoded:
        """Return the values as they are."""
        return Decoded(scores_B, None)

    def outputs(self, scores_B: Float[Tensor, " B"], mask: object = None) -> Float[Tensor, " B"]:
        """Return the values as they are."""
        return scores_B


@HEADS.register("classification")
class ClassificationHead(LabelScoring):
    """Choose one label: p = softmax(MLP(x)).

    loss = sum_i w(y_i) * l_i / sum_i w(y_i), where w is 1 without class weights and l_i is the
    chosen loss, by default the cross entropy -log p_i(y_i).

    Args:
        in_dim: width D of the input.
        num_labels: number of labels L.
        hidden_dims: widths of hidden layers; empty for a linear map.
        activation: the function after each hidden layer.
        batch_norm: normalise before each activation.
        dropout: probability of a zero in the input of each layer, in [0, 1).
        class_weights: weight of each label in the loss, in the order of the labels.
        loss: `cross_entropy`, with a share of `label_smoothing`, or `focal`, with its `gamma`.

    Shape: [B, D] to [B, L].

    Raises:
        ConfigError: the number of class weights is not the number of labels.
    """

    kinds = frozenset({"classification", "pair_classification", "ranking", "intent_slots"})

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
    ) -> None:
        super().__init__()
        weight_L = build_class_weights("classification", class_weights, num_labels)
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

    def forward(self, x_BD: Float[Tensor, "B D"], mask: None = None) -> Float[Tensor, "B L"]:
        """Return the logits of the labels."""
        scores_BL: Tensor = self.layers(x_BD)
        return scores_BL


@HEADS.register("regression")
class RegressionHead(ValueScoring):
    """Estimate a number: y = MLP(x), or y = low + (high - low) * sigmoid(MLP(x)).

    loss = mean_i (y_i - target_i)^2.

    Args:
        in_dim: width D of the input.
        num_labels: of no meaning here.
        hidden_dims: widths of hidden layers; empty for a linear map.
        activation: the function after each hidden layer.
        batch_norm: normalise before each activation.
        dropout: probability of a zero in the input of each layer, in [0, 1).
        output: `identity`, or `sigmoid` to stay between `low` and `high`.
        low: the least value of a `sigmoid` output.
        high: the greatest value of a `sigmoid` output, above `low`.

    Shape: [B, D] to [B].

    Raises:
        ConfigError: `low` is not below `high`.
    """

    kinds = frozenset({"regression", "pair_regression"})

    def __init__(
        self,
        in_dim: int,
        num_labels: int = 1,
        *,
        hidden_dims: Sequence[PositiveInt] = (),
        activation: Activation = "prelu",
        batch_norm: bool = False,
        dropout: Probability = 0.0,
        output: Literal["identity", "sigmoid"] = "identity",
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        super().__init__()
        if low >= high:
            raise ConfigError(
                f"regression: found low {low} and high {high}, expected low below high."
            )
        self.layers = HiddenLayers(
            in_dim,
            1,
            hidden_dims=hidden_dims,
            activation=activation,
            batch_norm=batch_norm,
            dropout=dropout,
        )
        self.output = output
        self.low = low
        self.high = high

    def forward(self, x_BD: Float[Tensor, "B D"], mask: None = None) -> Float[Tensor, " B"]:
        """Return the estimated values."""
        value_B: Tensor = self.layers(x_BD).squeeze(-1)
        if self.output == "identity":
            return value_B
        return self.low + (self.high - self.low) * value_B.sigmoid()
