"""The teacher whose layers a student's layers learn from, read from its trained cell."""

import json
from pathlib import Path

from nlp_core.blocks.random_state import get_random_state, set_random_state
from nlp_core.config.distillation import MatchingConfig
from nlp_core.config.reader import WHOLE_TEXTS
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.soft_labels import read_soft_labels
from nlp_core.data.task import Task
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import digest_file, digest_json
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import LayerPlan, ModelPlan
from nlp_core.models.saving import WEIGHTS
from nlp_core.objectives.matching import Matching, check_matching
from nlp_core.prediction.trained_model import CELL, read_trained_folder
from nlp_core.training.lesson import describe_teacher


def read_matching(
    config: MatchingConfig, task: Task, model: GraphModel, featurizer: Featurizer
) -> Matching:
    """Read the encoder of the teacher, and let the student's and its own record what is compared.

    Args:
        config: of the recipe.
        task: the taught task.
        model: the student; only how its encoder hands out attention changes.
        featurizer: what reads the student's texts.

    Raises:
        ConfigError: a layer is no encoder, or the two cannot be compared.
        DataError: there are several teachers, or the teacher is not trained, or another one by now.
    """
    cell, seed = _find_teacher(task.folder)
    weights, folder = describe_teacher(cell, seed)["weights"], cell / f"seed-{seed}"
    if weights != f"sha256:{_digest(folder / WEIGHTS)}":
        raise DataError(
            f"{folder / WEIGHTS}: found no weights, or others than {CELL} says, expected those of "
            f"the teacher whose layers the student learns from; run `dvc repro --force "
            f"finetune@{cell.name}`."
        )
    trained = read_trained_folder(cell, seed)
    plan = trained.plan
    theirs = _find_layer(plan, config.teacher_layer or config.layer, "teacher_layer")
    own = _find_layer(model.plan, config.layer, "layer")
    # a model is built of random weights before it gets its own; the student's run draws on as if
    # there were none
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
    return matching


def _find_teacher(folder: Path) -> tuple[Path, int]:
    """Return the cell and the seed of the one teacher of a taught task."""
    soft = read_soft_labels(folder)
    assert soft is not None, folder
    found = sorted({*soft.teachers})
    if len(found) > 1:
        members = ", ".join(f"{one.cell} seed {one.seed}" for one in found)
        raise DataError(
            f"{folder}: found soft labels of {len(found)} teachers ({members}), expected those of "
            "one seed of one cell, since the recipe's distillation.matching lets layers learn from "
            "those of one model; let one alone teach a task, or take a recipe without matching."
        )
    (one,) = found
    if digest_json(describe_teacher(one.cell, one.seed)) != one.digest:
        raise DataError(
            f"{folder}: found soft labels of another teacher than {one.cell}, seed {one.seed}, is "
            f"now; run `dvc repro teach@{folder.name}`."
        )
    return one.cell, one.seed


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
    """Refuse encoders that do not read the same pieces in the same windows."""
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


def _digest(path: Path) -> str:
    return digest_file(path) if path.exists() else ""
