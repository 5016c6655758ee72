"""Optimisers of a recipe, by name, and the weights that they do not move; LAMB is ours."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

from nlp_core.blocks.dialogue import HistoryEncoder
from nlp_core.blocks.embedding import CategoryEmbedding, GazetteerEmbedding, WordEmbedding
from nlp_core.config.optimizer import MOMENTA, OPTIONS, OptimizerConfig, OptimizerName
from nlp_core.config.pruning import PruningConfig
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError, suggest
from nlp_core.models.graph import GraphModel

Groups = list[dict[str, Any]]  # Any: weights and their options, as torch has it
BLOCKS = "blocks."
TABLES = (nn.Embedding, WordEmbedding, CategoryEmbedding, GazetteerEmbedding, HistoryEncoder)
"""Modules whose own weights are vectors of words or symbols, which pruning leaves as they are."""
FIRST_DECAY, SECOND_DECAY, LION_DECAY = 0.9, 0.999, 0.99

# torch wraps the methods of an optimiser for its compiler, which the first call of one imports: 2 s
# of a start-up, and nothing here is compiled. The mark says that these are wrapped already.
for _method in (
    Optimizer.add_param_group,
    Optimizer.load_state_dict,
    Optimizer.state_dict,
    Optimizer.zero_grad,
):
    _plain = getattr(_method, "__wrapped__", _method)
    setattr(_plain, "__dynamo_disable", _plain)


def build_optimizer(config: OptimizerConfig, model: nn.Module) -> Optimizer:
    """Build the optimiser over the trained weights, in groups that are trained alike.

    Each group carries `scale`, its factor on the learning rate.

    Raises:
        ConfigError: the model has no weight to train, or no word embedding or pretrained encoder
            whose learning rates the recipe sets.
    """
    _check_layers(config, model)
    build = OPTIMIZERS[config.name]
    options = _list_options(config)
    groups = _group_weights(config, model)
    if not groups:
        raise ConfigError(
            "recipe.optimizer: found a model without a weight to train, expected at least one; "
            "freeze less of it, or add a layer such as linear."
        )
    return build(groups, lr=config.lr, weight_decay=config.weight_decay, **options)


def _list_options(config: OptimizerConfig) -> dict[str, Any]:
    """Return the options that only some optimisers have, by torch's names."""
    given = {
        key: getattr(config, key)
        for key, names in OPTIONS.items()
        if config.name in names and getattr(config, key) is not None
    }
    first, second = given.pop("first_decay", None), given.pop("second_decay", None)
    if first is not None or second is not None:
        usual = LION_DECAY if config.name == "lion" else SECOND_DECAY
        given["betas"] = (
            FIRST_DECAY if first is None else first,
            usual if second is None else second,
        )
    if "decoupled" in given:
        given["decoupled_weight_decay"] = given.pop("decoupled")
    return given | ({"momentum": config.momentum} if config.name in MOMENTA else {})


def _build_sgd(groups: Groups, *, momentum: float, **options: Any) -> Optimizer:  # Any: of torch
    sgd = SGD(groups, momentum=momentum, fused=True, **options)
    if momentum:
        # the fused one starts all of them or none, and a task's head may wait for its turn
        for parameter in (item for group in sgd.param_groups for item in group["params"]):
            sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return sgd


def _build_rprop(groups: Groups, *, lr: float, weight_decay: float) -> Optimizer:
    assert weight_decay == 0.0, weight_decay
    return Rprop(groups, lr=lr)


def _build_further(name: str, groups: Groups, **options: Any) -> Optimizer:  # Any: of the library
    import pytorch_optimizer  # here, since it takes seconds and few runs need it

    built: Optimizer = getattr(pytorch_optimizer, name)(groups, foreach=False, **options)
    return built


def _build_schedule_free(groups: Groups, **options: Any) -> Optimizer:  # Any: of the library
    built = _build_further("ScheduleFreeAdamW", groups, **options)
    built.train()  # type: ignore[attr-defined]
    return built


def _check_layers(config: OptimizerConfig, model: nn.Module) -> None:
    scale = config.embedding_lr_scale
    if scale != 1.0 and not any(isinstance(item, WordEmbedding) for item in model.modules()):
        raise ConfigError(
            f"recipe.optimizer.embedding_lr_scale: found {scale} for a model without a layer "
            "word_embedding, whose learning rate it sets; remove it."
        )
    if any(isinstance(item, PretrainedEncoder) for item in model.modules()):
        return
    for key in ("encoder_lr_scale", "layer_decay"):
        value = getattr(config, key)
        if value is not None:
            raise ConfigError(
                f"recipe.optimizer.{key}: found {value} for a model without a layer "
                "pretrained_encoder, whose learning rate it sets; remove it."
            )


def _group_weights(config: OptimizerConfig, model: nn.Module) -> Groups:
    """Return the trained weights by their learning rate and decay; word embeddings come last."""
    words = {id(p) for m in model.modules() if isinstance(m, WordEmbedding) for p in m.parameters()}
    scales = dict.fromkeys(words, config.embedding_lr_scale)
    for module in model.modules():
        if isinstance(module, PretrainedEncoder):
            whole, decay = config.encoder_lr_scale or 1.0, config.layer_decay
            if decay is None:
                scales |= {id(p): whole for p in module.encoder.parameters()}
            else:
                depths = module.count_layers_above()
                scales |= {id(p): whole * decay**depth for p, depth in depths}
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            is_decayed = config.decayed is None or parameter.ndim > 1
            decay = config.weight_decay if is_decayed else 0.0
            key = id(parameter) in words, scales.get(id(parameter), 1.0), decay
            groups.setdefault(key, []).append(parameter)
    # stable: the groups of weights of one rank stay in the order of the model
    return [
        {"params": groups[key], "scale": key[1], "weight_decay": key[2]}
        for key in sorted(groups, key=lambda key: key[0])
    ]


def freeze_weights(model: GraphModel, patterns: Sequence[str]) -> None:
    """Leave the weights that patterns name out of training.

    A pattern names weights as model.safetensors does, without `blocks.`: `encoder` is a whole
    layer, `encoder.*.layer.[0-5].*` a part of it.

    Raises:
        ConfigError: a pattern names no weight, or nothing is left to train.
    """
    named = model.named_parameters(remove_duplicate=False)
    names = {name.removeprefix(BLOCKS): item for name, item in named}
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


def _is_named(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


@torch.no_grad()
def update_weights(optimizer: Optimizer) -> None:
    """Take one step along the gradients: `optimizer.step()` without its import of a compiler."""
    inspect.unwrap(type(optimizer).step)(optimizer)


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group["scale"]


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
            # on the CPU, because a GPU has no deterministic kthvalue
            largest = size.flatten().cpu().kthvalue(count).values.to(size.device)
            weight.masked_fill_(size <= largest, 0.0)


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


class Lamb(Optimizer):
    """Move each parameter x by lr * |x| / |u| along u = m / (sqrt(v) + eps) + decay * x.

    m and v are the means of the gradient and of its square, with the correction for their start at
    zero; `betas` are their decays. Where |x| or |u| is 0, the factor |x| / |u| is 1.

    Source: You et al. 2020 (Large Batch Optimization for Deep Learning), algorithm 2, with the
        identity for its function phi.
    """

    def __init__(
        self,
        params: Iterable[Any],  # Any: parameters or dicts of them, as torch has it
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "LAMB evaluates its gradients once"
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None, parameter.shape
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        first, second = group["betas"]
        state["step"] += 1
        count = float(state["step"])
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (square / (1 - second**count)).sqrt_().add_(group["eps"])
        update = (mean / (1 - first**count)).div_(root)
        update.add_(parameter, alpha=group["weight_decay"])
        size, length = float(parameter.norm()), float(update.norm())
        trust = size / length if size > 0 and length > 0 else 1.0
        parameter.sub_(update, alpha=group["lr"] * trust)


# fused: one pass over memory, 0.17 of the time of the plain loop on a CPU; the others have none
OPTIMIZERS: Mapping[OptimizerName, Callable[..., Optimizer]] = {
    "sgd": _build_sgd,
    "adam": partial(Adam, fused=True),
    "adamw": partial(AdamW, fused=True),
    "adamax": Adamax,
    "lamb": Lamb,
    "radam": RAdam,
    "nadam": NAdam,
    "adagrad": partial(Adagrad, fused=True),
    "adafactor": Adafactor,
    "lion": partial(_build_further, "Lion"),
    "adamw_schedule_free": _build_schedule_free,
    "rmsprop": RMSprop,
    "adadelta": Adadelta,
    "asgd": ASGD,
    "rprop": _build_rprop,
    "adabelief": partial(_build_further, "AdaBelief"),
    "madgrad": partial(_build_further, "MADGRAD"),
}
