"""The settings of a service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How a service listens and batches, and its limits.

    Attributes:
        port: 0 takes a free one.
        max_batch: examples per run of a graph at most; 1 switches batching off.
        max_wait_ms: milliseconds that an example waits at most for others.
        max_queue: examples of one bundle that may wait; more are answered with 429.
        max_body: bytes of a request; more are answered with 413.
        max_text: characters of one example; more are answered with 422.
        timeout: seconds for a request to arrive, and then to be answered.
        threads: of one run of a graph.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_batch: int = 32
    max_wait_ms: float = 2.0
    max_queue: int = 1024
    max_body: int = 1 << 20
    max_text: int = 10_000
    timeout: float = 30.0
    threads: int = 1
