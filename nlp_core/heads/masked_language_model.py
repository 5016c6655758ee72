"""The head that tells the hidden pieces of a text, to train an encoder beside other tasks.

Shape letters: B batch, T pieces of a window, M hidden pieces, D width of the input, E width of the
encoder's embeddings, V pieces of the vocabulary.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masked_piece import MaskedPieceHead
from nlp_core.blocks.option import PositiveInt, read_option
from nlp_core.data.masking import MaskingRule
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, HeadBatch

PIECES_AT_ONCE = 1024  # bounds the scores that are held at a time
NORM_EPS, START_STD = 1e-12, 0.02
Share = Annotated[float, Field(gt=0, lt=1)]
Chance = Annotated[float, Field(ge=0, le=1)]


@HEADS.register("masked_language_model")
class MaskedLanguageModelHead(Head):
    """Tell the hidden pieces of a text: p = softmax(W layer_norm(gelu(A x + a)) + b).

    loss = -sum of log p over all hidden pieces / their number. W is the table of embeddings of the
    encoder below. The task is a corpus, whose windows are hidden otherwise in every step; an
    auxiliary one that trains the encoder beside other tasks.

    Args:
        in_dim: width D of the input.
        num_pieces: V.
        embedding_dim: E; None: D.
        share: of the pieces of a window that are to be told, in (0, 1).
        most: most of them in a window.
        hidden_prob: probability that the mask stands there.
        random_prob: probability that any other piece stands there; else it stays as it is.
        whole_words: whether all pieces of a word are hidden together.

    Shape: [B, T, D] and hidden pieces [B, T] (-1 where none is) to [B, T, 2]: the log probability
        of each hidden piece, and 1 where it is the likeliest, -1 where not; zeros elsewhere.

    Raises:
        ConfigError: the probabilities are more than 1 together.

    Source: Devlin et al. 2019 (BERT), section 3.1 and appendix A.1.
    """

    kinds = frozenset({"masked_language_model"})
    target = "masked"
    ranks = ((SEQUENCE,),)
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
        if hidden_prob + random_prob > 1:
            raise ConfigError(
                f"masked_language_model: found hidden_prob {hidden_prob} and random_prob "
                f"{random_prob}, expected at most 1 together."
            )
        self.piece = MaskedPieceHead(
            in_dim, embedding_dim or in_dim, num_pieces, norm_eps=NORM_EPS, std=START_STD
        )

    @classmethod
    def find_rule(cls, options: Mapping[str, Any]) -> MaskingRule:
        """Return how the options of a model file hide pieces."""
        return MaskingRule(
            share=read_option(cls, options, "share", float),
            most=read_option(cls, options, "most", int),
            hidden_prob=read_option(cls, options, "hidden_prob", float),
            random_prob=read_option(cls, options, "random_prob", float),
            whole_words=read_option(cls, options, "whole_words", bool),
        )

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        return (batch.targets[self.target],)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask_BT: Bool[Tensor, "B T"],
        target_BT: Int[Tensor, "B T"],
        table_VE: Float[Tensor, "V E"],
    ) -> Float[Tensor, "B T 2"]:
        """Return log probability and success at each hidden piece.

        Args:
            x_BTD: what is known at each piece.
            mask_BT: True at real pieces.
            target_BT: what is hidden.
            table_VE: the embeddings of the encoder.
        """
        is_hidden_BT = mask_BT & (target_BT != PADDING_LABEL)
        places_M = is_hidden_BT.flatten().nonzero().squeeze(1)
        x_MD = x_BTD.flatten(0, 1).index_select(0, places_M)
        target_M = target_BT.flatten().index_select(0, places_M)
        parts = zip(
            torch.split(x_MD, PIECES_AT_ONCE), torch.split(target_M, PIECES_AT_ONCE), strict=True
        )
        found_M2 = torch.cat([self._tell(x, target, table_VE) for x, target in parts])
        empty = found_M2.new_zeros(is_hidden_BT.numel(), 2)
        return empty.index_copy(0, places_M, found_M2).view(*is_hidden_BT.shape, 2)

    def _tell(self, x_MD: Tensor, target_M: Tensor, table_VE: Tensor) -> Tensor:
        scores_MV = self.piece(x_MD, table_VE)
        log_prob_M = -functional.cross_entropy(scores_MV, target_M, reduction="none")
        is_told_M = (scores_MV.argmax(1) == target_M).to(log_prob_M.dtype)
        return torch.stack([log_prob_M, 2 * is_told_M - 1], -1)

    def loss(
        self,
        scores_BT2: Float[Tensor, "B T 2"],
        target_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """Return the mean negative log probability of the hidden pieces."""
        count = (mask_BT & (target_BT != PADDING_LABEL)).sum().clamp(min=1)
        return -scores_BT2[..., 0].sum() / count

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of hidden pieces."""
        return (target != PADDING_LABEL).sum()

    def decode(self, scores_BT2: Float[Tensor, "B T 2"], mask_BT: Bool[Tensor, "B T"]) -> Decoded:
        """Return the log probability of each text's hidden pieces, and the share that was told."""
        scores = scores_BT2.double()
        told_BT = scores[..., 1]
        share_B = (told_BT > 0).sum(1) / (told_BT != 0).sum(1).clamp(min=1)
        return Decoded(scores[..., 0].sum(1), share_B.double().unsqueeze(-1))
