"""From the section `adversarial` of a recipe or an encoder to what a step trains on."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from nlp_core.config.adversarial import (
    AdversarialConfig,
    FgmConfig,
    FreeLBConfig,
    SmartConfig,
    VatConfig,
)
from nlp_core.config.augmentation import AugmentationConfig, CutoffConfig, EdaConfig, MixupConfig
from nlp_core.errors import ConfigError
from nlp_core.models.graph import GraphModel, find_word_tables
from nlp_core.objectives.adversarial import Fgm, FreeLB
from nlp_core.objectives.augmentation import Cutoff, Mixup, check_mixup
from nlp_core.objectives.objective import Noise, Objective
from nlp_core.objectives.smoothness import Average, Smart, Vat

Objectives: TypeAlias = dict[str, Objective]
"""What a step of each task trains on."""


def build_objectives(
    config: AdversarialConfig | AugmentationConfig | None,
    models: Mapping[str, GraphModel],
    main: Collection[str],
    *,
    seed: int,
    num_steps: int,
    rank: int = 0,
) -> Objectives:
    """Build what a step of each task trains on; without a config, the loss as it is.

    Args:
        models: the model of each task.
        main: tasks that the config changes; the others train on the loss as it is.
        num_steps: updates of the weights in the whole run.
        rank: number of this process in the run.

    Raises:
        ConfigError: a method cannot train the model of a main task.
    """
    for name in main:
        _check_model(config, models[name])
    copies: dict[int, object] = {}
    return {
        name: _build_objective(
            config if name in main else None, model, seed, num_steps, rank, copies
        )
        for name, model in models.items()
    }


def _build_objective(
    config: AdversarialConfig | AugmentationConfig | None,
    model: GraphModel,
    seed: int,
    num_steps: int,
    rank: int,
    copies: dict[int, object],
) -> Objective:
    if config is None or isinstance(config, EdaConfig):
        return Objective(model)
    noise = Noise(seed, rank)
    match config:
        case SmartConfig(proximal=proximal):
            average = Average(model, proximal, num_steps, copies) if proximal else None
            return Smart(model, noise, config, average)
        case VatConfig():
            return Vat(model, noise, config)
        case FreeLBConfig():
            return FreeLB(model, noise, config)
        case FgmConfig():
            return Fgm(model, noise, config)
        case CutoffConfig():
            return Cutoff(model, noise, config)
        case MixupConfig():
            return Mixup(model, noise, config)


def _check_model(config: AdversarialConfig | AugmentationConfig | None, model: GraphModel) -> None:
    """Check that an adversarial method or an augmentation can train a model.

    Raises:
        ConfigError: the model has no word vectors to perturb, or a table of them without a
            `padding_idx`, a head whose outputs cannot be compared, or one that reads no vector.
    """
    if config is None or isinstance(config, EdaConfig):
        return
    if isinstance(config, MixupConfig):
        check_mixup(model)
        return
    where = f"{model.plan.where}: "
    tables = find_word_tables(model)
    if not tables:
        blocks = ", ".join(sorted({type(block).__name__ for block in model.blocks.values()}))
        raise ConfigError(
            f"{where}layers: found no word vectors (blocks {blocks}), and the recipe's method "
            f"{config.name} perturbs them; add a word_embedding, or use another recipe."
        )
    for table in tables:
        if getattr(table, "padding_idx", None) is None:
            raise ConfigError(
                f"{where}layers: found a table of word vectors, {type(table).__name__}, without a "
                f"padding_idx, expected one, since the adversarial method {config.name} perturbs "
                "only real words."
            )
    if not isinstance(config, SmartConfig | VatConfig):
        return
    for name, plan in model.plan.heads.items():
        if not plan.head.comparable:
            raise ConfigError(
                f"{where}head '{name}': found {plan.head.__name__}, which has no outputs to "
                f"compare between two passes, as the recipe's adversarial method {config.name} "
                "needs; use freelb or fgm, or a recipe without adversarial."
            )
