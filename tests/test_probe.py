"""The probe: the same in every process, blind to the vendor, and it names what differs."""

import subprocess
import sys
import time

import pytest
import torch

from nlp_core import probe

pytestmark = pytest.mark.linux


def test_two_processes_have_the_same_probe_within_the_time_of_its_bar() -> None:
    command = (
        "import nlp_core, torch, time; from nlp_core.probe import run_probe; start = time.time();"
        "digest = run_probe().digest; print(digest, time.time() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    digest, seconds = done.stdout.split()
    assert digest == probe.run_probe().digest
    assert float(seconds) < 5.0  # 0.3 s on an idle machine; the bar is 1.5 s


def test_a_changed_operation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = probe.run_probe()
    monkeypatch.setitem(probe.OPERATIONS, "gelu", lambda: [torch.ones(3)])
    probe.run_probe.cache_clear()
    found = probe.run_probe()
    probe.run_probe.cache_clear()
    assert found.digest != expected.digest
    assert [
        name for name, digest in found.operations.items() if expected.operations[name] != digest
    ] == ["gelu"]


def test_every_operation_reacts_to_one_bit_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = probe.run_probe().operations
    make = probe._make

    def shift(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        made = make(*shape, seed=seed, low=low, high=high)
        made.view(-1)[0] = torch.nextafter(made.view(-1)[0] * 1.0001, torch.tensor(0.0))
        return made

    monkeypatch.setattr(probe, "_make", shift)
    with torch.random.fork_rng(devices=[]):
        found = {
            name: probe.digest_tensors(compute()) for name, compute in probe.OPERATIONS.items()
        }
    same = {name for name, digest in found.items() if digest == expected[name]}
    assert same == set()


def test_the_generator_and_the_threads_are_left_as_they_were() -> None:
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    probe.run_probe.cache_clear()
    start = time.perf_counter()
    probe.run_probe()
    assert time.perf_counter() > start
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
