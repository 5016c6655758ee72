"""The interface of heads: scores, a loss of the scores, and predictions made of them.

Shape letters: B batch, T tokens, D width of the input, L labels, N rows of a comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import VECTOR
from nlp_core.blocks.feedforward import Linear
from nlp_core.blocks.masking import Vector
from nlp_core.blocks.option import Activation, PositiveInt, Probability
from nlp_core.registry import Registry

PADDING_LABEL = -1
"""The label id at padding, in targets (where only the mask counts) and in predictions."""

Loss: TypeAlias = Float[Tensor, ""]
Labels: TypeAlias = Int[Tensor, " B"]
Scores: TypeAlias = Float[Tensor, "B L"]
"""Scores of the labels of whole examples."""
Values: TypeAlias = Float[Tensor, " B"]
Tags: TypeAlias = Int[Tensor, "B T"]
TagScores: TypeAlias = Float[Tensor, "B T L"]


class Decoded(NamedTuple):
    """The predictions for a batch."""

    prediction: Tensor
    """Label ids [B], or [B, T] with -1 at padding; values [B] of a regression; for several labels
    True at those that are predicted [B, L]; log probabilities [B] of a language model; first and
    last token of an answer [B, 2], both -1 without an answer; the actions of a tree, or the ids of
    the words of a text [B, S], -1 after the end."""
    probability: Tensor | None
    """Of each label [B, L]; of a span those of the answer and of no answer; of masked pieces the
    share that is right [B, 1]; of a tree or a text [B, 1]; None for values, next words, tags."""


@runtime_checkable
class HeadBatch(Protocol):
    """The part of a batch that a head may read besides the outputs of layers."""

    @property
    def targets(self) -> Mapping[str, Tensor]: ...

    @property
    def parts(self) -> Tensor | None: ...

    @property
    def copies(self) -> Tensor | None: ...


class Head(nn.Module):
    """The end of a model graph, for one task.

    The positional arguments of `__init__` are the width of each input and the number of labels
    (ignored by a regression); the keyword-only arguments are the options of a model file. Padding
    never changes a result.
    """

    kinds: ClassVar[frozenset[str]] = frozenset()
    """The kinds of task that it serves."""

    target: ClassVar[
        Literal["label", "labels", "tags", "next_word", "answers", "masked", "tree", "output"]
    ] = "label"
    """The column of the task that it predicts."""

    reads_target: ClassVar[bool] = False
    """Whether `forward` takes the right answers as its last argument where it may see them."""

    decodes_target: ClassVar[bool] = False
    """Whether `decode` takes the right answer as its last argument."""

    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((VECTOR,),)
    """The ranks that each input may have, as those of a block. All inputs share their tokens."""

    reads_texts: ClassVar[bool] = False
    """Whether its layer must be over whole texts, in the pieces of a pretrained encoder."""

    reads_parts: ClassVar[bool] = False
    """Whether it reads which text of a pair each piece belongs to, `HeadBatch.parts`."""

    writes_pieces: ClassVar[bool] = False
    """Whether it writes with the decoder of its layer, a `PieceDecoder`, its last input."""

    causal: ClassVar[bool] = False
    """Whether no layer below it may look at later tokens."""

    grouped: ClassVar[bool] = False
    """Whether its loss compares the examples of a group, which must share a training batch."""

    whole: ClassVar[bool] = False
    """Whether its loss compares all examples of a batch, which cannot be computed in parts."""

    separate: ClassVar[bool] = False
    """Whether its two inputs are towers: the first over the first text only, the second over the
    second text only."""

    structured: ClassVar[bool] = False
    """Whether the labels of a text are chosen together, so that `soften` gives marginals."""

    comparable: ClassVar[bool] = False
    """Whether it has `outputs`, by which two passes over a batch can be compared."""

    forward: Callable[..., Tensor]
    """Return scores of `*inputs, mask, *read(...)`: [B, L], [B] for values, [B, T, L] for tags."""

    loss: Callable[..., Tensor]
    """Return the scalar loss of `scores, target, where`."""

    decode: Callable[..., Decoded]
    """Return the predictions of `scores, mask`; see `decodes_target`."""

    outputs: Callable[..., Tensor]
    """Return `scores, where` without padding: logits of distributions [N, L], or values [N]."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.comparable = hasattr(cls, "outputs")

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        """Return what `forward` takes after the mask.

        If `informed`, the right answers may be an input (teacher forcing).
        """
        return (batch.targets[self.target],) if informed and self.reads_target else ()

    def select_where(self, mask: Tensor | None, group: Tensor | None) -> Tensor | None:
        """Return `where` of the other methods: the mask, or the groups of a grouped head."""
        return group if self.grouped else mask

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of terms that the loss is the mean of.

        The loss of a batch is the sum of the losses of its parts, each times its share of terms.
        """
        return torch.tensor(float(len(target)))

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of rows of `outputs`, times a constant."""
        return torch.tensor(float(len(target)))

    def remember(self, target: Tensor) -> None:
        """Keep what predictions need of the right answers of a step, even of other processes."""

    def soften(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Return the scores of each label by itself, as a teacher gives them to students."""
        return scores


HEADS: Registry[type[Head]] = Registry("head")


def hide_classes(logits: Tensor, mask: Tensor) -> Tensor:
    """Return logits whose classes outside a mask have probability 0.

    The hidden logit is finite, so that log probabilities of hidden classes can be subtracted.
    """
    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min / 4)


class HiddenLayers(nn.Module):
    """Hidden layers, then a linear map, with dropout before each."""

    def __init__(self, hidden: Sequence[Linear], out: nn.Linear, *, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(hidden)
        self.out = out
        self.dropout = dropout

    def forward(self, x_BD: Tensor) -> Tensor:
        for layer in self.hidden:
            x_BD = layer(functional.dropout(x_BD, self.dropout, self.training), None)
        out: Tensor = self.out(functional.dropout(x_BD, self.dropout, self.training))
        return out


class VectorHead(Head):
    """A head on one vector of each example, with hidden layers.

    Args:
        hidden_dims: widths of the hidden layers, first to last; empty for a linear map.
        activation: the function after each hidden layer.
        batch_norm: normalise before each activation.
        dropout: probability of a zero in the input of each layer.
    """

    bias: ClassVar[bool] = True
    """Whether the last layer has a bias."""

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        hidden_dims: Sequence[PositiveInt] = (),
        activation: Activation = "prelu",
        batch_norm: bool = False,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_dim, *hidden_dims]
        hidden = [
            Linear(width, hidden_dim=hidden_dim, activation=activation, batch_norm=batch_norm)
            for width, hidden_dim in zip(widths, hidden_dims, strict=False)
        ]
        out = nn.Linear(widths[-1], out_dim, bias=self.bias)
        self.layers = HiddenLayers(hidden, out, dropout=dropout)

    def forward(self, x_BD: Vector, mask: None = None) -> Scores:
        scores_BL: Tensor = self.layers(x_BD)
        return scores_BL
