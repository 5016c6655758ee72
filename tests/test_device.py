"""The device of a run, asked for by name, and the digests of its weights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.blocks.random_state import get_random_state, set_random_state
from nlp_core.errors import ConfigError
from nlp_core.probe import run_probe
from nlp_core.training.determinism import (
    VARIABLE,
    describe_machine,
    digest_weights,
    find_device,
    find_first_difference,
)
from tests.test_adversarial import METHODS
from tests.tiny_training import MODELS, find_objective, find_train, make_cell, make_trainer, project

__all__ = ["project"]

STATE = {"b": torch.ones(3), "a": torch.zeros(2, 2), "c": torch.arange(4)}


def test_it_is_the_cpu_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find_device() == torch.device("cpu")
    assert describe_machine()["device"] == "cpu"
    assert describe_machine()["probe"] == run_probe().digest
    assert describe_machine()["isa"] == "avx2"
    monkeypatch.setenv(VARIABLE, "cpu")
    assert find_device() == torch.device("cpu")


@pytest.mark.parametrize(("name", "message"), [("gpu", "found 'gpu'"), ("cuda", "no such device")])
def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(ConfigError, match=message):
        find_device()


def test_a_gpu_stands_beside_its_numbers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setenv(VARIABLE, "cuda")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert find_device() == torch.device("cuda", 1)
    assert describe_machine()["device"] == "card 1"
    assert "probe" not in describe_machine()
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError, match="found process 3 of this machine, which has 2 GPUs"):
        find_device()


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_step_and_a_prediction_make_nothing_on_the_default_device(
    project: Path, kind: str
) -> None:
    trainer = make_trainer(make_cell(project, kind), project / "x")
    batch = find_train(trainer).batch(np.arange(8))
    with torch.device("meta"):
        loss = find_objective(trainer).backward(batch, 0)
        found = trainer.model.decode(batch)
    assert np.isfinite(loss)
    assert all(item.prediction.device.type == "cpu" for item in found.values())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_an_adversarial_step_makes_nothing_there_either(project: Path, method: str) -> None:
    cell = make_cell(project, "tagging", adversarial=METHODS[method])
    trainer = make_trainer(cell, project / "x")
    batch = find_train(trainer).batch(np.arange(8))
    expected = find_objective(make_trainer(cell, project / "x")).backward(batch, 0)
    torch.manual_seed(11)
    trainer = make_trainer(cell, project / "x")
    with torch.device("meta"):
        assert find_objective(trainer).backward(batch, 0) == expected


def test_a_state_brings_the_same_numbers_back() -> None:
    state = get_random_state()
    first = torch.rand(3)
    set_random_state(state)
    assert torch.rand(3).equal(first)


def test_the_order_of_the_names_does_not_count() -> None:
    assert digest_weights(STATE) == digest_weights(dict(sorted(STATE.items())))
    whole, _, each = digest_weights(STATE).partition("-")
    assert (len(whole), len(each)) == (16, 12)


def test_the_first_tensor_that_differs_by_name_is_named() -> None:
    moved = {**STATE, "b": torch.ones(3).nextafter(torch.tensor(2.0)), "c": torch.ones(4).long()}
    expected, found = digest_weights(STATE), digest_weights(moved)
    assert find_first_difference(expected, found, list(STATE)) == "b"
    assert find_first_difference(expected, expected, list(STATE)) is None


def test_another_number_of_tensors_is_a_difference() -> None:
    fewer = digest_weights({"a": STATE["a"]})
    found = find_first_difference(digest_weights(STATE), fewer, list(STATE))
    assert found == "another number of tensors"
