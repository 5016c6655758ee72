"""What makes two runs give the same bytes, and what a number depends on: device, seed, machine."""

import hashlib
import os
import platform
import random
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from nlp_core import arithmetic
from nlp_core.errors import ConfigError, suggest
from nlp_core.probe import run_probe

VARIABLE = "REGLUE_DEVICE"
CPU, CUDA = "cpu", "cuda"
ISA = "AVX2"
WHOLE_DIGITS = 16
TENSOR_DIGITS = 4


def find_device() -> torch.device:
    """Return the device that REGLUE_DEVICE names; the CPU where it names none.

    A table must not depend on the hardware of a machine, so only REGLUE_DEVICE chooses a GPU. Each
    process of `accelerate launch` has its own GPU.

    Raises:
        ConfigError: the name is unknown, or there is no such device.
    """
    name = os.environ.get(VARIABLE, CPU)
    if name not in (CPU, CUDA):
        raise ConfigError(f"{VARIABLE}: found '{name}'. {suggest(name, [CPU, CUDA])}")
    if name == CPU:
        return torch.device(CPU)
    if not torch.cuda.is_available():
        raise ConfigError(
            f"{VARIABLE}: found '{CUDA}', and torch {torch.__version__} sees no such device here. "
            f"Install a build of torch for it and its driver, or leave {VARIABLE} out."
        )
    index, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if index >= count:
        raise ConfigError(
            f"{VARIABLE}: found process {index + 1} of this machine, which has {count} GPUs, "
            "expected a GPU for each; start fewer processes."
        )
    return torch.device(CUDA, index)


def seed_everything(seed: int) -> None:
    """Seed every generator, use one thread, and make nondeterministic operations an error.

    Called once a run, before the model is built: initial weights, dropout and the replacement of
    rare words draw from torch's global generator, whose state is part of each checkpoint. The
    order of the data has a generator of its own (nlp_core.data.batching).
    """
    arithmetic.install()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    # as torch.use_deterministic_algorithms(True), which spends 2 s on importing a compiler as well
    torch.set_deterministic_debug_mode("error")
    # A guard against reading memory never written; a tenth of the time of a step, and no change.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(1)


def describe_machine(device: torch.device | None = None) -> dict[str, str]:
    """Return the fingerprint of each result: device, torch and instruction set.

    A CPU is described by its probe, a GPU by its name and its library.

    Args:
        device: None: that of `find_device`.
    """
    device = device or find_device()
    if device.type == CPU:
        found = {"device": CPU, "probe": run_probe().digest}
    else:
        found = {"device": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)}
    version = torch.__version__.partition("+")[0]
    return {**found, "torch": version, "isa": name_instruction_set()}


def name_instruction_set() -> str:
    """Return "avx2", the pinned instruction set, or what an older or other processor has."""
    capability = torch.backends.cpu.get_cpu_capability()
    return ISA.lower() if capability == ISA else f"{platform.machine()}-{capability}".lower()


def digest_weights(state: Mapping[str, Tensor]) -> str:
    """Return the digest of all tensors and a short one of each, in the order of their names.

    `<16 hex digits>-<4 hex digits for each tensor>`: a second run can name the first that differs.
    """
    each = [
        hashlib.sha256(state[name].detach().cpu().contiguous().numpy().tobytes()).hexdigest()
        for name in sorted(state)
    ]
    whole = hashlib.sha256("".join(each).encode()).hexdigest()[:WHOLE_DIGITS]
    return f"{whole}-{''.join(digest[:TENSOR_DIGITS] for digest in each)}"


def find_first_difference(expected: str, found: str, names: Sequence[str]) -> str | None:
    """Return the name of the first tensor in which two digests differ; None if they are equal."""
    if expected == found:
        return None
    if len(expected) != len(found):
        return "another number of tensors"
    for place, name in enumerate(sorted(names)):
        start = WHOLE_DIGITS + 1 + place * TENSOR_DIGITS
        part = slice(start, start + TENSOR_DIGITS)
        if expected[part] != found[part]:
            return name
    return "a tensor whose short digest is the same"
