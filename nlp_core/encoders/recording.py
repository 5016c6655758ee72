"""What the layers of an encoder of transformers compute, kept with its output.

Hidden states come from the library itself. Its attention does not do: the library gives it out
after dropout, where weights are 0 and no longer add up to 1, and only from an implementation of its
own (`eager`) whose last bits differ. So an attention function is registered that computes what
`sdpa` computes, and hands on what the weights are made of.

Shape letters: W windows, H heads, L pieces as queries, K pieces as keys, D width of a head.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

IMPLEMENTATION = "recorded_sdpa"


class Attended(NamedTuple):
    """What the attention of a layer is made of.

    Attributes:
        query: [W, H, L, D].
        key: [W, H, K, D].
        visible: bool, broadcast to [W, H, L, K]: the keys that a query sees; None: all of them.
        scaling: factor on the products.
    """

    query: Tensor
    key: Tensor
    visible: Tensor | None
    scaling: float

    def log_weights(self, inside_WL: Bool[Tensor, "W L"]) -> Float[Tensor, "W H L K"]:
        """Return the logarithms of the attention, before dropout.

        Args:
            inside_WL: True at real pieces; others are no keys.
        """
        score_WHLK = (self.query @ self.key.mT * self.scaling).float()
        visible = inside_WL[:, None, None, :]
        if self.visible is not None:
            visible = visible & self.visible
        # finite, so that a difference of two hidden ones is a number
        return score_WHLK.masked_fill(~visible, torch.finfo(torch.float32).min / 4).log_softmax(-1)


class Recorded(NamedTuple):
    """What the layers computed in a pass.

    Attributes:
        hidden: the states [W, L, D] behind the embeddings and behind each layer.
        attended: of each layer; none where it was not asked for.
    """

    hidden: tuple[Tensor, ...]
    attended: tuple[Attended, ...]


_attended: ContextVar[list[Attended] | None] = ContextVar("attended", default=None)


@contextmanager
def record_attention(*, enabled: bool) -> Iterator[list[Attended]]:
    """Give a list that each layer of a pass inside adds to, where it is enabled."""
    found: list[Attended] = []
    # a layer that is computed again in the backward pass finds no list, and adds nothing
    token = _attended.set(found if enabled else None)
    try:
        yield found
    finally:
        _attended.reset(token)


def use_recorded_attention(encoder: Any) -> bool:  # Any: any encoder's class
    """Let an encoder compute its attention by the function that can be recorded.

    Returns:
        Whether it can; one that computes attention in a way of its own cannot.
    """
    # A large library that only models with a pretrained encoder need.
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if encoder.config._attn_implementation not in ("sdpa", IMPLEMENTATION):
        return False
    if not encoder._can_set_attn_implementation():
        return False
    AttentionInterface.register(IMPLEMENTATION, _attend)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
    encoder.set_attn_implementation(IMPLEMENTATION)
    return True


def _attend(
    module: Any,  # Any: any encoder's class
    query_WHLD: Tensor,
    key_WHKD: Tensor,
    value_WHKD: Tensor,
    visible: Tensor | None,
    *,
    scaling: float | None = None,
    **more: Any,  # Any: what the library hands on
) -> tuple[Tensor, None]:
    """Return what sdpa returns, and note the attention where it is asked for."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    found = _attended.get()
    if found is not None:
        factor = query_WHLD.shape[-1] ** -0.5 if scaling is None else scaling
        found.append(Attended(query_WHLD, key_WHKD, visible, factor))
    output: tuple[Tensor, None] = sdpa_attention_forward(
        module, query_WHLD, key_WHKD, value_WHKD, visible, scaling=scaling, **more
    )
    return output
