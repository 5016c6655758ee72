"""Every operation, block and head gives the same bits to processors of other vendors.

Not tests/test_processor.py, which is about the name of this one.
"""

import json
from pathlib import Path

import pytest

from tests.pretended_processor import EMULATED, OLDEST_EMULATOR, Disguise, find_disguise, run_python

STEPS = ["-m", "tests.step_digests"]
TORCH = "torch"
"""Of step_digests: the kernels of torch that Reglue replaces."""

Digests = dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disguise")


@pytest.fixture(scope="module")
def own() -> Digests:
    return compute(None)


@pytest.fixture(scope="module")
def others(folder: Path) -> dict[str, Digests]:
    disguises = {name: find_disguise(name, folder) for name in EMULATED}
    if None in disguises.values():
        pytest.skip(
            "no way to show another processor: neither a C compiler and a processor with CPUID "
            f"faulting, nor qemu-x86_64 {OLDEST_EMULATOR} or later"
        )
    return {name: compute(disguise) for name, disguise in disguises.items()}


def compute(disguise: Disguise | None) -> Digests:
    found: Digests = json.loads(run_python(STEPS, disguise))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", EMULATED)
def test_another_processor_gives_the_same_bits(
    own: Digests, others: dict[str, Digests], name: str
) -> None:
    assert len(own) > 150
    found = others[name]
    assert {key for key in own if own[key] != found.get(key)} - {TORCH} == set()


@pytest.mark.slow
def test_the_kernels_of_torch_alone_differ_by_vendor(others: dict[str, Digests]) -> None:
    assert len({found[TORCH] for found in others.values()}) > 1
