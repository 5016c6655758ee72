"""The HTTP service: its routes and its metrics."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reglue_runtime.bundle import Bundle
from reglue_runtime.example import ExampleError
from reglue_runtime.manifest import BundleError
from reglue_runtime.service import schema
from reglue_runtime.service.batching import Batcher, Predictions, QueueFullError
from reglue_runtime.service.reading import SHOWN, measure_examples, read_request
from reglue_runtime.service.schema import CLOSE, ProblemError, describe_service
from reglue_runtime.service.settings import Settings
from reglue_runtime.text import read_steps

VERSION = "0.1.0"
LATER = {"Retry-After": "1"}
PAGE = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts of requests and batches, in the text format of Prometheus."""

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


class Service:
    def __init__(self, bundles: Mapping[str, Bundle], settings: Settings) -> None:
        self.is_draining = False
        self.settings = settings
        self._metrics = Metrics()
        self._notes = [_describe(name, bundle) for name, bundle in bundles.items()]
        self._bundles = bundles
        self._batchers = {name: self._start(name, bundle) for name, bundle in bundles.items()}
        self._num_open = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self.app = Starlette(
            routes=[
                Route("/predict", self.predict, methods=["POST"]),
                Route("/bundles", self.list_bundles),
                Route("/health", self.show_health),
                Route("/metrics", self.show_metrics),
                Route("/openapi.json", self.show_schema),
                *(Route(f"/{name}", _build_file(name, kind)) for name, kind in PAGE.items()),
            ],
            exception_handlers={HTTPException: _refuse, Exception: _report},
        )
        # its answer would be no JSON, and name the host that the client claims
        self.app.router.redirect_slashes = False

    def _start(self, name: str, bundle: Bundle) -> Batcher:
        settings = self.settings
        # int8 has one scale for a batch, so examples would change the answers of others
        max_batch = 1 if bundle.manifest.variant == "int8" else settings.max_batch
        batcher = Batcher(
            partial(bundle.predict, batch_size=max_batch),
            max_batch=max_batch,
            max_wait=settings.max_wait_ms / 1000,
            max_queue=settings.max_queue,
            observe=partial(self._metrics.observe_batch, name),
        )
        self._metrics.watch_queue(name, lambda: batcher.num_waiting)
        return batcher

    async def drain(self) -> None:
        """Refuse new requests, answer the accepted ones, and end the threads."""
        self.is_draining = True
        await self._is_idle.wait()
        for batcher in self._batchers.values():
            await batcher.close()

    async def predict(self, http: HttpRequest) -> Response:
        started = time.perf_counter()
        name, status = "", 500
        self._count_open(+1)
        try:
            if self.is_draining:
                raise ProblemError(503, "the service is shutting down.", headers=LATER | CLOSE)
            request = await read_request(http, self.settings)
            name = self._find_bundle(request.bundle)
            async with _cancelled_when_left(http):
                answer = _encode(name, await self._ask(name, request))
            status = answer.status_code
        except ProblemError as problem:
            answer, status = problem.answer(), problem.status
        finally:
            self._count_open(-1)
            self._metrics.observe_request(name, status, time.perf_counter() - started)
        return answer

    def _count_open(self, change: int) -> None:
        self._num_open += change
        if self._num_open:
            self._is_idle.clear()
        else:
            self._is_idle.set()

    def _find_bundle(self, name: str | None) -> str:
        names = ", ".join(self._batchers)
        if name is None and len(self._batchers) == 1:
            return names
        if name is None:
            raise ProblemError(422, f"bundle: missing, expected one of {names}.", field="bundle")
        if name not in self._batchers:
            raise ProblemError(404, f"bundle: unknown, expected one of {names}.", field="bundle")
        return name

    async def _ask(self, name: str, request: schema.Request) -> Predictions:
        if request.abstain_below is None:
            return await self._predict(name, request)
        bundle = self._bundles[name]
        try:
            least = bundle.find_least(request.abstain_below)
        except BundleError as err:
            raise ProblemError(422, str(err), field="abstain_below") from None
        return bundle.abstain(await self._predict(name, request), least)

    async def _predict(self, name: str, request: schema.Request) -> Predictions:
        steps, _ = read_steps(self._bundles[name].manifest.tokenizer["name"])
        length = measure_examples(request.examples, self.settings, steps)
        try:
            future = self._batchers[name].submit(request.examples, length)
            async with asyncio.timeout(self.settings.timeout):
                return await future
        except QueueFullError:
            raise ProblemError(
                429, f"the queue is full ({self.settings.max_queue} examples).", headers=LATER
            ) from None
        except TimeoutError:
            raise ProblemError(
                503, f"no answer within {self.settings.timeout:g} s.", headers=LATER
            ) from None
        except ExampleError as err:
            raise ProblemError(422, str(err), field=f"examples[{err.place}]") from None

    async def list_bundles(self, http: HttpRequest) -> Response:
        return JSONResponse({"bundles": [note.model_dump() for note in self._notes]})

    async def show_health(self, http: HttpRequest) -> Response:
        """Answer GET /health; a service listens only after its bundles are loaded."""
        if self.is_draining:
            return JSONResponse({"status": "shutting down"}, 503)
        return JSONResponse({"status": "ready"})

    async def show_metrics(self, http: HttpRequest) -> Response:
        text, media_type = self._metrics.render(http.headers.get("accept", ""))
        return Response(text, media_type=media_type)

    async def show_schema(self, http: HttpRequest) -> Response:
        return JSONResponse(describe_service(VERSION))


@asynccontextmanager
async def _cancelled_when_left(http: HttpRequest) -> AsyncIterator[None]:
    """Give the request up if its client leaves, so that nothing waits for what nobody reads.

    Raises:
        ProblemError: the client left.
    """
    asking = asyncio.current_task()
    assert asking is not None

    async def watch() -> None:
        while (await http.receive())["type"] != "http.disconnect":
            pass
        asking.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not watching.done():  # the service itself gives it up
            raise
        asking.uncancel()
        raise ProblemError(400, "the client disconnected before the response.") from None
    finally:
        watching.cancel()


def _describe(name: str, bundle: Bundle) -> schema.BundleNote:
    manifest = bundle.manifest
    columns = {note["column"] for note in manifest.inputs} - {*manifest.texts}
    return schema.BundleNote(
        name=name,
        kind=manifest.kind,
        variant=manifest.variant,
        texts=manifest.texts,
        columns=sorted(name for name in columns if name and name.split("_")[0] != "tokens"),
        labels={note["target"]: list(note["labels"]) for note in manifest.heads},
        abstain_below=(manifest.calibration or {}).get("abstain_below"),
        out_of_scope=bundle.out_of_scope,
    )


def _encode(name: str, predictions: Predictions) -> Response:
    try:
        return JSONResponse({"bundle": name, "predictions": predictions})
    except ValueError:  # JSON has no infinity: huge numbers came in
        detail = "examples: their scores are not finite; check their columns of numbers."
        raise ProblemError(422, detail, field="examples") from None


def _build_file(name: str, kind: str) -> Callable[[HttpRequest], Awaitable[Response]]:
    content = (files(__package__) / "page" / (name or "page.html")).read_bytes()
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}

    async def show(http: HttpRequest) -> Response:
        return Response(content, headers=headers, media_type=kind)

    return show


async def _refuse(http: HttpRequest, err: Exception) -> Response:
    assert isinstance(err, HTTPException), err
    status = err.status_code
    found = "wrong method" if status == 405 else "unknown path"
    detail = f"{http.method} {http.url.path[:SHOWN]}: {found}; see /openapi.json."
    return ProblemError(status, detail, headers=err.headers).answer()


async def _report(http: HttpRequest, err: Exception) -> Response:
    return ProblemError(500, "internal error; see the log of the service.").answer()
