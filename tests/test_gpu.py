"""Training on a GPU: the same bytes in each run, and the CPU's numbers but for the last bits.

`pytest -m gpu` on a machine with one runs them; elsewhere they are skipped.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from nlp_core import arithmetic
from nlp_core.heads import Head
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.determinism import VARIABLE, seed_everything
from tests import block_contract, head_contract, test_blocks, test_heads, tiny_matching
from tests.test_adversarial import METHODS
from tests.tiny_training import (
    MODELS,
    check_resume,
    digests,
    make_cell,
    make_trainer,
    project,
)

__all__ = ["project"]
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here"),
]
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
Step = Callable[[torch.device], dict[str, Tensor]]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask for the GPU, with the settings of a run, as training does."""
    monkeypatch.setenv(VARIABLE, "cuda")
    seed_everything(1)
    yield
    torch.set_deterministic_debug_mode("default")


@pytest.mark.parametrize(
    "module", [nn.Linear(512, 64), nn.Conv1d(512, 64, 3, padding=1), nn.LSTM(512, 64)], ids=type
)
def test_float32_is_not_rounded_to_tf32(module: nn.Module) -> None:
    x = torch.randn(32, 512, 512, generator=torch.Generator().manual_seed(1))
    exact, found = module.double()(x.double()), module.float().to(GPU)(x.to(GPU))
    if isinstance(exact, tuple):
        exact, found = exact[0], found[0]
    # TF32 keeps 11 bits and gives about 3e-4
    assert (found.cpu() - exact).norm() < 1e-5 * exact.norm()


def test_attention_is_computed_from_products() -> None:
    arithmetic.install()
    x = torch.randn(2, 3, 5, 8, device=GPU)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        nn.functional.scaled_dot_product_attention(x, x, x)
    names = {event.key for event in profiled.key_averages()}
    assert "aten::_scaled_dot_product_attention_math" in names


def move(value: Any, device: torch.device) -> Any:
    """Return a copy of a tensor in float32 on a device; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    moved = value.detach().to(device)
    return moved.float().requires_grad_() if value.is_floating_point() else moved


def name_gradients(module: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    named = {**dict(module.named_parameters()), **inputs}
    return {
        name: item.grad.cpu()
        for name, item in named.items()
        if isinstance(item, Tensor) and item.grad is not None
    }


@pytest.mark.parametrize("row", test_blocks.ROWS, ids=lambda row: f"{row.block} {row.options}")
def test_a_block_gives_the_same_bits_twice_and_the_numbers_of_the_cpu(
    row: block_contract.Row,
) -> None:
    def step(device: torch.device) -> dict[str, Tensor]:
        block = block_contract.build(row).float().to(device)
        fields = [move(x, device) for x in block_contract.make_fields(row)]
        output: Tensor = block(*fields)
        weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(3))
        if output.requires_grad:
            torch.autograd.backward((output * weight.to(device)).sum())
        inputs = {f"input {idx}": x for idx, x in enumerate(fields)}
        return {"output": output.detach().cpu(), **name_gradients(block, inputs)}

    check_step(step)


@pytest.mark.parametrize("row", test_heads.ROWS, ids=lambda row: f"{row.head} {row.options}")
def test_a_head_gives_the_same_bits_twice_and_the_numbers_of_the_cpu(
    row: head_contract.Row,
) -> None:
    def step(device: torch.device) -> dict[str, Tensor]:
        head: Head = head_contract.build(row).float().to(device)
        batch = head_contract.Batch(*(move(x, device) for x in head_contract.make_batch(head)))
        scores = head_contract.score(head, batch)
        loss = head.loss(scores, batch.target, head.select_where(batch.mask, batch.group))
        torch.autograd.backward(loss)
        prediction = head_contract.decode(head, scores.detach(), batch).prediction
        found = {"loss": loss.detach().cpu(), "prediction": prediction.cpu()}
        return {**found, **name_gradients(head, {"x": batch.x})}

    check_step(step)


def check_step(step: Step) -> None:
    """Take a step twice on the GPU; also on the CPU if it draws no random numbers there."""
    first, second = step(GPU), step(GPU)
    assert hash_tensors(first) == hash_tensors(second)
    if not torch.cuda.default_generators[0].get_offset():
        torch.testing.assert_close(first, step(CPU), **CLOSE)


def hash_tensors(named: Mapping[str, Tensor]) -> dict[str, str]:
    return {
        name: hashlib.sha256(item.contiguous().numpy().tobytes()).hexdigest()
        for name, item in named.items()
    }


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_two_trainings_write_the_same_files(project: Path, kind: str) -> None:
    assert_same_files(lambda: make_cell(project, kind))


def test_two_trainings_of_an_encoder_write_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_matching.write_encoder(tmp_path)
    params = tiny_matching.make_params("classification", matching=None)
    assert_same_files(lambda: read_cell("old", params))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_two_adversarial_trainings_write_the_same_files(project: Path, method: str) -> None:
    assert_same_files(lambda: make_cell(project, "tagging", adversarial=METHODS[method]))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_two_trainings_in_16_bits_write_the_same_files(project: Path, precision: str) -> None:
    assert_same_files(lambda: make_cell(project, "classification", precision=precision))


def assert_same_files(make: Callable[[], Cell]) -> None:
    """Train a cell twice from its start; fail unless all files are equal, and name the GPU."""
    first = train_cell(make())
    found = digests(first)
    first.rename("first")
    Path("artifacts/work").rename("work")
    assert digests(train_cell(make())) == found
    assert torch.cuda.get_device_name(0) in Path("first/cell.json").read_text(encoding="utf-8")


def test_a_killed_training_goes_on_to_the_same_weights(project: Path, tmp_path: Path) -> None:
    cell = make_cell(project, "tagging")
    check_resume(lambda path: make_trainer(cell, path), tmp_path, 8)


def test_a_table_in_the_memory_of_the_cpu_gives_the_same_steps(project: Path) -> None:
    def train(*, on_cpu: bool) -> Mapping[str, Any]:
        path = project / "zoo/classification.json"
        graph = json.loads(path.read_text(encoding="utf-8"))
        graph["layers"][0]["on_cpu"] = on_cpu
        path.write_text(json.dumps(graph), encoding="utf-8")
        return (
            make_trainer(make_cell(project, "classification"), project / f"{on_cpu}").run().states
        )

    torch.testing.assert_close(train(on_cpu=True), train(on_cpu=False), check_device=False, **CLOSE)
