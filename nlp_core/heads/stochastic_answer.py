"""Heads that classify or rate a pair of texts in several steps (stochastic answer networks).

Shape letters: B batch, T places of both texts, D width of the input, N steps, L labels, O numbers
of a step.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, Vector, masked_softmax, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.heads.base import HEADS, Head, HeadBatch, Scores, Tags, Values
from nlp_core.heads.sentence import LabelScoring, ValueScoring

FIRST, SECOND = 1, 2
"""The text that a place is of; 0 is a special piece or padding."""


class StochasticAnswer(nn.Module):
    """Attend to the first text several times, each time with a state that remembers the others.

    s_1 = sum_j softmax_j(w . h_j) h_j over the places h_j of the second text. Step t attends to the
    places p_i of the first one, x_t = sum_i softmax_i(p_i . (W s_t + b)) p_i, outputs
    V [x_t; s_t; |x_t - s_t|; x_t * s_t] + v, and updates s_{t+1} = GRU(x_t, dropout(s_t)).

    Dropout of the input zeroes the same columns at all places of an example. Without places a text
    is a vector of zeros.

    Shape: [B, T, D], mask [B, T] and parts [B, T] to [B, N, out_dim].
    """

    def __init__(self, in_dim: int, out_dim: int, *, steps: int, dropout: float) -> None:
        super().__init__()
        self.summary = nn.Linear(in_dim, 1, bias=False)
        self.query = nn.Linear(in_dim, in_dim)
        # the state after the last step is not read
        self.memory = nn.GRUCell(in_dim, in_dim) if steps > 1 else None
        self.out = nn.Linear(4 * in_dim, out_dim)
        self.steps = steps
        self.dropout = dropout

    def forward(self, x_BTD: Tokens, mask_BT: Mask, parts_BT: Tags) -> Float[Tensor, "B N O"]:
        x_BTD = zero_padding(x_BTD, mask_BT)
        kept_B1D = functional.dropout(torch.ones_like(x_BTD[:, :1]), self.dropout, self.training)
        x_BTD = x_BTD * kept_B1D
        first_BT, second_BT = mask_BT & (parts_BT == FIRST), mask_BT & (parts_BT == SECOND)
        state_BD = _attend(self.summary(x_BTD).squeeze(-1), x_BTD, second_BT)
        outputs = []
        for step in range(self.steps):
            score_BT = (x_BTD @ self.query(state_BD).unsqueeze(-1)).squeeze(-1)
            read_BD = _attend(score_BT, x_BTD, first_BT)
            both = [read_BD, state_BD, (read_BD - state_BD).abs(), read_BD * state_BD]
            outputs.append(self.out(torch.cat(both, -1)))
            if self.memory is not None and step < self.steps - 1:
                state_BD = functional.dropout(state_BD, self.dropout, self.training)
                state_BD = self.memory(read_BD, state_BD)
        return torch.stack(outputs, 1)


def _attend(score_BT: Float[Tensor, "B T"], x_BTD: Tokens, mask_BT: Mask) -> Vector:
    weight_BT = masked_softmax(score_BT, mask_BT).to(x_BTD.dtype)
    return (weight_BT.unsqueeze(1) @ x_BTD).squeeze(1)


def choose_steps(drawn_BN: Float[Tensor, "B N"], dropped: float) -> Bool[Tensor, "B N"]:
    """Return the steps that are kept: each with probability 1 - dropped, and at least one.

    `drawn_BN` are uniform random numbers in [0, 1).
    """
    return drawn_BN >= drawn_BN.amax(1, keepdim=True).clamp(max=dropped)


class StochasticAnswerHead(Head):
    """Average the outputs of several steps.

    Args:
        steps: how often the first text is read.
        dropout: probability of a zero in the input, in the same columns of all places of an
            example, and in the state.
        step_dropout: probability that training leaves a step out of the mean; one of each example
            is always kept.
    """

    reads_texts = True
    reads_parts = True
    ranks = ((SEQUENCE,),)

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        steps: PositiveInt = 5,
        dropout: Probability = 0.1,
        step_dropout: Probability = 0.1,
    ) -> None:
        super().__init__()
        self.answer = StochasticAnswer(in_dim, num_labels, steps=steps, dropout=dropout)
        self.step_dropout = step_dropout

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        assert batch.parts is not None, "pairs of whole texts"
        return (batch.parts,)

    def choose(self, outputs_BNO: Float[Tensor, "B N O"]) -> Bool[Tensor, "B N"]:
        size = outputs_BNO.shape[:2]
        if not self.training:
            return outputs_BNO.new_ones(size, dtype=torch.bool)
        return choose_steps(torch.rand(size, device=outputs_BNO.device), self.step_dropout)


@HEADS.register("san_classification")
class SANClassificationHead(LabelScoring, StochasticAnswerHead):
    """Choose one label of a pair of texts in several steps (a stochastic answer network).

    p = mean of softmax(V [x_t; s_t; |x_t - s_t|; x_t * s_t] + v) over the steps t that are kept,
    where s_1 summarises the second text, x_t is the attention of s_t to the first one, and
    s_{t+1} = GRU(x_t, s_t). The scores are log p; the loss is that of the head classification.

    It reads one layer over `texts`. The tokenizer says which place is of which text, so encoders
    without segments work too; special pieces are of neither.

    Shape: [B, T, D] to [B, L].

    Source: Liu et al. 2018 (stochastic answer networks for natural language inference), section 2.
    Note: the mean is over the kept steps only, so that p sums to 1.
    """

    kinds = frozenset({"pair_classification", "ranking"})

    def forward(self, x_BTD: Tokens, mask_BT: Mask, parts_BT: Tags) -> Scores:
        logits_BNL = self.answer(x_BTD, mask_BT, parts_BT)
        kept_BN = self.choose(logits_BNL)
        log_BNL = logits_BNL.log_softmax(-1).masked_fill(~kept_BN.unsqueeze(-1), -torch.inf)
        scores_BL: Tensor = log_BNL.logsumexp(1) - kept_BN.sum(1, keepdim=True).log()
        return scores_BL


@HEADS.register("san_regression")
class SANRegressionHead(ValueScoring, StochasticAnswerHead):
    """Predict a number of a pair of texts in several steps (a stochastic answer network).

    y = mean of the outputs of the kept steps, which are those of the head san_classification;
    loss = mean_i (y_i - target_i)^2.

    Shape: [B, T, D] to [B].

    Source: Liu et al. 2018 (stochastic answer networks for natural language inference), section 2,
        with a number instead of the labels.
    """

    kinds = frozenset({"pair_regression"})

    def __init__(self, in_dim: int, num_labels: int = 1, **options: Any) -> None:
        super().__init__(in_dim, 1, **options)

    def forward(self, x_BTD: Tokens, mask_BT: Mask, parts_BT: Tags) -> Values:
        values_BN1 = self.answer(x_BTD, mask_BT, parts_BT)
        kept_BN = self.choose(values_BN1)
        value_B: Tensor = (values_BN1.squeeze(-1) * kept_BN).sum(1) / kept_BN.sum(1)
        return value_B
