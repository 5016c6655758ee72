"""The command `reglue-serve`: listen, answer and shut down gracefully.

Accepted requests are answered, new ones get an error.
"""

import argparse
import asyncio
import logging
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reglue_runtime.bundle import Bundle, load
from reglue_runtime.manifest import BundleError
from reglue_runtime.service.app import Service
from reglue_runtime.service.schema import CLOSE, ProblemError
from reglue_runtime.service.settings import Settings, add_options, read_options

log = logging.getLogger(__name__)

DESCRIPTION = "Serve bundles over HTTP: /predict, /health, /metrics, /openapi.json, and a page."
VARIANTS = ("float32", "int8")
SECONDS_TO_SEND = 5
"""Seconds for clients to receive their answers when the service ends."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="reglue-serve",
        description=DESCRIPTION,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except BundleError as err:
        sys.stderr.write(f"error: {err}\n")
        raise SystemExit(2) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    folders = "a folder that `reglue export` wrote, or NAME=FOLDER"
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help=folders)
    add_options(parser)


def run(options: argparse.Namespace) -> None:
    """Serve bundles, each FOLDER or NAME=FOLDER, until a signal comes.

    SIGTERM and SIGINT end the service when all accepted requests are answered; a second one ends it
    at once.

    Raises:
        BundleError: a folder is not a bundle, two have one name, or the address cannot be bound.
    """
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("uvicorn").setLevel("WARNING")
    settings = read_options(options)
    bundles = load_bundles(options.bundles, settings.threads, _read_sizes(settings.pad_to))
    with listen(settings) as listener:
        asyncio.run(_serve(bundles, settings, listener))


def _read_sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError as err:
        raise BundleError(
            f"--pad-to: found '{text}', expected whole numbers separated by commas, such as 1,8,32."
        ) from err


def load_bundles(
    given: Sequence[str], threads: int, sizes: Sequence[int] = ()
) -> dict[str, Bundle]:
    """Return the bundles by name; a folder named float32 or int8 gets the name of its parent.

    Args:
        given: each FOLDER or NAME=FOLDER; a name has no slash, so `./lr=0.1` is a folder.
    """
    found: dict[str, Bundle] = {}
    for item in given:
        name, mark, folder = item.partition("=")
        is_named = mark and "/" not in name
        if is_named and not name:
            raise BundleError(f"{item}: found no name before =, expected NAME=FOLDER or FOLDER.")
        path = Path(folder if is_named else item)
        if not is_named:
            full = path.resolve()
            name = full.parent.name if full.name in VARIANTS else full.name
        if name in found:
            raise BundleError(
                f"{path}: found a second bundle with the name '{name}'; rename it, such as "
                f"{name}_{path.name}={path}."
            )
        found[name] = load(path, num_threads=threads, sizes=sizes)
    return found


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens at the address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as err:
        raise BundleError(
            f"{settings.host}:{settings.port}: cannot listen there ({err.strerror}); choose "
            "another --host or --port."
        ) from err
    # asyncio does this only for sockets that name their protocol. Without it the body of an answer
    # waits 40 ms for the client to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def _serve(
    bundles: Mapping[str, Bundle], settings: Settings, listener: socket.socket
) -> None:
    service = Service(bundles, settings)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.info("serving %s at http://%s:%d", ", ".join(bundles), shown, port)
    await Server(build_config(service), service).serve(sockets=[listener])


def build_config(service: Service) -> uvicorn.Config:
    """Return uvicorn's settings; httptools halves the work of a request."""
    return uvicorn.Config(
        service.app,
        http=type("Timed", (Connection,), {"seconds": service.settings.timeout}),
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_SEND,
    )


class Connection(HttpToolsProtocol):
    """A connection that closes if the head of the next request is not complete in `seconds`.

    uvicorn has no such limit. The time counts from the start of the connection or from the last
    answer.
    """

    seconds: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # Any: uvicorn narrows what asyncio says
        super().connection_made(transport)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _wait_for_head(self) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(self.seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        last = self.cycle
        if last is not None and not last.response_complete:
            return  # a head arrived; the next one's time begins with its answer
        # a client that has sent nothing yet expects no answer
        if self.scope is not (None if last is None else last.scope):
            detail = f"the head of a request did not arrive within {self.seconds:g} s."
            self._answer(ProblemError(408, detail, headers=CLOSE), b"Request Timeout")
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        self._answer(ProblemError(400, msg.rstrip(".") + ".", headers=CLOSE), b"Bad Request")
        self.transport.close()

    def _answer(self, problem: ProblemError, reason: bytes) -> None:
        answer = problem.answer()
        head = b"".join(b"%s: %s\r\n" % pair for pair in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 %d %s\r\n" % (answer.status_code, reason) + head + b"\r\n")
        self.transport.write(bytes(answer.body))


class Server(uvicorn.Server):
    """A server that answers while it drains, so that a load balancer sees it end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; at the second signal at once."""
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._draining is not None:
            self.should_exit = self.force_exit = True
            return
        log.info("shutting down; a second signal does not wait")
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        await self._service.drain()
        self.should_exit = True
