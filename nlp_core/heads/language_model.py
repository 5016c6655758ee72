"""Heads that predict words: each next word of a text, or its masked pieces.

Shape letters: B batch, T tokens or pieces, N predicted words, M masked pieces, D width of the
input, E width of an encoder's embeddings, V words or pieces of the vocabulary.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, list_options
from nlp_core.config.base import parse_config
from nlp_core.config.pretraining import MaskingConfig
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, HeadBatch, Loss

ROWS_AT_ONCE = 1024  # bounds the scores that are held while a split is measured
NORM_EPS, START_STD = 1e-12, 0.02
Share = Annotated[float, Field(gt=0, lt=1)]
Chance = Annotated[float, Field(ge=0, le=1)]
Target = Int[Tensor, "B T"]
"""Ids of the words to predict, -1 where none is."""


def measure_words(logits: Iterable[Tensor], target_N: Tensor) -> Tensor:
    """Return the log probability of each target, [N], for logits in parts of `ROWS_AT_ONCE`."""
    parts = zip(logits, torch.split(target_N, ROWS_AT_ONCE), strict=True)
    return -torch.cat([functional.cross_entropy(*part, reduction="none") for part in parts])


class WordHead(Head):
    """Predict some words of a text."""

    ranks = ((SEQUENCE,),)

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        return (batch.targets[self.target],)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        return (target != PADDING_LABEL).sum()


@HEADS.register("language_model")
class LanguageModelHead(WordHead):
    """Predict each next word: log p(w_{t+1} | w_1 ... w_t) = log softmax(E dropout(x_t) + b).

    loss = -sum of log p over all words that have one before them / their number. E has a row for
    each word of a word_embedding layer, and is that layer's own table where the weights are tied.
    No layer below may look at words after t; planning raises ConfigError if one does.

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

    def forward(
        self,
        x_BTD: Tokens,
        mask_BT: Mask,
        target_BT: Target,
        table_VD: Float[Tensor, "V D"] | None = None,
    ) -> Float[Tensor, "B T"]:
        """Return the log probability of each next word, 0 where there is none.

        Args:
            table_VD: the table of the embedding; read when the weights are tied.
        """
        weight_VD = table_VD if self.weight is None else self.weight
        assert weight_VD is not None, "tied weights need the table of the embedding"
        x_BTD = functional.dropout(zero_padding(x_BTD, mask_BT), self.dropout, self.training)
        has_next_BT = mask_BT & (target_BT != PADDING_LABEL)
        rows_N = has_next_BT.flatten().nonzero().squeeze(1)
        x_ND = x_BTD.flatten(0, 1).index_select(0, rows_N)
        target_N = target_BT.flatten().index_select(0, rows_N)
        parts = torch.split(x_ND, ROWS_AT_ONCE)
        logits = (functional.linear(part, weight_VD, self.bias) for part in parts)
        log_prob_N = measure_words(logits, target_N)
        empty = log_prob_N.new_zeros(has_next_BT.numel())
        return empty.index_copy(0, rows_N, log_prob_N).view(has_next_BT.shape)

    def loss(self, scores_BT: Float[Tensor, "B T"], target_BT: Target, mask_BT: Mask) -> Loss:
        count = (mask_BT & (target_BT != PADDING_LABEL)).sum().clamp(min=1)
        return -scores_BT.sum() / count

    def decode(self, scores_BT: Float[Tensor, "B T"], mask_BT: Mask) -> Decoded:
        """Return the log probability of each text, [B]."""
        return Decoded(scores_BT.double().sum(1), None)


class PieceScores(nn.Module):
    """Score all pieces at each masked position: W layer_norm(gelu(A x + a)) + b."""

    def __init__(self, in_dim: int, embedding_dim: int, num_pieces: int) -> None:
        super().__init__()
        self.dense = nn.Linear(in_dim, embedding_dim)
        self.norm = nn.LayerNorm(embedding_dim, eps=NORM_EPS)
        self.bias = nn.Parameter(torch.zeros(num_pieces))
        nn.init.normal_(self.dense.weight, std=START_STD)
        nn.init.zeros_(self.dense.bias)

    def forward(
        self, x_MD: Float[Tensor, "M D"], table_VE: Float[Tensor, "V E"]
    ) -> Float[Tensor, "M V"]:
        x_ME = self.norm(functional.gelu(self.dense(x_MD)))
        return functional.linear(x_ME, table_VE, self.bias)


@HEADS.register("masked_language_model")
class MaskedLanguageModelHead(WordHead):
    """Predict the masked pieces of a text: p = softmax(W layer_norm(gelu(A x + a)) + b).

    loss = -sum of log p over all masked pieces / their number. W is the encoder's own table of
    embeddings. The task is a corpus, whose windows get new masks in every step: it pretrains an
    encoder, or trains it together with other tasks.

    Args:
        in_dim: width D of the input.
        num_pieces: V.
        embedding_dim: E; None: D.
        share: of the pieces of a window that are masked, in (0, 1).
        most: most of them in a window.
        hidden_prob: probability that the mask replaces it.
        random_prob: probability that a random piece replaces it; else it stays as it is.
        whole_words: whether all pieces of a word are masked together.

    Shape: [B, T, D] and masked pieces [B, T] (-1 where none is) to the logits [M, V].

    Raises:
        ConfigError: the probabilities add up to more than 1.

    Source: Devlin et al. 2019 (BERT), section 3.1 and appendix A.1; Press and Wolf 2017, section 3,
        for the tied weights.
    """

    kinds = frozenset({"masked_language_model"})
    target = "masked"
    decodes_target = True
    reads_texts = True

    def __init__(
        self,
        in_dim: int,
        num_pieces: int,
        embedding_dim: int | None = None,
        *,
        share: Share = 0.15,
        most: PositiveInt = 80,
        hidden_prob: Chance = 0.8,
        random_prob: Chance = 0.1,
        whole_words: bool = False,
    ) -> None:
        super().__init__()
        probs = {"hidden_prob": hidden_prob, "random_prob": random_prob}
        masking = {"share": share, "most": most, "whole_words": whole_words, **probs}
        parse_config(masking, MaskingConfig, where="masked_language_model")
        self.piece = PieceScores(in_dim, embedding_dim or in_dim, num_pieces)

    @classmethod
    def find_rule(cls, options: Mapping[str, Any]) -> MaskingConfig:
        """Return how the options of a model file mask pieces."""
        defaults = {name: item.default for name, item in list_options(cls).items()}
        return MaskingConfig(**{**defaults, **options})

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, target_BT: Target, table_VE: Float[Tensor, "V E"]
    ) -> Float[Tensor, "M V"]:
        """Return the logits at each masked piece."""
        positions_M = (mask_BT & (target_BT != PADDING_LABEL)).flatten().nonzero().squeeze(1)
        x_MD = x_BTD.flatten(0, 1).index_select(0, positions_M)
        logits_MV: Tensor = self.piece(x_MD, table_VE)
        return logits_MV

    def loss(self, logits_MV: Float[Tensor, "M V"], target_BT: Target, mask_BT: Mask) -> Loss:
        target_M = target_BT[mask_BT & (target_BT != PADDING_LABEL)]
        total = functional.cross_entropy(logits_MV, target_M, reduction="sum")
        return total / max(len(target_M), 1)

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        return self.count_terms(target, where)

    def outputs(self, logits_MV: Float[Tensor, "M V"], mask: object = None) -> Float[Tensor, "M V"]:
        return logits_MV

    def decode(self, logits_MV: Float[Tensor, "M V"], mask_BT: Mask, target_BT: Target) -> Decoded:
        """Return the log probability of each text's masked pieces, and the share predicted."""
        is_masked_BT = mask_BT & (target_BT != PADDING_LABEL)
        target_M = target_BT[is_masked_BT]
        log_prob_M = measure_words(torch.split(logits_MV, ROWS_AT_ONCE), target_M)
        log_prob_BT = torch.zeros(is_masked_BT.shape, dtype=torch.float64, device=logits_MV.device)
        log_prob_BT[is_masked_BT] = log_prob_M.double()
        is_right_BT = torch.zeros_like(is_masked_BT)
        is_right_BT[is_masked_BT] = logits_MV.argmax(1) == target_M
        share_B = is_right_BT.sum(1) / is_masked_BT.sum(1).clamp(min=1)
        return Decoded(log_prob_BT.sum(1), share_B.double().unsqueeze(-1))
