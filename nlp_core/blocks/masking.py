"""Types of tensors and masks, and operations that ignore padding.

Shape letters: B batch, T tokens, S tokens of a second sequence, D width. `...` are any axes.
"""

from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

Mask: TypeAlias = Bool[Tensor, "B T"]
"""True at the real tokens of each example."""
OtherMask: TypeAlias = Bool[Tensor, "B S"]
"""The mask of a second sequence."""
GridMask: TypeAlias = Bool[Tensor, "B T S"]
AnyMask: TypeAlias = Bool[Tensor, "*N"] | None
"""The mask of a sequence or a grid; None for one vector of each example."""
Tokens: TypeAlias = Float[Tensor, "B T D"]
"""A vector for each token."""
OtherTokens: TypeAlias = Float[Tensor, "B S D"]
Vector: TypeAlias = Float[Tensor, "B D"]
"""A vector for each example."""
Grid: TypeAlias = Float[Tensor, "B T S D"]


def zero_padding(x: Float[Tensor, "*N D"], mask: AnyMask) -> Float[Tensor, "*N D"]:
    """Return `x` with zeros at padded positions; without a mask, `x` itself."""
    return x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0)


def count_tokens(mask_BT: Mask) -> Int[Tensor, " B"]:
    return mask_BT.sum(1)


def cross_masks(mask_BT: Mask, mask_BS: OtherMask) -> GridMask:
    """Return the mask of a grid: a cell is real if both of its tokens are."""
    return mask_BT.unsqueeze(2) & mask_BS.unsqueeze(1)


def pool_max(x_BTD: Tokens, mask_BT: Mask) -> Vector:
    """Return the maximum over real tokens; zeros without tokens."""
    best_BD = x_BTD.masked_fill(~mask_BT.unsqueeze(-1), -torch.inf).amax(1)
    return best_BD.masked_fill(~mask_BT.any(1, keepdim=True), 0.0)


def pool_mean(x_BTD: Tokens, mask_BT: Mask) -> Vector:
    """Return the mean over real tokens; zeros without tokens."""
    total_BD = zero_padding(x_BTD, mask_BT).sum(1)
    return total_BD / count_tokens(mask_BT).clamp(min=1).unsqueeze(-1)


def masked_softmax(
    scores: Float[Tensor, "*N S"], mask: Bool[Tensor, "*#N S"]
) -> Float[Tensor, "*N S"]:
    """Return the softmax of the last axis over real positions; zeros without any."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


class MaskedBatchNorm(nn.BatchNorm1d):
    """Batch normalisation whose statistics come from real positions only.

    A training batch of one position, which has no variance, is normalised by the running
    statistics, as in evaluation.

    Source: Ioffe and Szegedy 2015 (batch normalisation), algorithm 1.
    """

    def forward(  # type: ignore[override]  # the parent takes no mask
        self, x: Float[Tensor, "*N D"], mask: AnyMask
    ) -> Float[Tensor, "*N D"]:
        flat_ND = x.reshape(-1, x.shape[-1])
        if not self.training:
            return zero_padding(self._normalise(flat_ND, training=False).view_as(x), mask)
        if mask is None:
            return self._normalise(flat_ND, training=len(flat_ND) > 1).view_as(x)
        rows = mask.reshape(-1).nonzero().squeeze(1)
        real_ND = self._normalise(flat_ND.index_select(0, rows), training=len(rows) > 1)
        return real_ND.new_zeros(flat_ND.shape).index_copy(0, rows, real_ND).view_as(x)

    def _normalise(self, x_ND: Tensor, *, training: bool) -> Tensor:
        momentum = self._count_batch() if training else 0.0  # a graph cannot read the counter
        statistics = self.running_mean, self.running_var, self.weight, self.bias
        return functional.batch_norm(x_ND, *statistics, training, momentum, self.eps)

    def _count_batch(self) -> float:
        """Return the share of this batch in the running statistics.

        Without a momentum it is the mean over all batches since the statistics were reset.
        """
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        return 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
