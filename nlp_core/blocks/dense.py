"""Numbers of an example or of each of its tokens.

Shape letters: B batch, T tokens, W numbers, D width of the output.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from nlp_core.blocks.base import BLOCKS, NUMBERS, SEQUENCE, TOKEN_NUMBERS, VECTOR, Block, Shape
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt
from nlp_core.data.number import NumberVocabulary


@BLOCKS.register("dense_features")
class DenseFeatures(Block):
    """Read numbers, scaled by the training split: y = z or W z + b, with z = (x - mean) / std.

    It reads a column of numbers of each example, such as `dense.votes`, or of one number of each
    token, such as `token_dense.surprisal`. Mean and deviation are those of the training split and
    are saved with the vocabulary; a constant number has deviation 1.

    Args:
        width: how many numbers the column has; 1 for a column of tokens.
        hidden_dim: width D of the linear map; null: no map.

    Shape: numbers [B, W] to [B, D], or [B, T, W] and mask [B, T] to [B, T, D]; D = W without map.
    """

    ranks = ((NUMBERS, TOKEN_NUMBERS),)
    causal = True
    vocabulary = NumberVocabulary

    def __init__(
        self, num: int, *, width: PositiveInt = 1, hidden_dim: PositiveInt | None = None
    ) -> None:
        super().__init__()
        self.linear = None if hidden_dim is None else nn.Linear(width, hidden_dim)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        dim = options.get("hidden_dim") or options.get("width", 1)
        assert isinstance(dim, int), dim
        return Shape(VECTOR if inputs[0].rank == NUMBERS else SEQUENCE, dim)

    def forward(
        self, x: Float[Tensor, "*N W"], mask: Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N D"]:
        return zero_padding(x if self.linear is None else self.linear(x), mask)
