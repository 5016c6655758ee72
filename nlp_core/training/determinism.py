"""What makes two runs give the same bytes, and the few facts that a number depends on."""

import platform
import random

import numpy as np
import torch

from nlp_core import arithmetic
from nlp_core.training.device import describe_device

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
