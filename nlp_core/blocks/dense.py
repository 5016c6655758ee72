"""Numbers that come with an example or with each of its tokens.

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

    It reads a column of numbers an example, `dense.votes` say, or of one a token,
    `token_dense.surprisal`. Mean and deviation are those of the training split and stored with the
    vocabulary; a number that never varies there has deviation 1.

    Args:
        num: how many numbers the column has.
        width: the same number, given before data is read; 1 for a column of one a token.
        hidden_dim: width D of the linear map; null: the scaled numbers themselves.

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
        """Return a vector or a sequence of width `hidden_dim`, or else `width`."""
        dim = options.get("hidden_dim") or options.get("width", 1)
        assert isinstance(dim, int), dim
        return Shape(VECTOR if inputs[0].rank == NUMBERS else SEQUENCE, dim)

    def forward(
        self, x: Float[Tensor, "*N W"], mask: Bool[Tensor, "*N"] | None
    ) -> Float[Tensor, "*N D"]:
        """Return the numbers or their map, zeros at padding."""
        return zero_padding(x if self.linear is None else self.linear(x), mask)
