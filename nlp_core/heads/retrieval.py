"""The head of two towers: a vector of a query, and one of a passage that may answer it.

Shape letters: B batch (pairs of a query and a passage), D width of the vectors.
"""

from typing import ClassVar, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from nlp_core.blocks.base import VECTOR
from nlp_core.blocks.masking import Vector
from nlp_core.blocks.option import PositiveFloat
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, Decoded, Head, Labels, Loss, hide_classes

Similarity = Literal["cosine", "dot"]
COSINE: Final = "cosine"
EMBEDDING = "embedding"
"""What a bundle of vectors predicts."""


@HEADS.register("retrieval")
class RetrievalHead(Head):
    """Score each query of a batch with each passage of it: s_ij = q_i . p_j / temperature.

    loss = mean over the right pairs i of log(exp(s_ii) + sum_j exp(s_ij)) - s_ii, where j runs over
    the passages of the batch that do not answer query i: those of other queries (in-batch
    negatives) and all that are labelled as wrong (hard negatives). A passage that occurs more than
    once counts once. With similarity `cosine`, q and p are divided by their lengths.

    Prediction searches all passages: q and p go into an index, and the rank of a passage is
    predicted.

    Args:
        similarity: `cosine` or `dot`, the product of the vectors.
        temperature: by which similarities are divided, above 0; cosines need about 0.05.

    Shape: [B, D] of the queries and [B, D] of the passages to [B, B].

    Raises:
        ConfigError: the two vectors have different widths, or the task does not have two labels.

    Source: Karpukhin et al. 2020 (dense passage retrieval), section 3.2, equation 2; temperature
        and cosine as in Chen et al. 2020 (SimCLR), equation 1.
    Note: a query with several right passages has a term for each.
    """

    kinds = frozenset({"retrieval"})
    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((VECTOR,), (VECTOR,))
    grouped = True
    whole = True
    separate = True

    def __init__(
        self,
        query_dim: int,
        passage_dim: int,
        num_labels: int,
        *,
        similarity: Similarity = "cosine",
        temperature: PositiveFloat = 0.05,
    ) -> None:
        super().__init__()
        if query_dim != passage_dim:
            raise ConfigError(
                f"retrieval: found vectors of widths {query_dim} and {passage_dim}, expected equal "
                "widths; end both towers with a linear layer of the same width."
            )
        if num_labels != 2:
            raise ConfigError(
                f"retrieval: found a task of {num_labels} labels, expected 2, wrong and right."
            )
        self.similarity = similarity
        self.temperature = temperature

    def project(self, x_BD: Vector) -> Vector:
        """Return vectors whose products are the similarities."""
        return functional.normalize(x_BD, dim=-1) if self.similarity == "cosine" else x_BD

    def forward(
        self, query_BD: Vector, passage_BD: Vector, mask: None = None
    ) -> Float[Tensor, "B B"]:
        return self.project(query_BD) @ self.project(passage_BD).T / self.temperature

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        return (target == 1).sum()

    def loss(
        self, scores_BB: Float[Tensor, "B B"], target_B: Labels, place_B2: Int[Tensor, "B 2"]
    ) -> Loss:
        """Return the mean over the right pairs; 0 without any.

        Args:
            scores_BB: of queries and passages.
            target_B: 1 where the passage answers the query.
            place_B2: the number of the query, and that of the passage.
        """
        negative_BB = find_negatives(target_B == 1, place_B2)
        own_B = scores_BB.diagonal()
        against_B = hide_classes(scores_BB, negative_BB).logsumexp(1)
        right_B = target_B == 1
        loss_B = functional.softplus(against_B - own_B)
        mean: Tensor = loss_B[right_B].sum() / right_B.sum().clamp(min=1)
        return mean

    def decode(self, scores_BB: Float[Tensor, "B B"], mask: None = None) -> Decoded:
        """Return the rank of each query's own passage in the batch, from 1; ties do not help."""
        own_B1 = scores_BB.diagonal().unsqueeze(1)
        return Decoded((scores_BB >= own_B1).sum(1), None)


class EmbeddingHead(Head):
    """Give the vector of a layer; that of a retrieval model with cosines has length 1.

    Args:
        similarity: of the retrieval model that reads the layer; None: another model reads it.

    Shape: [B, D] to [B, D].
    """

    target = EMBEDDING  # type: ignore[assignment]  # no column of a task

    def __init__(self, *, similarity: Similarity | None) -> None:
        super().__init__()
        self.similarity = similarity

    def forward(self, x_BD: Vector, mask: None = None) -> Vector:
        return functional.normalize(x_BD, dim=-1) if self.similarity == COSINE else x_BD


def find_negatives(
    right_B: Bool[Tensor, " B"], place_B2: Int[Tensor, "B 2"]
) -> Bool[Tensor, "B B"]:
    """Return where a passage is a negative of a query; of equal passages the first one only."""
    query_B, passage_B = place_B2.unbind(1)
    is_same_BB = passage_B.unsqueeze(1) == passage_B
    answers_BB = (query_B.unsqueeze(1) == query_B) & right_B
    answers_BB = (answers_BB.float() @ is_same_BB.float()) > 0
    is_first_B = is_same_BB.long().argmax(1) == torch.arange(len(right_B), device=right_B.device)
    return is_first_B & ~answers_BB
