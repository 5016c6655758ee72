"""What every block is: a module whose output shape is known before any data is read.

Shape letters: B batch, T tokens, S tokens of a second sequence, U distinct words of a batch,
C characters in a word, D width.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError
from nlp_core.registry import Registry

PIECES = -3
"""Rank of a raw input of texts cut into pieces, in windows of one or more an example.

The block gets `ids_WL, segments_WL, inside_WL, place_BT, mask_BT`: the pieces, 1 at those of a
second text, True at real ones, and for each place of an example its number among all W * L pieces.
"""

TOKEN_NUMBERS = -2
"""Rank of a raw input of numbers a token: the block gets `x_BTW, mask_BT`."""

NUMBERS = -1
"""Rank of a raw input of numbers an example: the block gets `x_BW, None`."""

WORDS = 0
"""Rank of a raw input of word ids: the block gets `ids_BT, mask_BT`."""

CHARACTERS = 1
"""Rank of a raw input of character ids: the block gets `ids_UC, index_BT, mask_BT`."""

VECTOR = 2
"""Rank of one vector an example, [B, D]: the block gets `x_BD, None`."""

SEQUENCE = 3
"""Rank of one vector a token, [B, T, D]: the block gets `x_BTD, mask_BT`."""

GRID = 4
"""Rank of one vector a pair of tokens of two sequences, [B, T, S, D]: `x_BTSD, mask_BTS`.

A cell is real where both of its tokens are.
"""


class Shape(NamedTuple):
    """The shape of a layer's output, without the batch and its padding.

    Attributes:
        rank: VECTOR, SEQUENCE or GRID (or that of a raw input, below VECTOR).
        dim: width of the last axis; for a raw input, the size of its vocabulary.
    """

    rank: int
    dim: int


class Block(nn.Module):
    """A layer of a model graph.

    The positional arguments of `__init__` are the widths of the inputs, in order; its keyword-only
    arguments, with their types and defaults, are the options a model file may set. `forward` takes
    each input followed by its mask (True at real tokens, None for a rank without tokens) and
    returns one tensor. `output_mask` says where that tensor is real.

    Every block ignores padding: more of it changes no output and no gradient.
    """

    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((SEQUENCE,),)
    """For each input, the ranks it may have. The last entry repeats when `variadic`."""

    variadic: ClassVar[bool] = False
    """True when the last input may be given any number of times."""

    elementwise: ClassVar[bool] = False
    """True when inputs with tokens need one place for each token in all of them."""

    resizes: ClassVar[bool] = False
    """True when an output with tokens has other lengths than the first input."""

    vocabulary: ClassVar[type[Vocabulary] | None] = None
    """How a raw input becomes numbers; None: a word or a character an id, as its rank says."""

    files: ClassVar[tuple[str, ...]] = ()
    """Options that name files of the project which a training reads."""

    causal: ClassVar[bool] = False
    """True when the output at a token depends on no token behind it, whatever the options."""

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        """Say whether, with these options, the output at a token depends on none behind it."""
        return cls.causal

    @classmethod
    def list_aligned(cls, count: int, options: Mapping[str, object]) -> list[tuple[int, ...]]:
        """Return groups of inputs that need one place for each token in all of a group.

        Args:
            count: how many inputs there are.
            options: the layer's, already checked.

        Returns:
            Places of inputs, from 0: all of them where the block is `elementwise`, else none.
        """
        return [tuple(range(count))] if cls.elementwise else []

    @classmethod
    def start(cls, vocabulary: Vocabulary, **options: Any) -> "Block":  # Any: checked options
        """Make the block of a raw-input layer.

        Args:
            vocabulary: what turns its column into numbers.
            options: the layer's, already checked.

        Raises:
            ConfigError: the options do not fit what the vocabulary was read from.
        """
        return cls(len(vocabulary), **options)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the output's shape for inputs of allowed ranks.

        Raises:
            ConfigError: the widths do not fit together; the message says which and why.
        """
        raise NotImplementedError

    def find_word_table(self) -> nn.Module | None:
        """Return the module of this block whose output are the vectors of words; None: none is.

        Its first argument are ids, its output has a vector for each of them before anything else
        is added, and its `padding_idx` is the id of padding.
        """
        return None

    def output_mask(self, *masks: Tensor | None) -> Tensor | None:
        """Return the mask of the output for the masks of the inputs.

        It is that of the first input, unless a block that makes a grid or `resizes` says
        otherwise. Nobody asks for that of a vector.
        """
        return masks[0]

    forward: Callable[..., Tensor]
    """Return the layer's output for inputs and masks, in turn; each block names its own."""


BLOCKS: Registry[type[Block]] = Registry("block")


def require_equal(what: str, first: int, second: int) -> None:
    """Refuse two widths that should be the same.

    Raises:
        ConfigError: they differ.
    """
    if first != second:
        raise ConfigError(f"{what}: found widths {first} and {second}, expected equal widths.")
