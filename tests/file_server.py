"""A web server on loopback for tests: ranges, refusals and bodies that break off, by script."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class FileServer:
    """What the server holds and how it behaves.

    Attributes:
        files: path without the leading slash -> bytes.
        statuses: answers to give before the first proper one.
        breaks: lengths after which the next bodies break off.
        knows_ranges: whether a Range header is honoured.
        requests: path and Range header of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving() -> Iterator[FileServer]:
    """Run a server until the block ends."""
    state = FileServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requests.append((self.path[1:], wanted))
            if state.statuses:
                return self._answer(state.statuses.pop(0), b"")
            body = state.files.get(self.path[1:])
            if body is None:
                return self._answer(404, b"")
            if wanted and state.knows_ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                return self._answer_range(body, start)
            return self._answer(200, body)

        def _answer_range(self, body: bytes, start: int) -> None:
            if start >= len(body):
                return self._answer(416, b"", f"bytes */{len(body)}")
            span = f"bytes {start}-{len(body) - 1}/{len(body)}"
            return self._answer(206, body[start:], span)

        def _answer(self, status: int, body: bytes, span: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if span:
                self.send_header("Content-Range", span)
            self.end_headers()
            is_broken = bool(state.breaks) and bool(body)
            self.wfile.write(body[: state.breaks.pop(0)] if is_broken else body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
