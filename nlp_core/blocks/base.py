"""The interface of blocks: modules whose output shape is known before any data is read.

Shape letters: B batch, T tokens, S tokens of a second sequence, U distinct words of a batch,
C characters in a word, D width.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from nlp_core.blocks.option import read_option
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError
from nlp_core.registry import Registry

# Ranks of inputs and outputs. The letters are what a block gets of an input of that rank.

PIECES = -3
"""Texts cut into pieces, in windows: `ids_WL, segments_WL, inside_WL, place_BT, mask_BT`.

`segments` is 1 in a second text, `inside` is True at real pieces, and `place` is the number of each
place of an example among all W * L pieces.
"""
TOKEN_NUMBERS = -2
"""Numbers of each token: `x_BTW, mask_BT`."""
NUMBERS = -1
"""Numbers of each example: `x_BW, None`."""
WORDS = 0
"""Word ids: `ids_BT, mask_BT`."""
CHARACTERS = 1
"""Character ids of the distinct words: `ids_UC, index_BT, mask_BT`."""
VECTOR = 2
"""One vector for each example: `x_BD, None`."""
SEQUENCE = 3
"""One vector for each token: `x_BTD, mask_BT`."""
GRID = 4
"""One vector for each pair of tokens of two sequences: `x_BTSD, mask_BTS`.

A cell is real if both of its tokens are.
"""
ANY_RANK = (VECTOR, SEQUENCE, GRID)


class Shape(NamedTuple):
    """The shape of a layer's output, without the batch and its padding."""

    rank: int
    """VECTOR, SEQUENCE or GRID; below VECTOR for a raw input."""
    dim: int
    """Width of the last axis; the size of the vocabulary for a raw input."""


class Block(nn.Module):
    """A layer of a model graph.

    The positional arguments of `__init__` are the widths of the inputs, in order; the keyword-only
    arguments are the options of a model file. `forward` takes each input followed by its mask
    (True at real tokens, None for a rank without tokens) and returns one tensor.

    Padding never changes an output or a gradient.
    """

    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((SEQUENCE,),)
    """The ranks that each input may have. The last entry repeats when `variadic`."""

    variadic: ClassVar[bool] = False
    """Whether the last input may be given any number of times."""

    elementwise: ClassVar[bool] = False
    """Whether all inputs with tokens must share their tokens."""

    equal_widths: ClassVar[bool] = False
    """Whether all inputs must have the same width."""

    output_rank: ClassVar[int | None] = None
    """Rank of the output; None: that of the first input."""

    output_width: ClassVar[str | None] = None
    """Option that is the width of the output; None: the width of the first input."""

    width_factor: ClassVar[int | str] = 1
    """How many times that width the output has; a text: the option that says so."""

    resizes: ClassVar[bool] = False
    """Whether an output with tokens has other lengths than the first input."""

    vocabulary: ClassVar[type[Vocabulary] | None] = None
    """How a raw input becomes numbers; None: one id for each word or character, by its rank."""

    files: ClassVar[tuple[str, ...]] = ()
    """Options that name project files which training reads."""

    causal: ClassVar[bool] = False
    """Whether the output at a token never depends on later tokens."""

    @classmethod
    def is_causal(cls, options: Mapping[str, object]) -> bool:
        return cls.causal

    @classmethod
    def list_aligned(cls, count: int, options: Mapping[str, object]) -> list[tuple[int, ...]]:
        """Return groups of the `count` inputs, numbered from 0, that must share their tokens."""
        return [tuple(range(count))] if cls.elementwise else []

    @classmethod
    def start(
        cls,
        vocabulary: Vocabulary,
        *dims: int,
        **options: Any,  # Any: checked options
    ) -> "Block":
        """Build the block of a raw input, given the widths of its further inputs, if any.

        Raises:
            ConfigError: the options do not fit the source of the vocabulary.
        """
        return cls(len(vocabulary), *dims, **options)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return the output's shape for inputs of allowed ranks.

        Raises:
            ConfigError: the widths do not fit together.
        """
        for shape in inputs[1:] if cls.equal_widths else ():
            require_equal(BLOCKS.name_of(cls), inputs[0].dim, shape.dim)
        rank, dim = inputs[0]
        if cls.output_width is not None:
            dim = read_option(cls, options, cls.output_width, int)
        factor = cls.width_factor
        if isinstance(factor, str):
            factor = read_option(cls, options, factor, int)
        return Shape(rank if cls.output_rank is None else cls.output_rank, factor * dim)

    def find_word_table(self) -> nn.Module | None:
        """Return the module that looks up a vector for each of its first argument's ids, if any.

        Nothing is added to its output, and its `padding_idx` is the id of padding.
        """
        return None

    def output_mask(self, *masks: Tensor | None) -> Tensor | None:
        """Return the mask of an output with tokens, from the masks of the inputs."""
        return masks[0]

    forward: Callable[..., Tensor]
    """Return the layer's output for inputs and masks, in turn."""


BLOCKS: Registry[type[Block]] = Registry("block")


def require_equal(what: str, first: int, second: int) -> None:
    if first != second:
        raise ConfigError(f"{what}: found widths {first} and {second}, expected equal widths.")
