"""What a pretrained encoder learns from: masked pieces, and which segment follows which.

Shape letters: B batch, L pieces of a window, M masked pieces of a batch, D width, E width of the
embeddings, V pieces of the vocabulary.
"""

import inspect
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlp_core.blocks.masked_piece import MaskedPieceHead, start_linear

NUM_ANSWERS = 2


class PretrainingScores(NamedTuple):
    """What a model makes of a batch.

    Attributes:
        pieces: scores of the pieces at each masked place, [M, V].
        answers: scores of no and yes for each pair, [B, 2]; None without pairs.
    """

    pieces: Tensor
    answers: Tensor | None


class PairHead(nn.Module):
    """Answer what is asked of two segments, from the first piece: W tanh(A x + a) + b.

    Args:
        in_dim: width D of the encoder.
        std: of the fresh weights.

    Shape: [B, D] to [B, 2], no and yes.

    Source: Devlin et al. 2019 (BERT), appendix A.1; Lan et al. 2020 (ALBERT), section 3.1.
    """

    def __init__(self, in_dim: int, *, std: float) -> None:
        super().__init__()
        self.dense = nn.Linear(in_dim, in_dim)
        self.score = nn.Linear(in_dim, NUM_ANSWERS)
        start_linear(self.dense, std)
        start_linear(self.score, std)

    def forward(self, x_BD: Float[Tensor, "B D"]) -> Float[Tensor, "B 2"]:
        """Return the scores of no and yes."""
        scores_B2: Tensor = self.score(torch.tanh(self.dense(x_BD)))
        return scores_B2


class MaskedLanguageModel(nn.Module):
    """An encoder with the heads that it is pretrained by.

    Args:
        encoder: of the library transformers, without a pooling layer.
        has_pairs: whether segments come in pairs that something is asked of.
    """

    def __init__(
        self,
        encoder: Any,  # Any: a class of its own for each sort of encoder
        *,
        has_pairs: bool,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        config = encoder.config
        table_VE = encoder.get_input_embeddings().weight
        std = float(getattr(config, "initializer_range", 0.02))
        self.heads = nn.ModuleDict(
            {
                "piece": MaskedPieceHead(
                    config.hidden_size,
                    table_VE.shape[1],
                    table_VE.shape[0],
                    norm_eps=float(getattr(config, "layer_norm_eps", 1e-12)),
                    std=std,
                )
            }
        )
        if has_pairs:
            self.heads["pair"] = PairHead(config.hidden_size, std=std)
        allowed = inspect.signature(encoder.forward).parameters
        types = getattr(config, "type_vocab_size", 0)
        self.reads_segments = "token_type_ids" in allowed and types > 1

    def read(self, *arrays: object) -> list[Tensor]:
        """Return arrays of numpy as tensors of the same type, where the weights are."""
        device = self.encoder.get_input_embeddings().weight.device
        return [torch.as_tensor(array, device=device) for array in arrays]

    def encode(
        self,
        ids_BL: Int[Tensor, "B L"],
        segments_BL: Int[Tensor, "B L"],
        inside_BL: Bool[Tensor, "B L"],
    ) -> Float[Tensor, "B L D"]:
        """Return the vectors of the encoder's last layer."""
        more = {"token_type_ids": segments_BL} if self.reads_segments else {}
        found = self.encoder(input_ids=ids_BL, attention_mask=inside_BL.long(), **more)
        hidden_BLD: Tensor = found.last_hidden_state
        return hidden_BLD

    def score(
        self, hidden_BLD: Float[Tensor, "B L D"], places_M: Int[Tensor, " M"]
    ) -> PretrainingScores:
        """Return the scores at the masked places of the flat batch, and those of the pairs."""
        x_MD = hidden_BLD.flatten(0, 1).index_select(0, places_M)
        scores_MV = self.heads["piece"](x_MD, self.encoder.get_input_embeddings().weight)
        has_pairs = "pair" in self.heads
        return PretrainingScores(
            scores_MV, self.heads["pair"](hidden_BLD[:, 0]) if has_pairs else None
        )
