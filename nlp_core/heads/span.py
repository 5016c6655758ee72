"""The head that predicts the first and the last token of an answer, or that there is none.

Shape letters: B batch, T tokens, D width of the first input, E width of the second, S places: the T
tokens, after one for "no answer" if questions may have none; N twice the examples with a place.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, pool_max, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.data.stored_column import NO_ANSWER
from nlp_core.heads.base import HEADS, Decoded, Head, Loss, hide_classes


class AnswerSpan(NamedTuple):
    """The best pair of tokens of each example, [B] each, and the sum of their scores, [B]."""

    first: Tensor
    last: Tensor
    score: Tensor


def find_best_span(
    start_BT: Float[Tensor, "B T"], end_BT: Float[Tensor, "B T"], max_tokens: int
) -> AnswerSpan:
    """Return the pair i <= j < i + max_tokens with the highest start_i + end_j.

    Of equally good pairs, the one with the lowest i wins, then with the lowest j. Impossible tokens
    have the score -inf. Takes time and memory B T max_tokens.
    """
    width = min(max_tokens, start_BT.shape[1])
    padded = functional.pad(end_BT, (0, width - 1), value=-torch.inf)
    best = padded.unfold(1, width, 1).max(-1)
    score_B, first_B = (start_BT + best.values).max(1)
    more_B = best.indices.gather(1, first_B.unsqueeze(1)).squeeze(1)
    return AnswerSpan(first_B, first_B + more_B, score_B)


@HEADS.register("span")
class SpanHead(Head):
    """Choose the first and the last token of an answer: p(i, j) = p_start(i) p_end(j).

    p_start = softmax(u . x_i) and p_end = softmax(v . y_j) over the tokens, with x and y from the
    two inputs, which may be the same layer twice; loss = -(log p_start + log p_end) / 2 of the
    right tokens, a mean over the examples. The answer is the pair i <= j < i + max_answer_tokens
    with the highest p(i, j).

    If questions may have no answer (the task's labels name `unanswerable`), "no answer" is one more
    place in both softmaxes. Its scores are linear maps of the maximum over the tokens of x and y.
    No answer is predicted if log p(none) - log p(i, j) is above a threshold, which is saved with
    the weights: 0 until it is tuned on the split that selects the epoch.

    Args:
        num_labels: 1, or 2 if questions may have no answer.
        dropout: probability of a zero in both inputs.
        max_answer_tokens: tokens of the longest answer.

    Shape: x [B, T, D] and y [B, T, E] to [B, S, 2].

    Source: Seo et al. 2017 (bidirectional attention flow), section 2, output layer; no answer as
        one more place: Levy et al. 2017 (zero-shot relation extraction), section 4.
    Note: Levy et al. learn one score of no answer for all questions; here it depends on the tokens.
        The limit of the answer's length is ours.
    """

    kinds = frozenset({"span"})
    target = "answers"
    ranks = ((SEQUENCE,), (SEQUENCE,))
    threshold: Tensor

    def __init__(
        self,
        start_dim: int,
        end_dim: int,
        num_labels: int,
        *,
        dropout: Probability = 0.0,
        max_answer_tokens: PositiveInt = 30,
    ) -> None:
        super().__init__()
        # no bias: a softmax over tokens would ignore it, and "no answer" has one
        self.start = nn.Linear(start_dim, 1, bias=False)
        self.end = nn.Linear(end_dim, 1, bias=False)
        self.has_none = num_labels == 2
        if self.has_none:
            self.no_start = nn.Linear(start_dim, 1)
            self.no_end = nn.Linear(end_dim, 1)
            self.register_buffer("threshold", torch.zeros((), dtype=torch.float64))
        self.dropout = dropout
        self.max_answer_tokens = max_answer_tokens

    def forward(
        self, x_BTD: Tokens, y_BTE: Float[Tensor, "B T E"], mask_BT: Mask
    ) -> Float[Tensor, "B S 2"]:
        """Return the scores of each place as first and last token, zeros at padding."""
        x_BTD = functional.dropout(x_BTD, self.dropout, self.training)
        y_BTE = functional.dropout(y_BTE, self.dropout, self.training)
        scores_BT2 = zero_padding(torch.cat([self.start(x_BTD), self.end(y_BTE)], -1), mask_BT)
        if not self.has_none:
            return scores_BT2
        none = [self.no_start(pool_max(x_BTD, mask_BT)), self.no_end(pool_max(y_BTE, mask_BT))]
        return torch.cat([torch.cat(none, -1).unsqueeze(1), scores_BT2], 1)

    def loss(
        self, scores_BS2: Float[Tensor, "B S 2"], target_B2: Int[Tensor, "B 2"], mask_BT: Mask
    ) -> Loss:
        """Return the mean loss of the examples that have tokens."""
        assert self.has_none or bool((target_B2 >= 0).all()), "a question without an answer"
        log_BS2 = self._normalise(scores_BS2, mask_BT)
        place_B2 = (target_B2 + int(self.has_none)).unsqueeze(1)
        right_B = log_BS2.gather(1, place_B2).squeeze(1).mean(-1)
        real_B = mask_BT.any(1)
        return -right_B.masked_fill(~real_B, 0.0).sum() / real_B.sum().clamp(min=1)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        assert where is not None
        return where.any(1).sum()

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of examples that have a place to choose."""
        count = super().count_rows if self.has_none else self.count_terms
        return count(target, where)

    def decode(self, scores_BS2: Float[Tensor, "B S 2"], mask_BT: Mask) -> Decoded:
        """Return the answers, -1 for none, and p(i, j) and p(none) in 64 bits."""
        shift = int(self.has_none)
        log_BS2 = self._normalise(scores_BS2.double(), mask_BT)
        start_BT, end_BT = log_BS2[:, shift:].unbind(-1)
        span = find_best_span(start_BT, end_BT, self.max_answer_tokens)
        found_B2 = torch.stack([span.first, span.last], -1)
        empty_B = ~mask_BT.any(1)
        scores = [span.score.masked_fill(empty_B, -torch.inf)]
        if self.has_none:
            none_B = log_BS2[:, 0].sum(-1)
            empty_B = empty_B | (none_B - scores[0] > self.threshold)
            scores.append(none_B)
        found_B2 = found_B2.masked_fill(empty_B.unsqueeze(-1), NO_ANSWER)
        return Decoded(found_B2, torch.stack(scores, -1).exp())

    def outputs(self, scores_BS2: Float[Tensor, "B S 2"], mask_BT: Mask) -> Float[Tensor, "N S"]:
        """Return the logits of the places, a row for each example's first and last token."""
        mask_BS = self._mask_places(mask_BT)
        rows = mask_BS.any(1).nonzero().squeeze(1)
        logits = hide_classes(scores_BS2, mask_BS.unsqueeze(-1)).index_select(0, rows)
        return logits.transpose(1, 2).flatten(0, 1)

    def _mask_places(self, mask_BT: Tensor) -> Tensor:
        none_B = mask_BT.new_ones(len(mask_BT), int(self.has_none))
        return torch.cat([none_B, mask_BT], 1)

    def _normalise(self, scores_BS2: Tensor, mask_BT: Tensor) -> Tensor:
        """Return the log-probabilities of each place, -inf at padding."""
        mask_BS1 = self._mask_places(mask_BT).unsqueeze(-1)
        # zeros for an example without a place: a softmax over nothing has no gradient
        padding_BS1 = ~mask_BS1 & mask_BS1.any(1, keepdim=True)
        return scores_BS2.masked_fill(padding_BS1, -torch.inf).log_softmax(1)
