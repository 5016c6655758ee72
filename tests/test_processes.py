"""Several processes that train one model: the same steps as those of one."""

import json
import os
import socket
import subprocess
import sys
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch._subclasses.fake_tensor import FakeTensorMode

from nlp_core.cli import main
from nlp_core.errors import TrainingError
from nlp_core.files import digest_file
from nlp_core.training.processes import (
    LOOPBACK,
    Processes,
    find_processes,
    join_tensors,
    split_like,
    start_processes,
)
from tests.tiny import make_recipe, write_task
from tests.tiny_training import make_params, project
from tests.user_files import SMALL, write_tsv

__all__ = ["project"]
ROOT = Path(__file__).resolve().parent.parent
LOCAL = "127.0.0.1"


def launch(root: Path, number: int, stage: str = "finetune") -> None:
    """Train the cell or encoder `tiny` in several processes, as a user would."""
    launcher = ["accelerate.commands.launch", "--cpu", "--num_processes", str(number)]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    more = [*launcher, "--module"] if number > 1 else []
    command = [sys.executable, "-m", *more, f"stages.{stage}", "tiny"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def find_port() -> int:
    """Return a free port outside the range from which the system takes those of its clients."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as free, suppress(OSError):
            free.bind((LOCAL, port))
            return port
    raise OSError("no free port")


def launch_on_machines(root: Path) -> None:
    """Train the cell `tiny` on two machines with a process each and a folder that both see."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)}
    loopback = next(name for _, name in socket.if_nameindex() if name in LOOPBACK)
    environment |= {"ACCELERATE_USE_CPU": "true", "GLOO_SOCKET_IFNAME": loopback}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    launcher += ["--nproc_per_node", "1", "--master_addr", LOCAL, "--local_addr", LOCAL]
    launcher += ["--master_port", str(find_port())]
    logs = [root / f"machine-{rank}.log" for rank in (0, 1)]
    runs = []
    for rank, log in enumerate(logs):
        with log.open("w") as output:
            command = [*launcher, "--node_rank", str(rank), "--module", "stages.finetune", "tiny"]
            runs.append(
                subprocess.Popen(
                    command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT
                )
            )
    try:
        with suppress(subprocess.TimeoutExpired):
            for run in runs:
                run.wait(timeout=240)
    finally:
        for run in runs:
            run.terminate()
            run.wait()
    assert [run.returncode for run in runs] == [0, 0], [log.read_text() for log in logs]


@pytest.mark.slow
def test_two_machines_give_the_result_of_one(project: Path) -> None:
    write_task(project, "tagging")
    params = make_params("tagging", make_recipe(batch_size=12), seeds=(1,))
    (project / "params.yaml").write_text(yaml.safe_dump(params.model_dump(mode="json")))
    ends = []
    for train in (partial(launch, number=1), launch_on_machines):
        train(project)
        weights = project / "artifacts/cells/sample/tiny/seed-1/model.safetensors"
        ends.append(load_file(weights))
        (project / "artifacts").rename(project / f"by-{len(ends)}")
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-3, atol=1e-4)
    (note,) = (project / "runs").rglob("seed-1.json")
    assert json.loads(note.read_text())["processes"] == 2


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(project: Path) -> None:
    write_task(project, "tagging")
    params = make_params("tagging", make_recipe(batch_size=12), seeds=(1,))
    (project / "params.yaml").write_text(yaml.safe_dump(params.model_dump(mode="json")))
    ends = []
    for number in (1, 2):
        launch(project, number)
        folder = project / "artifacts/cells/sample/tiny"
        ends.append(load_file(folder / "seed-1/model.safetensors"))
        lines = (folder / "seed-1/history.jsonl").read_text().splitlines()
        losses = [json.loads(line)["loss"] for line in lines if "loss" in line]
        ends[-1]["losses"] = torch.tensor(losses)
        (project / "artifacts").rename(project / f"by-{number}")
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-3, atol=1e-4)


def test_one_process_alone_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    alone = find_processes()
    assert alone == Processes(0, 1)
    assert alone.is_first
    assert alone.take_own([1, 2, 3]) == [1, 2, 3]
    assert alone.add_value(0.1) == 0.1
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    before = layer.weight.grad
    alone.add_gradients(layer)
    assert layer.weight.grad is before


def test_parts_are_dealt_in_turns_and_dropout_differs() -> None:
    parts = ["a", "b", "c", "d", "e"]
    assert Processes(0, 2).take_own(parts) == ["a", "c", "e"]
    assert Processes(1, 2).take_own(parts) == ["b", "d"]
    drawn = []
    for rank in (0, 1, 2):
        torch.manual_seed(5)
        Processes(rank, 3).seed_dropout(5)
        drawn.append(torch.rand(4).tolist())
    torch.manual_seed(5)
    assert drawn[0] == torch.rand(4).tolist()
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_train_writes_the_same_files_with_several_processes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def note(count: int, *arguments: Any) -> AbstractContextManager[None]:
        counts.append(count)
        return start_processes(count, *arguments)

    monkeypatch.setattr("nlp_core.cli.train.start_processes", note)
    write_tsv(place / "data.tsv", rows=60, header="text\tlabel")
    options = ["--kind", "classification", "--epochs", "2", *SMALL, "--set", "training.shards=2"]
    options += ["--set", "layers.word.vectors=null"]
    for number in ("1", "2"):
        main(["train", "data.tsv", "-o", f"by-{number}", *options, "--processes", number])
    found = [
        {path.name: digest_file(path) for path in Path(f"by-{number}").iterdir() if path.is_file()}
        for number in (1, 2)
    ]
    pages = {"report.html", "report.md"}  # they name the folder
    one, two = ({name: item for name, item in each.items() if name not in pages} for each in found)
    assert "model.safetensors" in one
    assert two == one
    assert counts == [1, 2]


def test_folds_train_in_several_processes(place: Path) -> None:
    write_tsv(place / "data.tsv", rows=40, header="text\tlabel")
    options = ["--kind", "classification", "--epochs", "1", *SMALL, "--set", "training.shards=2"]
    main(["train", "data.tsv", "-o", "out", *options, "--folds", "2", "--processes", "2"])
    assert len(json.loads(Path("out/folds.json").read_text())["accuracy"]["values"]) == 2


def test_a_time_limit_ends_all_processes(place: Path) -> None:
    write_tsv(place / "data.tsv", rows=40, header="text\tlabel")
    options = ["--kind", "classification", *SMALL, "--set", "training.shards=2"]
    with pytest.raises(SystemExit) as caught:
        main(["train", "data.tsv", *options, "--processes", "2", "--time-limit", "0.0001"])
    assert caught.value.code == 75


def test_no_more_processes_than_shards(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tsv(place / "data.tsv", rows=40, header="text\tlabel")
    with pytest.raises(SystemExit) as caught:
        main(["train", "data.tsv", "--kind", "classification", "--processes", "3"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "--processes: found 3, expected 1 to 1, one for each shard of a batch" in error
    assert "--set training.shards=3" in error


def meet() -> None:
    find_processes().wait()


def test_processes_that_start_here_meet() -> None:
    with start_processes(3, meet):
        processes = find_processes()
        processes.wait()
        assert (processes.rank, processes.count) == (0, 3)
    assert find_processes().count == 1


def leave(code: int) -> None:
    if find_processes().rank == 1:
        os._exit(code)
    meet()


@pytest.mark.parametrize(("count", "code"), [(2, 1), (3, 3)])
def test_a_lost_process_ends_the_run(
    count: int, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    message = f"one of {count} processes ended with exit code"
    with pytest.raises(TrainingError, match=message), start_processes(count, leave, code):
        meet()
    assert find_processes().count == 1
    assert "Traceback" not in capfd.readouterr().err


KILLED = """
import time
from multiprocessing import get_context
from pathlib import Path
from nlp_core.training.processes import _take_part
context = get_context("spawn")
reader, writer = context.Pipe(duplex=False)
place = 1, 2, Path("meeting").resolve(), writer
context.Process(target=_take_part, args=(place, print, ())).start()
print(reader.recv(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_process_does_not_wait_for_a_killed_one(tmp_path: Path) -> None:
    command, environment = [sys.executable, "-c", KILLED], {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline() == b"1\n"  # the other one is there
    first.kill()
    first.communicate(timeout=30)  # until the other one has closed its output


def test_gradients_of_parts_on_the_cpu_and_on_a_gpu_are_joined_on_the_gpu() -> None:
    """With pretended tensors, which know their device and have no numbers."""
    with FakeTensorMode():
        parts = [torch.empty(2, 3, device="cuda"), torch.empty(4)]
        memory = torch.empty(10, device="cuda")
        joined = join_tensors(parts, memory.device)
        assert (joined.device, joined.shape) == (memory.device, (10,))
        assert join_tensors(parts, memory.device, memory) is memory
        found = [(part.device.type, tuple(part.shape)) for part in split_like(joined, parts)]
    assert found == [("cuda", (2, 3)), ("cpu", (4,))]


def test_joined_tensors_have_their_numbers_again() -> None:
    parts = [torch.arange(6.0).view(2, 3), torch.arange(4.0) + 10]
    joined = join_tensors(parts, parts[0].device)
    assert joined.tolist() == [*range(6), *range(10, 14)]
    assert all(map(torch.equal, split_like(joined, parts), parts))
