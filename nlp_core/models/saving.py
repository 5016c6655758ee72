"""A trained model on disk: model.safetensors and vocabulary.json, read without pickle.

Another model may start from it: layers of the same name get its vocabularies and weights. A layer
keeps the ids of the trained model; words that only the new task has use their pretrained vectors,
if any.

Pretrained vectors of words outside the training split are not stored; they are read again from the
`init` folder.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from nlp_core.data.task import list_targets
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import readable, replacing, write_json
from nlp_core.heads.language_model import MaskedLanguageModelHead
from nlp_core.kinds import TAGS, Kind
from nlp_core.models.features import Featurizer, choose_vocabulary
from nlp_core.models.graph import GraphModel, build_shared_model
from nlp_core.models.plan import ModelPlan

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.json"
TASKS = "tasks"
HEADS = "lm_head.safetensors"
"""The file of the heads of an encoder that was pretrained here."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: object = None) -> None:
    """Write named tensors; the note is JSON in the one metadata key that keeps bytes stable."""
    metadata = None if note is None else {"note": json.dumps(note, sort_keys=True)}
    stored = {name: tensors[name].detach().contiguous() for name in sorted(tensors)}
    with replacing(path) as temporary:
        try:
            with readable(temporary):
                save_file(stored, temporary, metadata=metadata)
        except SafetensorError as err:  # a full disk, for example
            raise OSError(None, str(err), str(path)) from err


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read what `save_tensors` wrote: the tensors and the note."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return tensors, json.loads(metadata.get("note", "null"))


def save_model(
    folder: Path, state: Mapping[str, Tensor], featurizers: Mapping[str, Featurizer]
) -> None:
    """Write weights, and the vocabularies that the featurizers of all tasks share."""
    save_tensors(folder / WEIGHTS, state)
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
    note = _read_whole(folder / VOCABULARY, _read_note)
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
        kinds: kind of each task, by name; None is the task of a model whose heads name no task.
        init: folder of the vectors it started from.

    Raises:
        DataError: a file is missing, or the weights are those of another model file.
    """
    for name in (WEIGHTS, VOCABULARY):
        if not (folder / name).exists():
            raise DataError(f"{folder / name}: no such file; train the cell first.")
    note = _read_whole(folder / VOCABULARY, _read_note)
    owners = {layer.name: layer for layer in plan.raw_layers if layer.is_owner}
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
        shapes = {name: value.shape for name, value in state.items()}
        if shapes == {name: value.shape for name, value in model.state_dict().items()}:
            model.load_state_dict(state)
            return model, featurizers
    raise DataError(
        f"{folder / WEIGHTS}: found the weights of another model than {plan.where}; train again, "
        "or restore the model file it was trained with."
    )


def _read_note(path: Path) -> Any:  # Any: JSON
    note = json.loads(path.read_bytes())
    if not isinstance(note, dict) or not isinstance(note.get("layers"), dict):
        raise ValueError("'layers' is missing")
    return note


def _read_whole(path: Path, read: Callable[[Path], Any]) -> Any:  # Any: weights or JSON
    try:
        return read(path)
    except (SafetensorError, ValueError) as err:
        raise DataError(
            f"{path}: found a broken file ({err}); train the model or copy the file again."
        ) from err


def check_transfer(plan: ModelPlan, trained: ModelPlan) -> None:
    """Raise if no layer with parameters has a trained one's name, or the blocks differ."""
    blocks = {layer.name: layer.block for layer in trained.layers if layer.is_owner}
    own = [layer for layer in plan.layers if layer.is_owner and layer.name in blocks]
    if not own:
        raise ConfigError(
            f"{plan.where}: layers: found none with a name in {trained.where}, whose weights it "
            f"starts from, expected one of {', '.join(blocks)}."
        )
    for layer in own:
        if layer.block is not blocks[layer.name]:
            raise ConfigError(
                f"{plan.where}: layer '{layer.name}': found the block {layer.block.__name__}, "
                f"expected {blocks[layer.name].__name__}, as in {trained.where}, whose weights it "
                "starts from; or rename the layer."
            )


def read_vocabularies(folder: Path, plan: ModelPlan, init: Path) -> dict[str, Vocabulary]:
    """Return the vocabularies of those layers of a model that a trained one has too."""
    notes = _read_whole(folder / VOCABULARY, _read_note)["layers"]
    return {
        layer.name: choose_vocabulary(layer).from_note(notes[layer.name], layer.options, init)
        for layer in plan.raw_layers
        if layer.is_owner and layer.name in notes
    }


def transfer_weights(model: GraphModel, folder: Path, *, keep_heads: bool) -> list[str]:
    """Copy a trained model's weights to layers, and with `keep_heads` to heads, of the same name.

    Weights that a layer does not have, such as those of upper layers, are left out.

    Returns:
        The names of the heads with trained weights.

    Raises:
        DataError: a layer of the trained model has other shapes.
    """
    path = folder / WEIGHTS
    trained, own = _read_whole(path, load_file), model.state_dict()
    taken: dict[str, Tensor] = {}
    for name in model.blocks:
        if _select(trained, f"blocks.{name}."):
            wanted = _select(own, f"blocks.{name}.")
            _check_shapes(name, wanted, trained, path)
            taken |= {key: trained[key] for key in wanted}
    kept = []
    for name in model.heads if keep_heads else ():
        wanted, found = (_select(state, f"heads.{name}.") for state in (own, trained))
        shapes = [{key: item.shape for key, item in state.items()} for state in (wanted, found)]
        if shapes[0] == shapes[1] != {}:
            kept.append(name)
            taken |= found
    model.load_state_dict({**own, **taken})
    fresh = sorted({key.split(".")[1] for key in own if key not in taken})
    log.info("start from=%s tensors=%d fresh=%s", folder, len(taken), ",".join(fresh))
    return kept


def _select(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if key.startswith(prefix)}


def _check_shapes(
    layer: str, wanted: Mapping[str, Tensor], trained: Mapping[str, Tensor], path: Path
) -> None:
    for key, value in wanted.items():
        own, name = list(value.shape), key.split(".", 2)[2]
        found = list(trained[key].shape) if key in trained else "nothing"
        if found != own:
            raise DataError(
                f"{path}: layer '{layer}': {name}: found {found}, expected {own}, the shape in the "
                "model file; define the layer as in the trained model, or rename it."
            )


def load_pretrained_head(model: GraphModel, init: Path) -> None:
    """Give heads of masked pieces the weights of an encoder that was pretrained here.

    Raises:
        ConfigError: such a head has other shapes.
        DataError: the file is broken.
    """
    path = init / HEADS
    if not path.exists():
        return
    kept = _read_whole(path, load_file)
    for name, head in model.heads.items():
        if not isinstance(head, MaskedLanguageModelHead):
            continue
        for key, value in head.state_dict().items():
            found = list(kept[key].shape) if key in kept else "nothing"
            if found != list(value.shape):
                raise ConfigError(
                    f"{model.plan.where}: head '{name}': {key}: found {found} in {path}, expected "
                    f"{list(value.shape)}; let the head read the encoder's layer itself."
                )
        head.load_state_dict({key: kept[key] for key in head.state_dict()})
