"""The state of the generators that dropout draws from: torch's, on the CPU and on a GPU."""

import torch
from torch import Tensor


def get_random_state() -> Tensor:
    """Return the state of torch's global generator, and of the GPU's once that is in use, [N]."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state()]) if _has_gpu() else state


def set_random_state(state: Tensor) -> None:
    """Go on from a state; one of a CPU alone leaves a GPU's generator as it is."""
    size = len(torch.get_rng_state())
    torch.set_rng_state(state[:size].clone())
    if _has_gpu() and len(state) > size:
        torch.cuda.set_rng_state(state[size:].clone())


def _has_gpu() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
