"""The teacher whose layers a student's layers learn from, read from its trained cell."""

import json
from dataclasses import replace

from nlp_core.blocks.random_state import get_random_state, set_random_state
from nlp_core.config.column import WHOLE_TEXTS
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.task import Task
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError, suggest
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import LayerPlan, ModelPlan
from nlp_core.objectives.distillation import SoftTargets
from nlp_core.objectives.matching import Matching, check_matching
from nlp_core.prediction.trained_folder import read_trained_folder
from nlp_core.training.soft_targets import find_teacher, require_weights


def add_matching(
    soft_targets: SoftTargets, task: Task, model: GraphModel, featurizer: Featurizer
) -> SoftTargets:
    """Add the encoder of the teacher to soft targets, if the recipe lets layers learn from it.

    The student's encoder and the teacher's then record what is compared.

    Args:
        model: the student; only how its encoder returns attention changes.
        featurizer: what reads the student's texts.

    Raises:
        ConfigError: a layer is not an encoder, or the two cannot be compared.
        DataError: there are several teachers, or the one is not trained or was retrained.
    """
    config = soft_targets.objective.matching
    if config is None:
        return soft_targets
    cell, seed = find_teacher(task.folder)
    require_weights(cell, seed)
    trained = read_trained_folder(cell, seed)
    plan = trained.plan
    theirs = _find_layer(plan, config.teacher_layer or config.layer, "teacher_layer")
    own = _find_layer(model.plan, config.layer, "layer")
    # a model is built with random weights before it loads its own; the student's run must draw the
    # same numbers as without a teacher
    random_state = get_random_state()
    taught, featurizers = trained.load()
    set_random_state(random_state)
    vocabulary = next(iter(featurizers.values())).vocabularies[theirs.owner]
    assert isinstance(vocabulary, PieceVocabulary), theirs.name
    where = f"{plan.where}: layer '{theirs.name}'"
    _check_pieces((model.plan, own), (plan, theirs), featurizer, vocabulary)
    block = taught.blocks[theirs.owner]
    assert isinstance(block, PretrainedEncoder), theirs.name
    matching = Matching(config, block.eval().requires_grad_(False))
    check_matching(model.plan, model.blocks, matching, where)
    return replace(soft_targets, matching=matching)


def _find_layer(plan: ModelPlan, name: str, key: str) -> LayerPlan:
    layers = {layer.name: layer for layer in plan.layers}
    place = f"{plan.where}: layers"
    if name not in layers:
        raise ConfigError(
            f"{place}: found no '{name}', which the recipe's distillation.matching.{key} names. "
            f"{suggest(name, layers)}"
        )
    if not issubclass(layers[name].block, PretrainedEncoder):
        raise ConfigError(
            f"{place}: '{name}': found {layers[name].block.__name__}, expected a "
            f"pretrained_encoder, since the recipe's distillation.matching.{key} names it; name "
            "another layer, or take a recipe without matching."
        )
    return layers[name]


def _check_pieces(
    own: tuple[ModelPlan, LayerPlan],
    theirs: tuple[ModelPlan, LayerPlan],
    featurizer: Featurizer,
    expected: PieceVocabulary,
) -> None:
    """Raise ConfigError if two encoders do not read the same pieces in the same windows."""
    found = featurizer.vocabularies[own[1].owner]
    assert isinstance(found, PieceVocabulary), own[1].name
    columns = [plan.inputs[layer.inputs[0]] for plan, layer in (own, theirs)]
    pairs: dict[str, tuple[object, object]] = {
        "the input": (columns[0], columns[1]),
        "max_length": (found.max_length, expected.max_length),
        "the vocabulary's size": (len(found), len(expected)),
    }
    if columns[0] not in WHOLE_TEXTS:  # a whole text is one window
        pairs["stride"] = (found.stride, expected.stride)
    place = f"{own[0].where}: layer '{own[1].name}'"
    where = f"{theirs[0].where}: layer '{theirs[1].name}'"
    for what, (first, second) in pairs.items():
        if first != second:
            raise ConfigError(
                f"{place}: found {what} {first}, expected {second}, as in {where}, whose layers "
                "the recipe's distillation.matching names, piece by piece; give both the same."
            )
    if json.loads(found.tokenizer) != json.loads(expected.tokenizer):
        raise ConfigError(
            f"{place}: found another tokenizer than that of {where}, whose layers the recipe's "
            "distillation.matching names, piece by piece; take an init with the same tokenizer."
        )
