"""Start a model from a trained one: layers of the same name get its vocabularies and its weights.

A layer keeps the ids that it was trained with, so it has the words of the trained model; those of
the new task that it never met have their pretrained vectors, where there are any.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from nlp_core.data.vocabulary import Vocabulary
from nlp_core.errors import ConfigError, DataError
from nlp_core.models.features import choose_vocabulary, raw_layers
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan
from nlp_core.models.saving import VOCABULARY, WEIGHTS

log = logging.getLogger(__name__)


def check_transfer(plan: ModelPlan, trained: ModelPlan) -> None:
    """Refuse a model file that has nothing of a trained one, or another block under a name.

    Args:
        plan: the model that is to start.
        trained: the model that it starts from.

    Raises:
        ConfigError: no layer with parameters has the name of one there, or it has another block.
    """
    blocks = {layer.name: layer.block for layer in trained.layers if layer.owner == layer.name}
    own = [layer for layer in plan.layers if layer.owner == layer.name and layer.name in blocks]
    if not own:
        raise ConfigError(
            f"{plan.where}: layers: found none with a name of {trained.where}, whose weights it "
            f"starts from, expected one at least of {', '.join(blocks)}."
        )
    for layer in own:
        if layer.block is not blocks[layer.name]:
            raise ConfigError(
                f"{plan.where}: layer '{layer.name}': found the block {layer.block.__name__}, "
                f"expected {blocks[layer.name].__name__}, that of the same layer in "
                f"{trained.where}, whose weights it starts from; or give it another name."
            )


def read_vocabularies(folder: Path, plan: ModelPlan, init: Path) -> dict[str, Vocabulary]:
    """Return the vocabularies of the layers of a model that a trained one has as well.

    Args:
        folder: a seed's folder of a finished cell.
        plan: the model that starts from it.
        init: folder of the vectors or the encoder that the trained model started from.
    """
    notes = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))["layers"]
    return {
        layer.name: choose_vocabulary(layer).from_note(notes[layer.name], layer.options, init)
        for layer in raw_layers(plan)
        if layer.owner == layer.name and layer.name in notes
    }


def transfer_weights(model: GraphModel, folder: Path, *, keep_heads: bool) -> list[str]:
    """Give layers, and heads if asked for, the weights that a trained model has by their names.

    What the trained model has more than a layer needs, such as its upper layers, is left out.

    Args:
        model: freshly built; what is not given stays as it is.
        folder: a seed's folder of a finished cell.
        keep_heads: whether heads of the same name and shapes are given too.

    Returns:
        The names of the heads that were given.

    Raises:
        DataError: a layer of the trained model has other shapes.
    """
    path = folder / WEIGHTS
    trained, own = load_file(path), model.state_dict()
    taken: dict[str, Tensor] = {}
    for name in model.blocks:
        if _select(trained, f"blocks.{name}."):
            wanted = _select(own, f"blocks.{name}.")
            _check_shapes(name, wanted, trained, path)
            taken |= {key: trained[key] for key in wanted}
    kept = [name for name in model.heads if keep_heads and _is_same(name, own, trained)]
    for name in kept:
        taken |= {key: trained[key] for key in _select(own, f"heads.{name}.")}
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
                f"{path}: layer '{layer}': {name}: found {found}, expected {own}, the shape that "
                "the model file gives it; make the layer as it was trained, or rename it to begin "
                "anew."
            )


def _is_same(head: str, own: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> bool:
    shapes = [
        {key: value.shape for key, value in _select(state, f"heads.{head}.").items()}
        for state in (own, trained)
    ]
    return shapes[0] == shapes[1] != {}
