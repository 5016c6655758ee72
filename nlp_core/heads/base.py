"""What every head is: scores of labels, a loss to train on and a decoding of the scores.

Shape letters: B batch, T tokens, D width of the input, L labels, N rows of a comparison.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import VECTOR
from nlp_core.blocks.feedforward import Linear
from nlp_core.blocks.option import Activation
from nlp_core.registry import Registry

PADDING_LABEL = -1
"""The label id of a padded position, in targets (where the mask decides) and in decodings."""


class Decoded(NamedTuple):
    """What a head predicts of a batch.

    Attributes:
        prediction: label ids [B], or [B, T] with -1 at padding; values [B] of a regression; True
            at the chosen ones of several labels, [B, L]; log probabilities [B] of a language model;
            first and last token of an answer, [B, 2], both -1 for none.
        probability: of each label, [B, L] (of an answer: its own, and that there is none); of
            masked pieces the share predicted, [B, 1]; None for values, next words and tags.
    """

    prediction: Tensor
    probability: Tensor | None


class Head(nn.Module):
    """The end of a model graph, for one task.

    The positional arguments of `__init__` are the width of each input and the number of labels (of
    no meaning in a regression); its keyword-only arguments, with their types and defaults, are the
    options that a model file may set.

    A head ignores padding, as blocks do.
    """

    kinds: ClassVar[frozenset[str]] = frozenset()
    """The kinds of task that the head serves."""

    target: ClassVar[Literal["label", "labels", "tags", "next_word", "answers", "masked"]] = "label"
    """The column of the task that the head predicts."""

    reads_target: ClassVar[bool] = False
    """True when `forward` takes the right answer as a last argument, to learn from it; without,
    it reads its own predictions."""

    scores_target: ClassVar[bool] = False
    """True when `forward` always takes the right answer, to score it."""

    decodes_target: ClassVar[bool] = False
    """True when `decode` takes the right answer as a last argument."""

    reads_parts: ClassVar[bool] = False
    """True when `forward` takes, behind the mask, which text each place is of: 1 the first, 2 the
    second, 0 none."""

    reads_texts: ClassVar[bool] = False
    """True when its layer must be over whole texts, in the pieces of a pretrained encoder."""

    causal: ClassVar[bool] = False
    """True when no layer below may look at tokens behind the one that it stands at."""

    ranks: ClassVar[tuple[tuple[int, ...], ...]] = ((VECTOR,),)
    """The ranks that each of its inputs may have, written as those of a block; several inputs are
    over the same tokens."""

    grouped: ClassVar[bool] = False
    """True when the loss compares the examples of a group, which then share a training batch."""

    comparable: ClassVar[bool] = False
    """True when it has `outputs`: when those of two passes over one batch can be compared."""

    forward: Callable[..., Tensor]
    """Return scores for `*inputs, mask`: [B, L], [B] for a single value, [B, T, L] for tags."""

    loss: Callable[..., Tensor]
    """Return the scalar loss of `scores, target, mask`; of `scores, target, group` when grouped."""

    decode: Callable[..., Decoded]
    """Return the prediction that `scores, mask` make; see `decodes_target`."""

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return how many terms the loss is the mean of, so that parts of a batch can be joined.

        The loss of a whole batch is the sum of its parts' losses, each times its share of all
        terms.

        Args:
            target: as for `loss`.
            where: mask or group, as for `loss`.
        """
        return torch.tensor(float(len(target)))

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return how many rows `outputs` has, or a multiple of that, which is the same for all.

        Args:
            target: as for `loss`.
            where: mask or group, as for `loss`.
        """
        return torch.tensor(float(len(target)))

    def soften(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Return scores in the form in which a teacher hands them on: each label by itself.

        The `outputs` of a teacher's softened scores and of a student's are what is compared.
        """
        return scores

    outputs: Callable[..., Tensor]
    """Return what two passes are compared by, from `scores, mask` (`scores, group` when grouped):
    logits of categorical distributions [N, L], or values [N], without padding."""


HEADS: Registry[type[Head]] = Registry("head")


def hide_classes(logits: Tensor, mask: Tensor) -> Tensor:
    """Return logits whose classes outside a mask have the probability 0.

    The hidden logit is finite, so that logarithms of such probabilities still have a difference.
    """
    return logits.masked_fill(~mask, torch.finfo(logits.dtype).min / 4)


class HiddenLayers(nn.Module):
    """A feed-forward network: hidden layers with an activation, then a plain linear map.

    Args:
        in_dim: width D of the input.
        out_dim: width of the output.
        hidden_dims: widths of the hidden layers, first to last; empty for the linear map alone.
        activation: the function after each hidden layer.
        batch_norm: normalise before each activation.
        dropout: probability of a zero in the input of each layer, in [0, 1).
        bias: whether the last layer adds one.

    Shape: [B, D] to [B, out_dim].
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        hidden_dims: Sequence[int],
        activation: Activation,
        batch_norm: bool,
        dropout: float,
        bias: bool = True,
    ) -> None:
        super().__init__()
        widths = [in_dim, *hidden_dims]
        self.hidden = nn.ModuleList(
            Linear(width, hidden_dim=hidden_dim, activation=activation, batch_norm=batch_norm)
            for width, hidden_dim in zip(widths, hidden_dims, strict=False)
        )
        self.out = nn.Linear(widths[-1], out_dim, bias=bias)
        self.dropout = dropout

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return the output of the last layer."""
        for layer in self.hidden:
            x_BD = layer(functional.dropout(x_BD, self.dropout, self.training), None)
        out: Tensor = self.out(functional.dropout(x_BD, self.dropout, self.training))
        return out
