"""Connections that time out before a request begins, which uvicorn lacks."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reglue_runtime.service.problem import CLOSE, ProblemError


class Connection(HttpToolsProtocol):
    """A connection that closes if the head of the next request is not complete in `seconds`.

    The time counts from the start of the connection or from the answer before.
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
            self.transport.write(_describe_delay(self.seconds))
        self.transport.close()


def build_connection(seconds: float) -> type[Connection]:
    return type("Connection", (Connection,), {"seconds": seconds})


def _describe_delay(seconds: float) -> bytes:
    """Return an answer 408 as bytes."""
    detail = f"the head of a request did not arrive within {seconds:g} s."
    answer = ProblemError(408, detail, headers=CLOSE).answer()
    head = b"".join(b"%s: %s\r\n" % pair for pair in answer.raw_headers)
    return b"HTTP/1.1 408 Request Timeout\r\n" + head + b"\r\n" + bytes(answer.body)
