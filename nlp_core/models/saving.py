"""A trained model on disk: model.safetensors and vocabulary.json, read back without pickle.

Pretrained vectors of words outside the training split are not stored; they are read again from the
`init` folder, so a model weighs what it learnt and no more.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from nlp_core.data.task import TAGS, list_targets
from nlp_core.errors import DataError
from nlp_core.files import replacing, write_json
from nlp_core.models.features import Featurizer, choose_vocabulary, raw_layers
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.models.plan import ModelPlan

WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"


def save_model(folder: Path, state: Mapping[str, Tensor], featurizer: Featurizer) -> None:
    """Write weights and vocabularies into a folder."""
    stored = {name: state[name].contiguous() for name in sorted(state)}
    with replacing(folder / WEIGHTS) as temporary:
        save_file(stored, temporary)
    layers = {name: item.describe() for name, item in featurizer.vocabularies.items()}
    labels, *others = featurizer.targets.values()
    note = {"labels": labels, "layers": layers} | ({TAGS: others[0]} if others else {})
    write_json(folder / VOCABULARY, note)


def load_model(
    folder: Path, plan: ModelPlan, *, kind: str, init: Path
) -> tuple[GraphModel, Featurizer]:
    """Read a trained model back.

    Args:
        folder: a seed's folder of a finished cell.
        plan: the model file that the cell was trained with.
        kind: kind of its task.
        init: folder of the vectors it started from.

    Raises:
        DataError: a file is missing, or the weights are those of another model file.
    """
    for name in (WEIGHTS, VOCABULARY):
        if not (folder / name).exists():
            raise DataError(f"{folder / name}: there is no such file; train the cell first.")
    note = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    owners = {layer.name: layer for layer in raw_layers(plan) if layer.owner == layer.name}
    if set(owners) == set(note["layers"]):
        vocabularies = {
            name: choose_vocabulary(owners[name]).recall(item, owners[name].options, init)
            for name, item in note["layers"].items()
        }
        featurizer = Featurizer(plan, vocabularies, list_targets(kind, note))
        model = build_model(plan, featurizer, kind=kind)
        state = load_file(folder / WEIGHTS)
        if _shapes(model.state_dict()) == _shapes(state):
            model.load_state_dict(state)
            return model, featurizer
    raise DataError(
        f"{folder / WEIGHTS}: found the weights of another model than {plan.where} describes; "
        "train the cell again, or restore the model file it was trained with."
    )


def _shapes(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}
