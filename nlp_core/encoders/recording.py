"""Record what the layers of an encoder of transformers compute.

The library returns hidden states, but attention only after dropout, when weights no longer sum to
1, and only from its implementation `eager`, whose last bits differ. So this module registers an
attention function that computes the same as `sdpa` and records what the weights are made of.
RoFormer computes attention by itself; its weights are recorded on their way into the dropout.

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
    """The inputs of the attention of a layer."""

    query: Tensor
    """[W, H, L, D]."""
    key: Tensor
    """[W, H, K, D]."""
    visible: Tensor | None
    """Bool, broadcast to [W, H, L, K]: the keys that a query sees; None: all."""
    scaling: float
    """Factor of the products."""

    def log_weights(self, inside_WL: Bool[Tensor, "W L"]) -> Float[Tensor, "W H L K"]:
        """Return the log attention weights before dropout; only real pieces are keys."""
        score_WHLK = (self.query @ self.key.mT * self.scaling).float()
        visible = inside_WL[:, None, None, :]
        if self.visible is not None:
            visible = visible & self.visible
        # finite, so that the difference of two hidden ones is not NaN
        return score_WHLK.masked_fill(~visible, torch.finfo(torch.float32).min / 4).log_softmax(-1)


class AttentionWeights(NamedTuple):
    """The attention of a layer that computes it by itself."""

    weights: Tensor
    """Softmax over the keys before dropout, [W, H, L, K]."""

    def log_weights(self, inside_WL: Bool[Tensor, "W L"]) -> Float[Tensor, "W H L K"]:
        """Return the log attention weights, as `Attended.log_weights`."""
        limits = torch.finfo(torch.float32)
        log_WHLK = self.weights.float().clamp(min=limits.tiny).log()
        return log_WHLK.masked_fill(~inside_WL[:, None, None, :], limits.min / 4)


class Recorded(NamedTuple):
    """The recording of a pass."""

    hidden: tuple[Tensor, ...]
    """The states [W, L, D] after the embeddings and after each layer."""
    attended: tuple[Attended | AttentionWeights, ...]
    """Of each layer; empty if attention is not recorded."""


_attended: ContextVar[list[Attended | AttentionWeights] | None] = ContextVar(
    "attended", default=None
)


@contextmanager
def record_attention(*, enabled: bool) -> Iterator[list[Attended | AttentionWeights]]:
    """Yield a list to which each layer of a pass adds, if enabled."""
    found: list[Attended | AttentionWeights] = []
    # a layer that is recomputed in the backward pass finds no list and adds nothing
    token = _attended.set(found if enabled else None)
    try:
        yield found
    finally:
        _attended.reset(token)


def use_recorded_attention(encoder: Any) -> bool:  # Any: any encoder's class
    """Switch an encoder to the recorded attention; return False if its own cannot be read."""
    # a large library that only models with a pretrained encoder need
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if encoder.config.model_type == "roformer":
        _watch_dropout(encoder)
        return True
    if encoder.config._attn_implementation not in ("sdpa", IMPLEMENTATION):
        return False
    if not encoder._can_set_attn_implementation():
        return False
    AttentionInterface.register(IMPLEMENTATION, _attend)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
    encoder.set_attn_implementation(IMPLEMENTATION)
    return True


def _watch_dropout(encoder: Any) -> None:  # Any: any encoder's class
    """Let each layer that computes attention by itself record what its dropout reads."""
    from transformers.models.roformer.modeling_roformer import RoFormerSelfAttention

    for module in encoder.modules():
        if isinstance(module, RoFormerSelfAttention) and not module.dropout._forward_pre_hooks:
            module.dropout.register_forward_pre_hook(_record_weights)


def _record_weights(module: Any, read: tuple[Tensor, ...]) -> None:  # Any: a dropout
    found = _attended.get()
    if found is not None:
        found.append(AttentionWeights(*read))


def _attend(
    module: Any,  # Any: any encoder's class
    query_WHLD: Tensor,
    key_WHKD: Tensor,
    value_WHKD: Tensor,
    visible: Tensor | None,
    *,
    scaling: float | None = None,
    **more: Any,  # Any: options of the library
) -> tuple[Tensor, None]:
    """Return what sdpa returns, and record the attention if enabled."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    found = _attended.get()
    if found is not None:
        factor = query_WHLD.shape[-1] ** -0.5 if scaling is None else scaling
        found.append(Attended(query_WHLD, key_WHKD, visible, factor))
    output: tuple[Tensor, None] = sdpa_attention_forward(
        module, query_WHLD, key_WHKD, value_WHKD, visible, scaling=scaling, **more
    )
    return output
