"""The output layers of a masked language model.

Shape letters: M masked pieces of a batch, D width, E width of the embeddings, V pieces of the
vocabulary.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class MaskedPieceHead(nn.Module):
    """Score the vocabulary at masked places: W layer_norm(gelu(A x + a)) + b.

    W is the encoder's table of embeddings (tied weights).

    Args:
        std: standard deviation of the initial A.

    Shape: [M, D] and a table [V, E] to [M, V].

    Source: Devlin et al. 2019 (BERT), appendix A.1; Press and Wolf 2017, section 3.
    """

    def __init__(
        self, in_dim: int, embedding_dim: int, num_pieces: int, *, norm_eps: float, std: float
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(in_dim, embedding_dim)
        self.norm = nn.LayerNorm(embedding_dim, eps=norm_eps)
        self.bias = nn.Parameter(torch.zeros(num_pieces))
        start_linear(self.dense, std)

    def forward(
        self, x_MD: Float[Tensor, "M D"], table_VE: Float[Tensor, "V E"]
    ) -> Float[Tensor, "M V"]:
        x_ME = self.norm(functional.gelu(self.dense(x_MD)))
        return functional.linear(x_ME, table_VE, self.bias)


def start_linear(layer: nn.Linear, std: float) -> None:
    """Set normally distributed weights and a bias of 0."""
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
