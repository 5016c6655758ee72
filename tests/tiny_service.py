"""Services of small models in a thread or a process, and a client, for their tests."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from benchmarks.bad_request import HUGE
from reglue_runtime import Bundle, load
from reglue_runtime.service.app import Service
from reglue_runtime.service.server import Server, build_config, listen
from reglue_runtime.service.settings import Settings
from tests.tiny import write_task, write_vectors
from tests.tiny_export import WORDS, export, make_trained

ROOT = Path(__file__).resolve().parent.parent
JSON = {"Content-Type": "application/json"}
SECONDS = 60.0
"""Seconds after which a test gives up; a busy machine needs some."""
HEADS = {
    "sentence": {"label": {"head": "classification", "inputs": ["whole"]}},
    "joint": {
        "intent": {"head": "classification", "inputs": ["whole"]},
        "slots": {"head": "crf_tagging", "inputs": ["lstm"]},
    },
}
KINDS = {"sentence": "classification", "joint": "intent_slots"}


class Reply(NamedTuple):
    """What a service answered."""

    status: int
    body: Any
    headers: dict[str, str]


class Running(NamedTuple):
    """A service in a thread, and where it listens."""

    service: Service
    port: int
    stop: Callable[[], None]


def write_bundles(root: Path) -> dict[str, Path]:
    """Write a bundle of labels and one of intents and slots, and return their folders."""
    folders = {}
    for name, heads in HEADS.items():
        own = root / name
        own.mkdir()
        trained = make_trained(
            own, write_task(own, KINDS[name]), write_vectors(own), {**WORDS, "heads": heads}
        )
        folders[name] = own / "bundle"
        export(trained, folders[name], variant="float32")
    return folders


@contextmanager
def running(bundles: Mapping[str, Bundle], **settings: Any) -> Iterator[Running]:
    """Serve bundles in a thread, on a free port, until the block ends."""
    chosen = Settings(port=0, **settings)
    listener = listen(chosen)
    started: list[tuple[Service, uvicorn.Server]] = []
    is_made = threading.Event()

    async def work() -> None:
        service = Service(bundles, chosen)
        server = Server(build_config(service), service)
        started.append((service, server))
        is_made.set()
        await server.serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    assert is_made.wait(SECONDS)
    service, server = started[0]
    try:
        yield Running(service, listener.getsockname()[1], lambda: server.handle_exit(15, None))
    finally:
        if not service.is_draining:
            server.handle_exit(15, None)
        thread.join(SECONDS)
        assert not thread.is_alive()


def ask(
    port: int,
    body: Any = None,
    *,
    path: str = "/predict",
    method: str = "POST",
    headers: Mapping[str, str] = JSON,
) -> Reply:
    """Send a request on a connection of its own.

    Args:
        port: of the service.
        body: bytes, an iterator of them that is sent in chunks, or what is sent as JSON.
        path: with a slash.
        method: of HTTP.
        headers: of the request.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    is_ready = body is None or isinstance(body, bytes | Iterator)
    sent = body if is_ready else json.dumps(body).encode()
    try:
        connection.request(method, path, sent, dict(headers))
        response = connection.getresponse()
        content = response.read()
        kind = response.getheader("content-type", "")
        found = json.loads(content) if "json" in kind else content.decode()
        shown = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, found, shown)
    finally:
        connection.close()


def get(port: int, path: str) -> Reply:
    """Ask for a path."""
    return ask(port, path=path, method="GET", headers={})


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


@contextmanager
def running_process(
    *arguments: str, folder: Path = ROOT
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `reglue serve` in a folder, on a free port, and yield the process and the port."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from nlp_core.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", *arguments, "--port", "0"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving "), line + process.stderr.read()
        yield process, int(line.rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_bundles(tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def bundles(folders: dict[str, Path]) -> dict[str, Bundle]:
    return {name: load(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def served(folders: dict[str, Path]) -> Iterator[Running]:
    """A service of both bundles that refuses early."""
    both = {name: load(folder) for name, folder in folders.items()}
    with running(both, max_body=HUGE, max_text=1000, max_queue=64, max_wait_ms=1) as found:
        yield found


@pytest.fixture(scope="module")
def document(served: Running) -> Any:
    return get(served.port, "/openapi.json").body
