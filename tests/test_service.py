"""The service answers as the bundle does, to many at once, and survives mistakes of ours."""

import asyncio
import json
import random
import re
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reglue_runtime import Bundle, BundleError, load
from reglue_runtime.bundle import AREA
from reglue_runtime.service.batching import Batcher, Job, choose_batch
from reglue_runtime.service.server import listen, load_bundles
from reglue_runtime.service.settings import Settings
from tests.tiny import BAD, GOOD, NEUTRAL
from tests.tiny_service import (
    SECONDS,
    Reply,
    Running,
    ask,
    bundles,
    document,
    folders,
    get,
    running,
    served,
    wait_until,
)

__all__ = ["bundles", "document", "folders", "served"]
EXACT = 1e-5
"""How far a score may be from that of the example by itself: sums of a batch have another order."""


class Gate:
    """A bundle's predictions that wait until they may go on.

    Args:
        bundle: whose `predict` is replaced.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.is_open = threading.Event()
        self.batches: list[int] = []
        self._predict = bundle.predict
        bundle.predict = self.predict  # type: ignore[method-assign]

    def predict(self, examples: Sequence[Any], **options: Any) -> list[dict[str, Any]]:
        self.batches.append(len(examples))
        assert self.is_open.wait(60)
        return self._predict(examples, **options)


@pytest.fixture
def gated(bundles: dict[str, Bundle]) -> Iterator[tuple[Running, Gate]]:
    """A service whose one bundle waits, with place for four examples in its queue."""
    gate = Gate(bundles["sentence"])
    with running({"sentence": bundles["sentence"]}, max_queue=4, max_wait_ms=0) as found:
        yield found, gate
        gate.is_open.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as found:
        yield found


def write_text(seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choices([*GOOD, *BAD, *NEUTRAL], k=rng.randint(1, 12)))


def occupy(pool: ThreadPoolExecutor, found: tuple[Running, Gate]) -> "Future[Reply]":
    """Ask for something that the bundle's thread is busy with until its gate opens."""
    future = pool.submit(ask, found[0].port, {"examples": ["a good film"]})
    wait_until(lambda: found[1].batches == [1])
    return future


def count_waiting(found: Running) -> float:
    metrics = get(found.port, "/metrics").body
    return float(re.findall(r'reglue_queue_examples\{bundle="sentence"\} (\S+)', metrics)[0])


def same(found: Any, expected: Any) -> bool:
    """Whether two predictions are the same but for the last bits of their scores."""
    if isinstance(expected, float):
        return found == pytest.approx(expected, abs=EXACT)
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(
            same(found[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize("name", ["sentence", "joint"])
def test_an_answer_is_that_of_the_bundle_and_of_the_schema(
    served: Running, document: Any, bundles: dict[str, Bundle], name: str
) -> None:
    text = "the Good film is 42 bad"
    examples = [text, text.split(), {"text": text}, {"tokens": text.split()}, "", "x"]
    reply = ask(served.port, {"bundle": name, "examples": examples})
    assert reply.status == 200
    assert reply.body["bundle"] == name
    assert same(reply.body["predictions"], bundles[name].predict(examples))
    reference = {"$ref": "#/components/schemas/Response", "components": document["components"]}
    jsonschema.validate(reply.body, reference)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**reply.body, "odd": 1}, reference)


def test_clients_at_once_get_each_their_own_answer(
    bundles: dict[str, Bundle], pool: ThreadPoolExecutor
) -> None:
    texts = [write_text(seed) for seed in range(96)]
    expected = [bundles["joint"].predict([text])[0] for text in texts]
    with running(bundles, max_batch=8, max_wait_ms=20) as found:
        replies = list(
            pool.map(lambda text: ask(found.port, {"bundle": "joint", "examples": [text]}), texts)
        )
        metrics = get(found.port, "/metrics").body
    for reply, own in zip(replies, expected, strict=True):
        assert same(reply.body["predictions"], [own])
    (batches,) = re.findall(r'reglue_batch_examples_count\{bundle="joint"\} (\S+)', metrics)
    assert float(batches) < len(texts) / 2
    assert 'reglue_batch_examples_sum{bundle="joint"} 96.0' in metrics
    assert 'reglue_requests_total{bundle="joint",status="200"} 96.0' in metrics
    assert 'reglue_request_seconds_count{bundle="joint"} 96.0' in metrics
    assert 'reglue_queue_examples{bundle="joint"} 0.0' in metrics


def test_a_wrong_example_fails_its_own_request_only(
    gated: tuple[Running, Gate], pool: ThreadPoolExecutor, bundles: dict[str, Bundle]
) -> None:
    found, gate = gated
    first = occupy(pool, gated)
    good = pool.submit(ask, found.port, {"examples": ["a bad film", "fine"]})
    wrong = pool.submit(ask, found.port, {"examples": ["fine", {"txt": "a"}]})
    wait_until(lambda: count_waiting(found) == 4)
    gate.is_open.set()
    assert first.result().status == 200
    assert good.result().status == 200
    assert len(good.result().body["predictions"]) == 2
    assert wrong.result().status == 422
    assert "example 2" in wrong.result().body["detail"]
    assert wrong.result().body["field"] == "examples[1]"
    assert gate.batches[:2] == [1, 4]


def test_a_full_queue_is_answered_with_429_and_then_serves_again(
    gated: tuple[Running, Gate], pool: ThreadPoolExecutor
) -> None:
    found, gate = gated
    futures = [occupy(pool, gated)]
    futures += [pool.submit(ask, found.port, {"examples": ["a", "b"]}) for _ in range(2)]
    wait_until(lambda: count_waiting(found) == 4)
    refused = ask(found.port, {"examples": ["one more"]})
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert get(found.port, "/health").status == 200
    gate.is_open.set()
    assert [future.result().status for future in futures] == [200] * 3
    assert ask(found.port, {"examples": ["one more"]}).status == 200


def test_what_was_taken_is_answered_and_what_comes_later_is_refused(
    gated: tuple[Running, Gate], pool: ThreadPoolExecutor
) -> None:
    found, gate = gated
    futures = [occupy(pool, gated), pool.submit(ask, found.port, {"examples": ["waits"]})]
    wait_until(lambda: count_waiting(found) == 1)
    found.stop()
    wait_until(lambda: found.service.is_draining)
    health = get(found.port, "/health")
    assert (health.status, health.body) == (503, {"status": "shutting down"})
    refused = ask(found.port, {"examples": ["late"]})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    gate.is_open.set()
    assert [future.result().status for future in futures] == [200, 200]


def test_a_request_that_is_not_answered_in_time_is_given_up(
    bundles: dict[str, Bundle], pool: ThreadPoolExecutor
) -> None:
    gate = Gate(bundles["sentence"])
    only = {"sentence": bundles["sentence"]}
    with running(only, timeout=0.3, max_wait_ms=0) as found:
        replies = [occupy(pool, (found, gate)), pool.submit(ask, found.port, {"examples": ["a"]})]
        assert [future.result().status for future in replies] == [503, 503]
        gate.is_open.set()
        wait_until(lambda: ask(found.port, {"examples": ["b"]}).status == 200)
    assert gate.batches[0] == 1
    assert sum(gate.batches) <= 3  # "a" was not predicted any more


def test_what_a_client_asked_that_left_is_not_predicted(
    gated: tuple[Running, Gate], pool: ThreadPoolExecutor
) -> None:
    found, gate = gated
    first = occupy(pool, gated)
    body = json.dumps({"examples": ["a", "b", "c", "d"]}).encode()
    head = "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", found.port), timeout=SECONDS) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: count_waiting(found) == 4)
    wait_until(lambda: count_waiting(found) == 0)
    gate.is_open.set()
    assert first.result().status == 200
    assert ask(found.port, {"examples": ["e"]}).status == 200
    assert gate.batches == [1, 1]


def test_a_mistake_of_ours_is_answered_and_survived(
    bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicError(BaseException):  # as that of the tokenizers' Rust code
        pass

    results: list[Any] = [
        ZeroDivisionError("ours"),
        PanicError("ours"),
        [{"score": float("inf")}],
        [{"score": 1.5}],
    ]

    def predict(examples: Sequence[Any], **options: Any) -> Any:
        result = results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(bundles["sentence"], "predict", predict)
    with running({"sentence": bundles["sentence"]}) as found:
        replies = [ask(found.port, {"examples": ["a"]}) for _ in range(4)]
    assert [reply.status for reply in replies] == [500, 500, 422, 200]
    assert "ours" not in json.dumps([reply.body for reply in replies])
    assert "finite" in replies[2].body["detail"]


def test_an_example_of_an_int8_bundle_is_a_batch_by_itself(
    bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles["sentence"]
    monkeypatch.setattr(bundle, "manifest", replace(bundle.manifest, variant="int8"))
    monkeypatch.setattr(bundle, "predict", bundle.predict)  # which a gate replaces for good
    gate = Gate(bundle)
    gate.is_open.set()
    with running({"sentence": bundle}, max_wait_ms=200) as found, ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(ask, found.port, {"examples": ["a"]}) for _ in range(3)]
        assert [call.result().status for call in calls] == [200] * 3
    assert gate.batches == [1] * 3


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_loop_ends_with_its_batcher_or_without_it(is_given_up: bool) -> None:
    is_open = threading.Event()
    ends: list[bool] = []

    def predict(examples: Sequence[Any], advance: object) -> list[dict[str, Any]]:
        assert is_open.wait(SECONDS)
        return [{}] * len(examples)

    async def work() -> None:
        batcher = Batcher(predict, max_batch=1, max_wait=0, max_queue=9, observe=lambda *_: None)
        future = batcher.submit(["a"], 1)
        closing = asyncio.create_task(batcher.close())
        await asyncio.wait([closing], timeout=0.05)
        ends.append(closing.done())
        if not is_given_up:
            is_open.set()
            await closing
            ends.append(future.done())

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join(10)
    is_stuck = thread.is_alive()
    is_open.set()
    thread.join(SECONDS)
    assert not is_stuck
    assert ends == ([False] if is_given_up else [False, True])


def test_the_bundles_are_listed(served: Running) -> None:
    (sentence, joint) = get(served.port, "/bundles").body["bundles"]
    assert sentence["kind"] == "classification"
    assert sentence["labels"] == {"label": ["0", "1"]}
    assert joint["labels"]["tags"] == ["B-Q", "E-Q", "I-Q", "O", "S-Q"]
    assert (joint["texts"], joint["columns"], joint["variant"]) == (["text"], [], "float32")


def test_the_page_asks_no_other_host(served: Running) -> None:
    for path in ("/", "/page.css", "/page.js"):
        reply = get(served.port, path)
        assert reply.status == 200
        assert "//" not in re.sub(r"(?m)^\s*//.*$", "", reply.body)
        assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_a_batch_is_the_oldest_request_and_those_nearest_to_it_in_length() -> None:
    def make(length: int, size: int = 1) -> Job:
        return Job(["a"] * size, length, 0.0, None)  # type: ignore[arg-type]

    jobs = [make(50), make(10), make(52), make(49, size=3), make(90)]
    assert choose_batch(jobs, 4) == [jobs[0], jobs[3]]
    assert choose_batch(jobs, 5) == [jobs[0], jobs[3], jobs[2]]
    assert choose_batch(jobs, 1) == [jobs[0]]
    assert choose_batch(jobs[3:], 2) == [jobs[3]]


def test_a_batch_has_fewer_of_long_requests_and_always_the_oldest() -> None:
    def make(length: int, size: int = 1) -> Job:
        return Job(["a"] * size, length, 0.0, None)  # type: ignore[arg-type]

    side = int(AREA**0.5)
    longest = [make(side), make(side), make(side // 2)]
    assert choose_batch(longest, 32) == longest[:1]
    assert choose_batch([make(3 * side), make(1)], 32)[1:] == []
    halves = [make(side // 2) for _ in range(8)]
    assert choose_batch(halves, 32) == halves[:4]
    # one that is longer makes all the others as long
    assert choose_batch([make(10, size=4), make(side), make(20)], 32)[1:] == [make(20)]
    ordinary = [make(side // 6) for _ in range(32)]
    assert choose_batch(ordinary, 32) == ordinary


def test_bundles_have_the_names_of_their_folders_or_given_ones(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "sst2" / "float32"
    shutil.copytree(folders["sentence"], folder)
    shutil.copytree(folder, folder.parent / "int8")
    assert list(load_bundles([str(folder), f"b={folder}"], 1)) == ["sst2", "b"]
    tried = tmp_path / "lr=0.1" / "float32"
    shutil.copytree(folder, tried)
    assert list(load_bundles([str(tried), f"c={tried}"], 1)) == ["lr=0.1", "c"]
    with pytest.raises(BundleError, match=r"a second bundle with the name 'sst2'.*sst2_int8="):
        load_bundles([str(folder), str(folder.parent / "int8")], 1)
    with pytest.raises(BundleError, match="holds no bundle"):
        load_bundles([str(tmp_path)], 1)
    with pytest.raises(BundleError, match="found no name before =, expected NAME=FOLDER"):
        load_bundles([f"={folder.name}"], 1)


def test_an_address_in_use_is_refused() -> None:
    with listen(Settings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BundleError, match=f"127.0.0.1:{port}: cannot listen there"):
            listen(Settings(port=port))


def test_words_that_are_numbers_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(folders["sentence"], folder)
    path = folder / "bundle.json"
    note = json.loads(path.read_text())
    for item in note["inputs"]:
        if item["source"] == "words":
            item["column"] = "features.pos"
    path.write_text(json.dumps(note))
    bundle = load(folder)
    assert bundle.predict([{"text": "a b", "features.pos": ["good", "bad"]}])
    with pytest.raises(BundleError, match=r"found \[1, 2\] in 'features.pos', expected 2 words"):
        bundle.predict([{"text": "a b", "features.pos": [1, 2]}])


def test_an_answer_does_not_wait_for_its_head_to_be_acknowledged() -> None:
    with (
        listen(Settings(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
