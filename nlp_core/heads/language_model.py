"""The head that predicts each next word of a text.

Shape letters: B batch, T tokens, N predicted words, D width of the input, V words.
"""

from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, zero_padding
from nlp_core.blocks.option import Probability
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, HeadBatch

ROWS_AT_ONCE = 1024  # bounds the scores that are held while a split is measured


@HEADS.register("language_model")
class LanguageModelHead(Head):
    """Predict each next word: log p(w_{t+1} | w_1 ... w_t) = log softmax(E dropout(x_t) + b).

    loss = -sum of log p over all words that have one before them / their number. E has a row for
    each word of a word_embedding layer, and is that layer's own table where the weights are tied.
    The layers below may look at no word behind t; the plan refuses those that do.

    Args:
        in_dim: width D of the input; with tied weights that of the embedding.
        num_words: V, padding and the unknown word included.
        vocabulary: name of the word_embedding layer whose words are predicted.
        tied: whether E is the table of that layer.
        dropout: probability of a zero in the input, in [0, 1).

    Shape: [B, T, D], next words [B, T] (-1 where none follows) to log probabilities [B, T].

    Source: Press and Wolf 2017 (using the output embedding), section 3, for the tied weights.
    """

    kinds = frozenset({"language_model"})
    target = "next_word"
    ranks = ((SEQUENCE,),)
    causal = True

    def __init__(
        self,
        in_dim: int,
        num_words: int,
        *,
        vocabulary: Annotated[str, Field(min_length=1)],
        tied: bool = True,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.weight: nn.Parameter | None = None
        if not tied:
            bound = in_dim**-0.5
            self.weight = nn.Parameter(torch.empty(num_words, in_dim).uniform_(-bound, bound))
        self.vocabulary = vocabulary
        self.dropout = dropout

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        return (batch.targets[self.target],)

    def forward(
        self,
        x_BTD: Tokens,
        mask_BT: Mask,
        target_BT: Int[Tensor, "B T"],
        table_VD: Float[Tensor, "V D"] | None = None,
    ) -> Float[Tensor, "B T"]:
        """Return the log probability of each next word, 0 where there is none.

        Args:
            x_BTD: what is known at each token.
            table_VD: the table of the embedding; read when the weights are tied.
        """
        weight_VD = table_VD if self.weight is None else self.weight
        assert weight_VD is not None, "tied weights need the table of the embedding"
        x_BTD = functional.dropout(zero_padding(x_BTD, mask_BT), self.dropout, self.training)
        has_next_BT = mask_BT & (target_BT != PADDING_LABEL)
        rows_N = has_next_BT.flatten().nonzero().squeeze(1)
        x_ND = x_BTD.flatten(0, 1).index_select(0, rows_N)
        target_N = target_BT.flatten().index_select(0, rows_N)
        parts = [
            -functional.cross_entropy(
                functional.linear(x_D, weight_VD, self.bias), target, reduction="none"
            )
            for x_D, target in zip(
                torch.split(x_ND, ROWS_AT_ONCE), torch.split(target_N, ROWS_AT_ONCE), strict=True
            )
        ]
        log_prob_N = torch.cat(parts)
        empty = log_prob_N.new_zeros(has_next_BT.numel())
        return empty.index_copy(0, rows_N, log_prob_N).view(has_next_BT.shape)

    def loss(
        self, scores_BT: Float[Tensor, "B T"], target_BT: Int[Tensor, "B T"], mask_BT: Mask
    ) -> Float[Tensor, ""]:
        count = (mask_BT & (target_BT != PADDING_LABEL)).sum().clamp(min=1)
        return -scores_BT.sum() / count

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        return (target != PADDING_LABEL).sum()

    def decode(self, scores_BT: Float[Tensor, "B T"], mask_BT: Mask) -> Decoded:
        """Return the log probability of each text, [B]."""
        return Decoded(scores_BT.double().sum(1), None)
