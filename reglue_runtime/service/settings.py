"""What a service is told when it starts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How a service listens, batches, and what it refuses.

    Attributes:
        host: the address to listen on.
        port: its port; 0 takes a free one.
        max_batch: examples that one run of a graph takes at most; 1 switches batching off.
        max_wait_ms: milliseconds that an example waits at most for others to come.
        max_queue: examples of one bundle that may wait; more are answered with 429.
        max_body: bytes of a request; more are answered with 413.
        max_text: characters of one example; more are answered with 422.
        timeout: seconds in which a request has to arrive, and after that to be answered.
        threads: threads of one run of a graph.
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
