"""The device of a run: the CPU, unless the environment asks for a GPU."""

import os

import torch

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
    return {
        "device": torch.cuda.get_device_name(device),
        "cuda": str(torch.version.cuda),
    }
