"""The state of torch's generators on CPU and GPU, from which dropout draws."""

import torch
from torch import Tensor


def get_random_state() -> Tensor:
    """Return the states of the CPU's global generator and, once in use, the GPU's, [N]."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state()]) if _has_gpu() else state


def set_random_state(state: Tensor) -> None:
    """Restore a state; if it has none of a GPU, the GPU's generator stays unchanged."""
    size = len(torch.get_rng_state())
    torch.set_rng_state(state[:size].clone())
    if _has_gpu() and len(state) > size:
        torch.cuda.set_rng_state(state[size:].clone())


def seed_random_state(seed: int) -> None:
    """Seed both: `torch.manual_seed` without its cost, the stack that it keeps for a later GPU."""
    torch.default_generator.manual_seed(seed)
    if _has_gpu():
        torch.cuda.manual_seed(seed)


def _has_gpu() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
