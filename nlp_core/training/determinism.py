"""What makes two runs give the same bytes, and what a number depends on: device, seed, machine."""

import os
import platform
import random

import numpy as np
import torch

from nlp_core import arithmetic
from nlp_core.errors import ConfigError, suggest
from nlp_core.probe import run_probe

VARIABLE = "REGLUE_DEVICE"
CPU, CUDA = "cpu", "cuda"


def find_device() -> torch.device:
    """Return the device that the environment asks for; without a word the CPU, in any machine.

    A table must not depend on what happens to be in the machine, so a GPU is asked for by name. Of
    several GPUs each process of `accelerate launch` has its own.

    Raises:
        ConfigError: the name is unknown, or there is no such device.
    """
    name = os.environ.get(VARIABLE, CPU)
    if name not in (CPU, CUDA):
        raise ConfigError(f"{VARIABLE}: found '{name}'. {suggest(name, [CPU, CUDA])}")
    if name == CUDA and not torch.cuda.is_available():
        raise ConfigError(
            f"{VARIABLE}: found '{CUDA}', and torch {torch.__version__} sees no such device here. "
            f"Install a build of torch for it and its driver, or leave {VARIABLE} out."
        )
    return torch.device(name, int(os.environ.get("LOCAL_RANK", "0"))) if name == CUDA else _CPU


_CPU = torch.device(CPU)


def describe_device() -> dict[str, str]:
    """Return what a number depends on: for a CPU its probe, for a GPU its name and its library."""
    device = find_device()
    if device.type == CPU:
        return {"device": CPU, "probe": run_probe().digest}
    return {"device": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda)}


ISA = "AVX2"


def seed_everything(seed: int) -> None:
    """Seed every generator, pin the thread count and refuse operations that are not deterministic.

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


def describe_machine() -> dict[str, str]:
    """Return the fingerprint of each result: device, probe, torch and instruction set."""
    return {
        **describe_device(),
        "torch": torch.__version__.partition("+")[0],
        "isa": name_instruction_set(),
    }


def name_instruction_set() -> str:
    """Return "avx2", the pinned instruction set, or what an older or other processor has."""
    capability = torch.backends.cpu.get_cpu_capability()
    return ISA.lower() if capability == ISA else f"{platform.machine()}-{capability}".lower()
