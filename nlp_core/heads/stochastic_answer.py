"""Heads that judge a pair of texts in several steps, over the encoder's vectors of both.

Shape letters: B batch, T places of both texts, D width of the input, N steps, L labels.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import masked_softmax, zero_padding
from nlp_core.blocks.option import PositiveFloat, PositiveInt, Probability
from nlp_core.heads.base import HEADS, Head
from nlp_core.heads.loss import CROSS_ENTROPY, LabelLoss, build_class_weights
from nlp_core.heads.sentence import LabelScoring, ValueScoring

FIRST, SECOND = 1, 2
"""Which text a place is of; 0 is a special piece or padding."""


class StochasticAnswer(nn.Module):
    """Read the first text several times, each time with what is known of both so far.

    s_1 = sum_j softmax_j(w . h_j) h_j over the places h_j of the second text. Step t attends to the
    places p_i of the first one, x_t = sum_i softmax_i(p_i . (W s_t + b)) p_i, gives
    V [x_t; s_t; |x_t - s_t|; x_t * s_t] + v, and remembers s_{t+1} = GRU(x_t, dropout(s_t)).

    Args:
        in_dim: width D of the input.
        out_dim: numbers that a step gives.
        steps: N.
        dropout: probability of a zero in the input, in the same columns of all places of an
            example, and in what is remembered.

    Shape: [B, T, D], mask [B, T] and parts [B, T] to [B, N, out_dim].
    """

    def __init__(self, in_dim: int, out_dim: int, *, steps: int, dropout: float) -> None:
        super().__init__()
        self.summary = nn.Linear(in_dim, 1, bias=False)
        self.query = nn.Linear(in_dim, in_dim)
        # after the last step nothing is remembered
        self.memory = nn.GRUCell(in_dim, in_dim) if steps > 1 else None
        self.out = nn.Linear(4 * in_dim, out_dim)
        self.steps = steps
        self.dropout = dropout

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        parts_BT: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B N O"]:
        """Return what each step gives; an empty text is a vector of zeros."""
        x_BTD = zero_padding(x_BTD, mask_BT)
        kept_B1D = functional.dropout(torch.ones_like(x_BTD[:, :1]), self.dropout, self.training)
        x_BTD = x_BTD * kept_B1D
        first_BT, second_BT = mask_BT & (parts_BT == FIRST), mask_BT & (parts_BT == SECOND)
        state_BD = _attend(self.summary(x_BTD).squeeze(-1), x_BTD, second_BT)
        given = []
        for step in range(self.steps):
            score_BT = (x_BTD @ self.query(state_BD).unsqueeze(-1)).squeeze(-1)
            read_BD = _attend(score_BT, x_BTD, first_BT)
            both = [read_BD, state_BD, (read_BD - state_BD).abs(), read_BD * state_BD]
            given.append(self.out(torch.cat(both, -1)))
            if self.memory is not None and step < self.steps - 1:
                state_BD = functional.dropout(state_BD, self.dropout, self.training)
                state_BD = self.memory(read_BD, state_BD)
        return torch.stack(given, 1)


def _attend(
    score_BT: Float[Tensor, "B T"], x_BTD: Float[Tensor, "B T D"], mask_BT: Bool[Tensor, "B T"]
) -> Float[Tensor, "B D"]:
    weight_BT = masked_softmax(score_BT, mask_BT).to(x_BTD.dtype)
    return (weight_BT.unsqueeze(1) @ x_BTD).squeeze(1)


def choose_steps(drawn_BN: Float[Tensor, "B N"], dropped: float) -> Bool[Tensor, "B N"]:
    """Return the steps that count: each with the probability 1 - dropped, and one at least.

    Args:
        drawn_BN: uniform random numbers in [0, 1).
        dropped: probability of a step that does not count.
    """
    return drawn_BN >= drawn_BN.amax(1, keepdim=True).clamp(max=dropped)


class StochasticAnswerHead(Head):
    """Answer in several steps and average those that count.

    Args:
        in_dim: width D of the input.
        num_labels: numbers that a step gives.
        steps: N.
        dropout: see StochasticAnswer.
        step_dropout: probability of a step that does not count in a training batch; one of each
            example always does. In prediction all count.
    """

    reads_parts = True
    reads_texts = True
    ranks = ((SEQUENCE,),)

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        steps: PositiveInt,
        dropout: Probability,
        step_dropout: Probability,
    ) -> None:
        super().__init__()
        self.answer = StochasticAnswer(in_dim, num_labels, steps=steps, dropout=dropout)
        self.step_dropout = step_dropout

    def choose(self, given_BNO: Float[Tensor, "B N O"]) -> Bool[Tensor, "B N"]:
        """Return the steps that count."""
        batch, steps, _ = given_BNO.shape
        if not self.training:
            return given_BNO.new_ones(batch, steps, dtype=torch.bool)
        drawn_BN = torch.rand(batch, steps, device=given_BNO.device)
        return choose_steps(drawn_BN, self.step_dropout)


@HEADS.register("san_classification")
class SANClassificationHead(StochasticAnswerHead, LabelScoring):
    """Choose one label of a pair of texts in several steps (a stochastic answer network).

    p = mean of softmax(V [x_t; s_t; |x_t - s_t|; x_t * s_t] + v) over the steps t that count, where
    s_1 sums up the second text, x_t is what attention with s_t reads in the first one, and
    s_{t+1} = GRU(x_t, s_t). The scores are log p; the loss is as that of the head classification.

    It reads one layer over `texts`; which place is of which text comes from the tokenizer, so it
    serves encoders without segments as well. Special pieces are of neither.

    Args:
        in_dim: width D of the input.
        num_labels: number of labels L.
        steps: how often the first text is read.
        dropout: probability of a zero in the input, in the same columns of all places of an
            example, and in what is remembered.
        step_dropout: probability of a step that does not count in a training batch; one of each
            example always does. In prediction all count.
        class_weights: weight of each label in the loss, in the order of the labels.
        loss: `cross_entropy`, with a share of `label_smoothing`, or `focal`, with its `gamma`.

    Shape: [B, T, D] to [B, L].

    Raises:
        ConfigError: the number of class weights is not the number of labels.

    Source: Liu et al. 2018 (stochastic answer networks for natural language inference), section 2.
    Note: the mean is over the steps that count, so that p sums to 1.
    """

    kinds = frozenset({"pair_classification", "ranking"})

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        steps: PositiveInt = 5,
        dropout: Probability = 0.1,
        step_dropout: Probability = 0.1,
        class_weights: Sequence[PositiveFloat] | None = None,
        loss: LabelLoss = CROSS_ENTROPY,
    ) -> None:
        super().__init__(
            in_dim, num_labels, steps=steps, dropout=dropout, step_dropout=step_dropout
        )
        weight_L = build_class_weights("san_classification", class_weights, num_labels)
        self.register_buffer("class_weights", weight_L, persistent=False)
        self.choice = loss

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        parts_BT: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B L"]:
        """Return the logarithms of the labels' probabilities."""
        given_BNL = self.answer(x_BTD, mask_BT, parts_BT)
        counts_BN = self.choose(given_BNL)
        log_BNL = given_BNL.log_softmax(-1).masked_fill(~counts_BN.unsqueeze(-1), -torch.inf)
        scores_BL: Tensor = log_BNL.logsumexp(1) - counts_BN.sum(1, keepdim=True).log()
        return scores_BL


@HEADS.register("san_regression")
class SANRegressionHead(StochasticAnswerHead, ValueScoring):
    """Estimate a number of a pair of texts in several steps (a stochastic answer network).

    y = mean of what the steps give that count, which are those of the head san_classification;
    loss = mean_i (y_i - target_i)^2.

    Args:
        in_dim: width D of the input.
        num_labels: of no meaning here.
        steps: how often the first text is read.
        dropout: probability of a zero in the input, in the same columns of all places of an
            example, and in what is remembered.
        step_dropout: probability of a step that does not count in a training batch; one of each
            example always does. In prediction all count.

    Shape: [B, T, D] to [B].

    Source: Liu et al. 2018 (stochastic answer networks for natural language inference), section 2,
        with a number in place of the labels.
    """

    kinds = frozenset({"pair_regression"})

    def __init__(
        self,
        in_dim: int,
        num_labels: int = 1,
        *,
        steps: PositiveInt = 5,
        dropout: Probability = 0.1,
        step_dropout: Probability = 0.1,
    ) -> None:
        super().__init__(in_dim, 1, steps=steps, dropout=dropout, step_dropout=step_dropout)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        parts_BT: Int[Tensor, "B T"],
    ) -> Float[Tensor, " B"]:
        """Return the estimated values."""
        given_BN1 = self.answer(x_BTD, mask_BT, parts_BT)
        counts_BN = self.choose(given_BN1)
        value_B: Tensor = (given_BN1.squeeze(-1) * counts_BN).sum(1) / counts_BN.sum(1)
        return value_B
