"""Training by several processes at once: each takes a part of every batch.

The processes are those of `accelerate launch`, or those that `start_processes` starts on this
machine. Each holds the whole model and the same weights: they start from the same seed, add their
gradients up and make the same update. A step of N processes is the step of one on the same batch,
whatever N is; only their dropout differs.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from nlp_core.blocks.random_state import get_random_state
from nlp_core.errors import NlpCoreError, TrainingError
from nlp_core.training.determinism import CPU, find_device

T = TypeVar("T")
LOOPBACK = ("lo", "lo0")
LOST = "gloo"
"""Part of torch's message when a process is gone."""
SEED_STRIDE = 1_000_003
"""Between the seeds of the processes' dropout; a prime, so that no two runs share a stream soon."""


def join_tensors(
    parts: Sequence[Tensor], device: torch.device, memory: Tensor | None = None
) -> Tensor:
    """Return the numbers of all parts as one vector on a device.

    A model may have parts on the CPU, such as a table that is too large for the GPU.

    Args:
        memory: the vector that they are written to; None: a new one.
    """
    return torch.cat([part.flatten().to(device) for part in parts], out=memory)


def split_like(vector: Tensor, parts: Sequence[Tensor]) -> list[Tensor]:
    """Return the numbers of a vector in the shapes, and on the devices, of some tensors."""
    pieces = torch.split(vector, [part.numel() for part in parts])
    return [piece.view_as(part).to(part.device) for piece, part in zip(pieces, parts, strict=True)]


@dataclass(frozen=True)
class Processes:
    """The processes of a run, and which of them this is; only the one of rank 0 writes files."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=find_device)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def take_own(self, parts: Sequence[T]) -> list[T]:
        """Return the parts of a batch that are this process's."""
        return list(parts[self.rank :: self.count])

    def seed_dropout(self, seed: int) -> None:
        """Give each process its own random numbers; the first one keeps those of the run."""
        if not self.is_first:
            torch.manual_seed(seed + SEED_STRIDE * self.rank)

    def add_gradients(self, model: nn.Module) -> None:
        """Replace the gradients by their sums over the processes; None where none has one."""
        if self.count == 1:
            return
        trained = [item for item in model.parameters() if item.requires_grad]
        has_one = torch.tensor([float(item.grad is not None) for item in trained])
        numbers = self._add(has_one).tolist()
        asked = [item for item, number in zip(trained, numbers, strict=True) if number > 0]
        if not asked:
            return
        grads = [torch.zeros_like(item) if item.grad is None else item.grad for item in asked]
        summed = self._add(join_tensors(grads, self.device))
        for item, part in zip(asked, split_like(summed, asked), strict=True):
            item.grad = part.clone()

    def add_value(self, value: float) -> float:
        if self.count == 1:
            return value
        return float(self._add(torch.tensor(value, dtype=torch.float64)))

    def gather_random_states(self) -> list[Tensor]:
        """Return the state of torch's generator in each process, in the order of their ranks."""
        state = get_random_state()
        if self.count == 1:
            return [state]
        return [item.cpu() for item in self.gather(state)]

    def gather(self, value: Tensor, memory: Tensor | None = None) -> list[Tensor]:
        """Return the values of all processes, which have one shape, in the order of the ranks.

        Args:
            memory: (processes, *shape) that the values are written to; None: new memory.
        """
        value = value.to(self.device)
        found = value.new_empty((self.count, *value.shape)) if memory is None else memory
        distributed.all_gather_single(found.flatten(), value.flatten())
        return list(found)

    def gather_objects(self, value: T) -> list[T]:
        """Return the values of all processes, whatever they are, in the order of the ranks."""
        found: list[Any] = [value] * self.count
        if self.count > 1:
            distributed.all_gather_object(found, value)
        return found

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Run the body in the first process, and then in the others, which find what it wrote."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def wait(self) -> None:
        if self.count > 1:
            distributed.barrier()

    def _add(self, value: Tensor) -> Tensor:
        total = value.to(self.device, copy=True)
        distributed.all_reduce(total)
        return total


def find_processes() -> Processes:
    """Return the processes that train together; this one alone if no others were started."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes()
    device = find_device()
    if not distributed.is_initialized():
        if device.type != CPU:
            torch.cuda.set_device(device)
        distributed.init_process_group("gloo" if device.type == CPU else "nccl")
    return Processes(distributed.get_rank(), distributed.get_world_size(), device)


def is_launched() -> bool:
    """Return whether something else, such as `accelerate launch`, started the processes."""
    return "WORLD_SIZE" in os.environ


@contextmanager
def start_processes(
    count: int,
    work: Callable[..., object],
    *arguments: Any,  # Any: those of `work`
) -> Iterator[None]:
    """Make this process the first of several; each of the others runs `work(*arguments)`.

    Args:
        count: of all of them; with 1 no other is started.
        work: an importable function that trains the same run as the body.

    Raises:
        TrainingError: one of the others ended too early.
    """
    if count == 1:
        yield
        return
    # started afresh: a fork would copy the threads of libraries half-way
    context = get_context("spawn")
    with TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        others = []
        try:
            for rank in range(1, count):
                reader, writer = context.Pipe(duplex=False)
                place = rank, count, meeting, writer
                other = context.Process(target=_take_part, args=(place, work, arguments))
                other.start()
                others.append((other, reader))
            for other, reader in others:
                # torch would wait half an hour for a process that ended before the meeting
                if reader not in wait([reader, other.sentinel]):
                    raise RuntimeError("a process ended before it could take part")
            with _joined(0, count, meeting):
                yield
            for other, _ in others:
                other.join()
        except RuntimeError as error:  # of torch too, which has lost a process
            for other, _ in others:
                other.join(timeout=5)
            if codes := [other.exitcode for other, _ in others if other.exitcode]:
                raise TrainingError(
                    f"training: one of {count} processes ended with exit code {codes[0]}, expected "
                    "0; memory may be short. The same command resumes from the checkpoint, and "
                    "--processes 1 needs the least memory."
                ) from error
            raise
        finally:
            for other, _ in others:
                other.terminate()
                other.join()


def end_with_parent() -> None:
    """Let this process end when the one that started it does, even if that is killed."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _take_part(
    place: tuple[int, int, Path, Connection], work: Callable[..., object], arguments: Sequence[Any]
) -> None:
    """Run `work` as one of the other processes; the first one reports a user's mistake."""
    rank, count, meeting, writer = place
    # torch would wait half an hour for a first process that was killed before the meeting
    end_with_parent()
    # Ctrl-C reaches all processes: the first one ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer.send(rank)
    try:
        with _joined(rank, count, meeting):
            work(*arguments)
    except NlpCoreError as error:
        raise SystemExit(error.exit_code) from None
    except RuntimeError as error:
        if LOST not in str(error):
            raise
        # the first process reports the one that is gone, unless it is gone itself
        raise SystemExit(1) from None


@contextmanager
def _joined(rank: int, count: int, meeting: Path) -> Iterator[None]:
    """Be one of several processes, for torch and for `find_processes`."""
    before = dict(os.environ)
    os.environ["WORLD_SIZE"] = str(count)
    # what processes of one machine exchange must not leave it
    inner = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
    if inner:
        os.environ["GLOO_SOCKET_IFNAME"] = inner[0]
    try:
        distributed.init_process_group(
            "gloo", init_method=meeting.as_uri(), rank=rank, world_size=count
        )
        yield
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        os.environ.clear()
        os.environ |= before
