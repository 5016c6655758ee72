"""Magnitude pruning while a model trains."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nlp_core.blocks.embedding import CategoryEmbedding, GazetteerEmbedding, WordEmbedding
from nlp_core.config.pruning import PruningConfig

TABLES = (nn.Embedding, WordEmbedding, CategoryEmbedding, GazetteerEmbedding)


@torch.no_grad()
def prune_weights(model: nn.Module, config: PruningConfig | None, done: float) -> None:
    """Set the smallest weights of each trained matrix to zero.

    Args:
        config: None: all stay.
        done: share of the steps that are done.
    """
    share = 0.0 if config is None else config.at(done)
    for weight in list_matrices(model) if share else ():
        count = int(share * weight.numel())
        if count:
            size = weight.abs()
            weight.masked_fill_(size <= size.flatten().kthvalue(count).values, 0.0)


def list_matrices(model: nn.Module) -> Iterator[Tensor]:
    """Yield the trained weights of two axes or more, except tables of vectors, each once."""
    seen: set[int] = set()
    for module in model.modules():
        if isinstance(module, TABLES):
            continue
        for item in module.parameters(recurse=False):
            if item.requires_grad and item.ndim > 1 and id(item) not in seen:
                seen.add(id(item))
                yield item
