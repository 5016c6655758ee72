"""A trained model on disk: model.safetensors and vocabulary.json, read without pickle.

Pretrained vectors of words outside the training split are not stored; they are read again from the
`init` folder.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nlp_core.data.task import list_targets
from nlp_core.errors import DataError
from nlp_core.files import replacing, write_json
from nlp_core.kinds import TAGS, Kind
from nlp_core.models.features import Featurizer, choose_vocabulary, raw_layers
from nlp_core.models.graph import GraphModel, build_shared_model
from nlp_core.models.plan import ModelPlan

WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"
TASKS = "tasks"


def save_model(
    folder: Path, state: Mapping[str, Tensor], featurizers: Mapping[str, Featurizer]
) -> None:
    """Write weights, and the vocabularies that the featurizers of all tasks share."""
    stored = {name: state[name].contiguous() for name in sorted(state)}
    with replacing(folder / WEIGHTS) as temporary:
        save_file(stored, temporary)
    first = next(iter(featurizers.values()))
    layers = {name: item.describe() for name, item in first.vocabularies.items()}
    targets = {name: _describe_targets(item) for name, item in featurizers.items()}
    note = {TASKS: targets} if first.plan.tasks else _describe_targets(first)
    # an encoder's layer_norm_eps may be 1e-12, and pieces have scores of many digits
    write_json(folder / VOCABULARY, {"layers": layers, **note}, exact=True)


def _describe_targets(featurizer: Featurizer) -> dict[str, list[str]]:
    labels, *others = featurizer.targets.values()
    return {"labels": labels} | ({TAGS: others[0]} if others else {})


def has_same_targets(folder: Path, featurizer: Featurizer) -> bool:
    """Return whether a trained model of one task has the labels of another one."""
    note = _read_whole(folder / VOCABULARY, lambda path: json.loads(path.read_bytes()))
    del note["layers"]
    return bool(note == _describe_targets(featurizer))


def load_model(
    folder: Path, plan: ModelPlan, *, kinds: Mapping[str | None, Kind], init: Path
) -> tuple[GraphModel, dict[str | None, Featurizer]]:
    """Read a trained model, with the featurizer of each of its tasks.

    The part that serves one task is `model.select(featurizers[task].plan)`.

    Args:
        folder: of a seed of a finished cell.
        plan: of the model file that the cell was trained with.
        kinds: kind of each task; the one task of a model whose heads name none is None.
        init: folder of the vectors it started from.

    Raises:
        DataError: a file is missing, or the weights are those of another model file.
    """
    for name in (WEIGHTS, VOCABULARY):
        if not (folder / name).exists():
            raise DataError(f"{folder / name}: there is no such file; train the cell first.")
    note = _read_whole(folder / VOCABULARY, lambda path: json.loads(path.read_bytes()))
    owners = {layer.name: layer for layer in raw_layers(plan) if layer.owner == layer.name}
    if set(owners) == set(note["layers"]):
        vocabularies = {
            name: choose_vocabulary(owners[name]).from_note(item, owners[name].options, init)
            for name, item in note["layers"].items()
        }
        featurizers = {
            task: Featurizer(
                plan if task is None else plan.for_task(task),
                vocabularies,
                list_targets(kind, note if task is None else note[TASKS][task]),
            )
            for task, kind in kinds.items()
        }
        model = build_shared_model(plan, featurizers, kinds)
        state = _read_whole(folder / WEIGHTS, load_file)
        if _shapes(model.state_dict()) == _shapes(state):
            model.load_state_dict(state)
            return model, featurizers
    raise DataError(
        f"{folder / WEIGHTS}: found the weights of another model than {plan.where}; train again, "
        "or restore the model file it was trained with."
    )


def _read_whole(path: Path, read: Callable[[Path], Any]) -> Any:  # Any: weights or JSON
    try:
        return read(path)
    except (SafetensorError, ValueError) as err:
        raise DataError(
            f"{path}: found a broken file ({err}); train the model or copy the file again."
        ) from err


def _shapes(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}
