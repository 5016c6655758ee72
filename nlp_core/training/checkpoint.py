"""The whole state of a run in one safetensors file, written whole or not at all."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.optim import Optimizer

from nlp_core.blocks.random_state import set_random_state
from nlp_core.models.saving import load_tensors, save_tensors

log = logging.getLogger(__name__)

OPTIMIZER, GENERATOR = "optimizer", "generator"
DIGEST = "digest"
GROUPS = "groups"
"""The numbers that an optimiser counts for each of its groups, such as steps."""


@dataclass
class Best:
    """The best validation so far by one way of choosing the epoch."""

    score: float
    epoch: float


@dataclass
class Progress:
    """The position of a run.

    Attributes:
        epoch: the current one, from 1; `batch` counts its batches done, `step` all steps done.
        stale: validations since the best one.
        best: by selection, the best validation.
        events: what history.jsonl will hold.
        task_steps: steps done for each task, if there are several.
        losses: of the steps since the last line of the log.
        scores: of the validations of the honest selection; more is better.
    """

    epoch: int = 1
    batch: int = 0
    step: int = 0
    stale: int = 0
    best: dict[str, Best] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    task_steps: dict[str, int] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


def save_checkpoint(
    path: Path,
    progress: Progress,
    states: Mapping[str, Mapping[str, Tensor]],
    optimizer: Optimizer,
    generators: Sequence[Tensor],
) -> None:
    """Write a checkpoint.

    Args:
        states: tensors by the name of what they belong to: model, average, best ...
        generators: state of torch's generator in each process of the run.
    """
    tensors = {f"{part}/{name}": v for part, state in states.items() for name, v in state.items()}
    for key, slots in optimizer.state_dict()["state"].items():
        if isinstance(slots, Tensor):  # of no weight: MADGRAD counts its steps so
            tensors[f"{OPTIMIZER}/{key}"] = slots
        else:
            tensors |= {f"{OPTIMIZER}/{key}/{name}": value for name, value in slots.items()}
    for rank, state in enumerate(generators):
        tensors[f"{GENERATOR}/{_name(rank)}"] = state
    groups = [_list_numbers(group) for group in optimizer.param_groups]
    note = asdict(progress) | {GROUPS: groups}
    save_tensors(path, tensors, note | {DIGEST: _digest(tensors, note)})


def is_usable(path: Path) -> bool:
    """Return whether there is a checkpoint; an unusable one gets a warning.

    One is unusable if it is damaged, or if code with another `Progress` wrote it.
    """
    if not path.exists():
        return False
    known = {GROUPS, *(item.name for item in fields(Progress))}
    try:
        tensors, note = load_tensors(path)
        is_whole = bool(note.pop(DIGEST) == _digest(tensors, note))
    except (SafetensorError, ValueError, LookupError, AttributeError):
        is_whole, note = False, {}
    if not is_whole or set(note) != known:
        found = "a checkpoint of other code" if is_whole else "a damaged checkpoint"
        log.warning("%s: found %s; the run starts from the beginning", path, found)
        return False
    return True


def _digest(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> str:  # Any: JSON
    """Return the sha256 of all that a checkpoint says."""
    # as it is read again: numbers as keys become texts
    digest = hashlib.sha256(json.dumps(json.loads(json.dumps(note)), sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].detach().contiguous().cpu()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_checkpoint(
    path: Path, optimizer: Optimizer, rank: int = 0
) -> tuple[Progress, dict[str, dict[str, Tensor]]]:
    """Read a checkpoint: set optimiser and generator, return progress and states.

    Args:
        rank: of this process; one that the run did not have keeps its generator.
    """
    tensors, note = load_tensors(path)
    del note[DIGEST]
    states: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        part, _, name = key.partition("/")
        states.setdefault(part, {})[name] = value
    generators = states.pop(GENERATOR)
    if rank == 0 or _name(rank) in generators:
        set_random_state(generators[_name(rank)])
    slots: dict[int | str, Any] = {}  # Any: tensors by name, or one of no weight
    for key, value in states.pop(OPTIMIZER, {}).items():
        idx, is_named, name = key.partition("/")
        if is_named:
            slots.setdefault(int(idx), {})[name] = value
        else:
            slots[key] = value
    state = optimizer.state_dict()
    for group, numbers in zip(state["param_groups"], note.pop(GROUPS), strict=True):
        group |= numbers
    optimizer.load_state_dict({**state, "state": slots})
    best = {name: Best(**item) for name, item in note.pop("best").items()}
    return Progress(**note, best=best), states


def _list_numbers(group: Mapping[str, Any]) -> dict[str, float]:  # Any: as torch has it
    return {key: value for key, value in group.items() if isinstance(value, int | float)}


def _name(rank: int) -> str:
    return f"torch-{rank}" if rank else "torch"
