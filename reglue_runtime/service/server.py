"""Listen, and shut down gracefully: accepted requests are answered, new ones refused."""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from reglue_runtime.bundle import Bundle, load
from reglue_runtime.error import BundleError
from reglue_runtime.service.app import Service
from reglue_runtime.service.connection import build_connection
from reglue_runtime.service.settings import Settings

log = logging.getLogger(__name__)

VARIANTS = ("float32", "int8")
SECONDS_TO_SEND = 5
"""Seconds for clients to receive their answers when the service ends."""


def serve(given: Sequence[str], settings: Settings) -> None:
    """Serve bundles, each FOLDER or NAME=FOLDER, until a signal comes.

    SIGTERM and SIGINT end the service when all accepted requests are answered; a second one ends it
    at once.

    Raises:
        BundleError: a folder is no bundle, two have one name, or the address cannot be bound.
    """
    bundles = load_bundles(given, settings.threads)
    with listen(settings) as listener:
        asyncio.run(_serve(bundles, settings, listener))


def load_bundles(given: Sequence[str], threads: int) -> dict[str, Bundle]:
    """Return the bundles by name.

    A folder named float32 or int8 gets the name of its parent.
    """
    found: dict[str, Bundle] = {}
    for item in given:
        name, mark, folder = item.partition("=")
        path = Path(folder if mark else item)
        if not mark:
            full = path.resolve()
            name = full.parent.name if full.name in VARIANTS else full.name
        if name in found:
            raise BundleError(
                f"{path}: found a second bundle with the name '{name}'; rename it, such as "
                f"{name}_{path.name}={path}."
            )
        found[name] = load(path, num_threads=threads)
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
        http=build_connection(service.settings.timeout),
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_SEND,
    )


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
