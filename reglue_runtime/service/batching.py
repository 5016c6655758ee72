"""One queue per bundle: requests of many clients are predicted in one batch.

The event loop queues requests; a thread takes them out and runs the graph, which releases the GIL.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from reglue_runtime.bundle import AREA
from reglue_runtime.decoding import Prediction
from reglue_runtime.example import Given

Predictions: TypeAlias = list[Prediction]
Outcome: TypeAlias = Predictions | Exception


class Predict(Protocol):
    def __call__(
        self, examples: Sequence[Given], *, advance: Callable[[int], None]
    ) -> Predictions: ...


class _NobodyWaitsError(Exception):
    """All clients of a batch left, or their time is over."""


class QueueFullError(Exception):
    """More than `max_queue` examples are waiting."""


class Job(NamedTuple):
    """The examples of one request; `length`: characters of the longest one."""

    examples: Sequence[Given]
    length: int
    since: float
    future: "asyncio.Future[Predictions]"


class Batcher:
    """Predict many requests at once, in a thread.

    Args:
        predict: calls `advance` between parts of its examples, with the size of the last part.
        max_batch: most examples per batch; a request with more is a batch by itself.
        max_wait: longest wait of a request for others while the thread is idle, in seconds.
        max_queue: examples that may wait.
        observe: called with the number of examples and the seconds of each batch.
    """

    def __init__(
        self,
        predict: Predict,
        *,
        max_batch: int,
        max_wait: float,
        max_queue: int,
        observe: Callable[[int, float], None],
    ) -> None:
        self._predict = predict
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._max_queue = max_queue
        self._observe = observe
        self._jobs: list[Job] = []
        self._is_closed = False
        self._notify_end: Callable[[], object] | None = None
        self._changed = threading.Condition()
        # a daemon: a second signal ends the process during a batch
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """How many examples are waiting, without those in the running batch."""
        return sum(len(job.examples) for job in self._jobs if not job.future.done())

    def submit(self, examples: Sequence[Given], length: int) -> "asyncio.Future[Predictions]":
        """Queue the examples of a request, or raise QueueFullError; call it in the event loop."""
        future: asyncio.Future[Predictions] = asyncio.get_running_loop().create_future()
        job = Job(examples, length, time.monotonic(), future)
        with self._changed:
            assert not self._is_closed
            total = self.num_waiting + len(examples)
            if total > self._max_queue:
                raise QueueFullError
            self._jobs.append(job)
            if len(self._jobs) == 1 or total >= self._max_batch:
                self._changed.notify()
        return future

    async def close(self) -> None:
        """Predict what waits, and end the thread; nothing may be submitted afterwards."""
        ended = asyncio.Event()
        # not joined in a thread of the loop: asyncio.run waits for it, also after a second signal
        loop = asyncio.get_running_loop()
        with self._changed:
            self._is_closed = True
            self._notify_end = partial(loop.call_soon_threadsafe, ended.set)
            self._changed.notify()
        await ended.wait()

    def _work(self) -> None:
        while (jobs := self._take()) is not None:
            if jobs:
                self._deliver(jobs, self._run(jobs))
        assert self._notify_end is not None
        with suppress(RuntimeError):  # the loop may be closed, as in _deliver
            self._notify_end()

    def _take(self) -> list[Job] | None:
        """Wait for jobs and return those of the next batch, or None when no more can come."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            if not self._jobs:
                return None
            until = self._jobs[0].since + self._max_wait
            while not self._is_closed and self.num_waiting < self._max_batch:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            # a request that timed out or whose client left is not predicted
            self._jobs = [job for job in self._jobs if not job.future.done()]
            chosen = choose_batch(self._jobs, self._max_batch) if self._jobs else []
            taken = set(map(id, chosen))
            self._jobs = [job for job in self._jobs if id(job) not in taken]
            return chosen

    def _run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Return the predictions or the error of each job; one job's error is not another's."""
        examples = [example for job in jobs for example in job.examples]
        started = time.perf_counter()
        try:
            found = self._predict(examples, advance=partial(_check_waiting, jobs))
        except _NobodyWaitsError:
            return [[] for _ in jobs]
        # any error is the answer to its request, and the thread has to live; a panic of the
        # tokenizers' Rust code is not an Exception
        except BaseException as err:
            if len(jobs) == 1:
                if isinstance(err, Exception):
                    return [err]
                held = RuntimeError(f"{type(err).__name__}: {err}")  # which a future can hold
                held.__cause__ = err
                return [held]
            return [outcome for job in jobs for outcome in self._run([job])]
        self._observe(len(examples), time.perf_counter() - started)
        rest = iter(found)
        return [[next(rest) for _ in job.examples] for job in jobs]

    def _deliver(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
        # after a second signal the loop may be closed, and all requests with it
        with suppress(RuntimeError):
            loop = jobs[0].future.get_loop()
            loop.call_soon_threadsafe(_set_outcomes, jobs, outcomes)


def _check_waiting(jobs: Sequence[Job], number: int) -> None:
    """Stop a batch, `number` examples of which were just predicted, once nobody waits for it."""
    if all(job.future.done() for job in jobs):
        raise _NobodyWaitsError


def choose_batch(jobs: Sequence[Job], max_batch: int) -> list[Job]:
    """Return the oldest job and, as far as they fit, those nearest to it in length.

    Similar lengths mean little padding; the oldest is always included, so none waits for ever. A
    bundle must predict them in one part, or short ones would wait for the parts of long ones.
    """
    first, *others = jobs
    chosen, count, longest = [first], len(first.examples), first.length
    for job in sorted(others, key=lambda job: abs(job.length - first.length)):
        more, length = count + len(job.examples), max(longest, job.length)
        if more <= max_batch and more * length**2 <= AREA:
            chosen.append(job)
            count, longest = more, length
    return chosen


def _set_outcomes(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
