"""Weights that a recipe does not train, by patterns of their names."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from nlp_core.errors import ConfigError, suggest
from nlp_core.models.graph import GraphModel

BLOCKS = "blocks."


def freeze_weights(model: GraphModel, patterns: Sequence[str]) -> None:
    """Leave the weights that patterns name out of training.

    A pattern names weights as model.safetensors does, without `blocks.`: `encoder` is a whole
    layer, `encoder.*.layer.[0-5].*` a part of it.

    Raises:
        ConfigError: a pattern names no weight, or nothing is left to train.
    """
    names = {name.removeprefix(BLOCKS): item for name, item in _list_weights(model)}
    for pattern in patterns:
        found = [item for name, item in names.items() if _is_named(name, pattern)]
        if not found:
            known = [*model.blocks, *(f"heads.{name}" for name in model.heads)]
            raise ConfigError(
                f"{model.plan.where}: the recipe's frozen: found '{pattern}', which names no "
                f"weight of the model. {suggest(pattern, known)}"
            )
        for item in found:
            item.requires_grad_(False)
    if not any(item.requires_grad for item in model.parameters()):
        raise ConfigError(
            f"{model.plan.where}: the recipe's frozen: found {', '.join(patterns)}, which leaves "
            "no weight to train; leave some out."
        )


def hold_frozen_statistics(model: nn.Module) -> None:
    """Let batch normalisations with frozen weights keep their statistics in a training step."""
    for module in model.modules():
        own = [item.requires_grad for item in module.parameters(recurse=False)]
        if isinstance(module, _BatchNorm) and own and not any(own):
            module.eval()


def _list_weights(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return model.named_parameters(remove_duplicate=False)


def _is_named(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
