"""Treat a service badly: `python benchmarks/faults/hostile_clients.py [--requests 10000]`.

`reglue serve` runs in a process of its own. It gets requests that break its schema, clients that
send a byte at a time or leave in the middle, and SIGTERM while others wait for answers. Each bad
request must get a 4xx of the expected kind, a right request an answer in between, and after SIGTERM
every request a whole answer, 503 or a closed port. Prints the counts; exit code 1 otherwise.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.bad_request import BadRequest, make_bad_request
from tests.tiny_service import SECONDS, ask, get, running_process, write_bundles

RIGHT = {"bundle": "sentence", "examples": ["a good film"]}
HEAD = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
EVERY = 500
"""After how many bad requests a right one is sent."""
LIMITS = ("--timeout", "5", "--max-body", str(1 << 19))


class Outcome(NamedTuple):
    """What a service answered, and what was wrong with it."""

    counts: Counter[str]
    faults: list[str]


def send_bad_requests(port: int, number: int, seed: int) -> Outcome:
    """Send requests that break the schema, and now and then a right one."""
    document, draw = get(port, "/openapi.json").body, random.Random(seed)
    counts, faults = Counter[str](), []
    for idx in range(number):
        bad = make_bad_request(document, draw)
        status = _send(port, bad)
        counts[str(status)] += 1
        if status not in bad.statuses:
            faults.append(f"{bad.fault}: {status} for {bad.body[:80]!r}")
        if idx % EVERY == 0 and (found := ask(port, RIGHT).status) != 200:
            faults.append(f"a right request got {found}")
    return Outcome(counts, faults)


def _send(port: int, bad: BadRequest) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request(bad.method, bad.path, bad.body, bad.headers)
        return connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        return 413  # the service closed before it had read a body that is too large
    finally:
        connection.close()


def send_slowly(port: int, clients: int) -> Outcome:
    """Open connections that send a byte now and then or nothing, while a right request is sent."""
    counts, faults = Counter[str](), []
    with ExitStack() as stack:
        slow = []
        for idx in range(clients):
            client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
            slow.append(stack.enter_context(client))
            client.sendall((HEAD + b"Content-Length: 100\r\n\r\n{")[: 20 + 11 * (idx % 10)])
        begun = time.monotonic()
        for _ in range(8):
            status = ask(port, RIGHT).status
            counts[f"right {status}"] += 1
            if status != 200:
                faults.append(f"a right request among slow clients got {status}")
            for client in slow:
                _trickle(client)
            time.sleep(0.25)
        for client in slow[: clients // 2]:
            client.close()
        for client in slow[clients // 2 :]:
            answer = _drain(client)
            counts[f"slow {answer[9:12].decode() or 'closed'}"] += 1
        if time.monotonic() - begun > SECONDS:
            faults.append("slow clients were kept for too long")
    return Outcome(counts, faults)


def _trickle(client: socket.socket) -> None:
    try:
        client.sendall(b" ")
    except OSError:
        return  # the service has closed it


def _drain(client: socket.socket) -> bytes:
    """Return the answer to a client that sends nothing more."""
    answer = b""
    try:
        while part := client.recv(1 << 16):
            answer += part
    except OSError:
        return answer
    return answer


def stop_under_load(port: int, stop: Callable[[], int], clients: int) -> Outcome:
    """Send SIGTERM while clients ask; return what they got."""
    counts, faults, is_over = Counter[str](), list[str](), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            try:
                reply = ask(port, RIGHT)
            except ConnectionError:
                counts["closed"] += 1
                return
            except (http.client.HTTPException, json.JSONDecodeError, OSError) as error:
                faults.append(f"a cut answer: {error!r}")
                return
            counts[str(reply.status)] += 1
            if reply.status not in (200, 503):
                faults.append(f"after SIGTERM: {reply.status}")

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    code = stop()
    is_over.set()
    for thread in threads:
        thread.join(SECONDS)
    if code != 0:
        faults.append(f"the service ended with {code}")
    if not counts["200"]:
        faults.append("no request was answered before SIGTERM")
    return Outcome(counts, faults)


def treat_badly(folder: Path, requests: int, clients: int, seed: int) -> dict[str, Outcome]:
    """Treat a service badly in each way."""
    bundle = write_bundles(folder)["sentence"]
    with running_process(f"sentence={bundle}", *LIMITS) as (process, port):

        def stop() -> int:
            process.send_signal(signal.SIGTERM)
            return process.wait(SECONDS)

        return {
            "bad requests": send_bad_requests(port, requests, seed),
            "slow clients": send_slowly(port, clients),
            "SIGTERM under load": stop_under_load(port, stop, clients),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = treat_badly(Path(folder), options.requests, options.clients, options.seed)
    for name, outcome in found.items():
        print(f"{name:20}", dict(sorted(outcome.counts.items())), *outcome.faults[:5], sep="\n  ")
    raise SystemExit(1 if any(outcome.faults for outcome in found.values()) else 0)


if __name__ == "__main__":
    main()
