"""Load `reglue serve`: `python benchmarks/service_load.py BUNDLE --data FILE.parquet`.

    python benchmarks/service_load.py artifacts/cells/latency/sst2_student/float32 \
        --data data/processed/sst2/dev.parquet

Each client waits for its answer before the next request of one real example, without batching and
with it; then come requests that break the schema, and a right one. The clients run in this process,
on the same cores as the service. Bars: no error, at least twice the throughput with batching, no
5xx to a bad request.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from bad_request import JSON, make_bad_request

ROOT = Path(__file__).resolve().parent.parent
BAR_RATIO = 2.0
HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n{headers}\r\n"


class Answer(NamedTuple):
    status: int
    body: bytes


class Connection:
    """A connection that is kept, and opened again when the service closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self,
        body: bytes = b"",
        *,
        method: str = "POST",
        path: str = "/predict",
        headers: dict[str, str] = JSON,
    ) -> Answer:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = HEAD.format(method=method, path=path, size=len(body), headers=lines)
        self._writer.write(head.encode() + body)
        found = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        size = found.partition(b"content-length: ")[2].partition(b"\r")[0]
        answer = Answer(int(found.split()[1]), await self._reader.readexactly(int(size)))
        if b"connection: close" in found:
            self.close()
        return answer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class Load(NamedTuple):
    """The results of the clients.

    Attributes:
        seconds: of each answer, sorted.
        throughput: examples per second.
        batch: mean examples that were predicted at once.
    """

    seconds: list[float]
    statuses: Counter[int]
    throughput: float
    batch: float


def main() -> None:
    """Exit with 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="a processed split of its task")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--bad", type=int, default=10_000, help="bad requests")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bodies = read_bodies(options.bundle, options.data)
    loads = {}
    for max_batch in (1, options.max_batch):
        with serving(options.bundle, "--max-batch", str(max_batch)) as port:
            loads[max_batch] = asyncio.run(
                load_service(port, bodies, options.clients, options.seconds)
            )
        print(f"--max-batch {max_batch}: {describe(loads[max_batch])}")
    ratio = loads[options.max_batch].throughput / loads[1].throughput
    print(f"batching: {ratio:.2f} times the throughput (bar: {BAR_RATIO:g})")
    with serving(options.bundle) as port:
        statuses = asyncio.run(send_bad(port, bodies[0], options.bad, options.seed))
    print(f"{options.bad} bad requests: {show(statuses)} (bar: no 5xx), then a right one: 200")
    print(f"{os.cpu_count()} cores, load of the machine {os.getloadavg()[0]:.1f}")
    is_right = all(set(load.statuses) == {200} for load in loads.values())
    if not is_right or ratio < BAR_RATIO or max(statuses) >= 500:
        raise SystemExit(1)


def read_bodies(bundle: Path, data: Path) -> list[bytes]:
    names = json.loads((bundle / "bundle.json").read_text())["texts"]
    table = pq.read_table(data)
    columns = [
        name if name in table.column_names else name.replace("text", "tokens") for name in names
    ]
    rows = table.select(columns).to_pylist()
    return [json.dumps({"examples": [row]}).encode() for row in rows]


@contextmanager
def serving(bundle: Path, *options: str) -> Iterator[int]:
    """Run the service in a process and yield its port."""
    command = [sys.executable, "-m", "reglue_runtime.service", str(bundle.resolve()), "--port", "0"]
    process = subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if "serving" not in line:
            raise SystemExit(line + process.stderr.read())
        yield int(line.rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


async def load_service(port: int, bodies: Sequence[bytes], clients: int, seconds: float) -> Load:
    """Send requests from many clients at once, after a second to warm up."""
    await asyncio.gather(*(ask_until(port, bodies, seed, 1.0) for seed in range(clients)))
    before = await read_batches(port)
    started = time.perf_counter()
    found = await asyncio.gather(
        *(ask_until(port, bodies, seed, seconds) for seed in range(clients))
    )
    passed = time.perf_counter() - started
    answers = [answer for own in found for answer in own]
    after = await read_batches(port)
    return Load(
        sorted(duration for _, duration in answers),
        Counter(status for status, _ in answers),
        len(answers) / passed,
        (after[0] - before[0]) / (after[1] - before[1]),
    )


async def ask_until(
    port: int, bodies: Sequence[bytes], seed: int, seconds: float
) -> list[tuple[int, float]]:
    """Return the status and seconds of requests sent one after the other."""
    rng = random.Random(seed)
    connection = Connection(port)
    found = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        answer = await connection.ask(rng.choice(bodies))
        found.append((answer.status, time.perf_counter() - started))
    connection.close()
    return found


async def read_batches(port: int) -> tuple[float, float]:
    """Return how many examples, and batches, the service has predicted."""
    connection = Connection(port)
    text = (await connection.ask(method="GET", path="/metrics")).body.decode()
    connection.close()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    own = {
        name.partition("{")[0]: float(value)
        for name, value in values.items()
        if name.startswith("reglue_batch_examples_")
    }
    return own["reglue_batch_examples_sum"], own["reglue_batch_examples_count"]


async def send_bad(port: int, right: bytes, count: int, seed: int) -> Counter[int]:
    """Send bad requests and a right one, and return the number of answers of each status."""
    rng = random.Random(seed)
    connection = Connection(port)
    document = json.loads((await connection.ask(method="GET", path="/openapi.json")).body)
    statuses: Counter[int] = Counter()
    for _ in range(count):
        bad = make_bad_request(document, rng)
        answer = await connection.ask(
            bad.body, method=bad.method, path=bad.path, headers=bad.headers
        )
        if answer.status not in bad.statuses:
            print(f"{bad.fault}: found {answer.status}, expected {bad.statuses}: {bad.body[:80]!r}")
        statuses[answer.status] += 1
    assert (await connection.ask(right)).status == 200
    connection.close()
    return statuses


def describe(load: Load) -> str:
    p50, p99 = (1000 * pick(load.seconds, share) for share in (0.5, 0.99))
    return (
        f"{load.throughput:.0f} examples/s, P50 {p50:.1f} ms, P99 {p99:.1f} ms, "
        f"{load.batch:.1f} examples a batch, answers: {show(load.statuses)}"
    )


def pick(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(statuses: Counter[int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))


if __name__ == "__main__":
    main()
