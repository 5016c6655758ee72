"""Count requests and batches, in the text format of Prometheus."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        draw = partial(Histogram, labelnames=["bundle"], registry=registry)
        self._requests = Counter(
            "reglue_requests",
            "Requests to /predict; bundle is empty if none was found.",
            ["bundle", "status"],
            registry=registry,
        )
        answering = "Seconds from the first byte of a request to its answer."
        self._seconds = draw("reglue_request_seconds", answering, buckets=SECONDS)
        self._examples = draw("reglue_batch_examples", "Examples of a batch.", buckets=EXAMPLES)
        predicting = "Seconds to predict a batch."
        self._batch_seconds = draw("reglue_batch_seconds", predicting, buckets=SECONDS)
        waiting = "Examples that wait to be predicted."
        self._queue = Gauge("reglue_queue_examples", waiting, ["bundle"], registry=registry)

    def watch_queue(self, bundle: str, count: Callable[[], int]) -> None:
        self._queue.labels(bundle).set_function(count)

    def observe_request(self, bundle: str, status: int, seconds: float) -> None:
        self._requests.labels(bundle, status).inc()
        self._seconds.labels(bundle).observe(seconds)

    def observe_batch(self, bundle: str, examples: int, seconds: float) -> None:
        self._examples.labels(bundle).observe(examples)
        self._batch_seconds.labels(bundle).observe(seconds)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its media type, in the format that a scraper accepts."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type
