"""Requests that a service does not serve: wrong, too large, or cut off."""

import json
import random
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.bad_request import HUGE, make_bad_request
from reglue_runtime import Bundle
from reglue_runtime.service import schema
from reglue_runtime.service.reading import measure_examples
from reglue_runtime.service.settings import Settings
from tests.tiny_service import SECONDS, Running, ask, bundles, document, folders, running, served

__all__ = ["bundles", "document", "folders", "served"]


@pytest.mark.parametrize(
    "example",
    [
        [1] * 20_000,
        [[1] * 20_000],
        {"dense.x": ["a", *[1] * 20_000]},
        {f"key{number}": None for number in range(20_000)},
        {f"key{number}": "a" for number in range(20_000)},
    ],
)
def test_a_request_that_is_wrong_throughout_is_told_so_once(example: Any) -> None:
    for examples in ([example], [example] * 3, [5] * 20_000):
        with pytest.raises(ValidationError) as caught:
            schema.Request.model_validate_json(json.dumps({"examples": examples}))
        assert caught.value.error_count() < 10


def test_a_request_of_many_unknown_keys_is_told_so_once(served: Running) -> None:
    body = {"examples": ["a"], **{f"key{number}": 1 for number in range(20_000)}}
    with pytest.raises(ValidationError) as caught:
        schema.Request.model_validate_json(json.dumps(body))
    assert caught.value.error_count() == 1
    reply = ask(served.port, body)
    assert (reply.status, "expected an object" in reply.body["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("body", "status", "field", "text"),
    [
        (b'{"examples": ["a"]', 422, None, "no JSON"),
        (b"\xff", 422, None, "no JSON"),
        ([], 422, None, "expected an object"),
        ({"bundle": "joint"}, 422, "examples", "missing"),
        ({"bundle": "joint", "examples": []}, 422, "examples", "at least one"),
        ({"bundle": "joint", "examples": ["a", 5]}, 422, "examples[1]", "a list of tokens"),
        ({"bundle": "joint", "examples": [["a", ["b"]]]}, 422, "examples[0]", "example 1"),
        ({"bundle": "joint", "examples": ["a", {"x": "b"}]}, 422, "examples[1]", "example 2"),
        ({"bundle": "joint", "examples": [{"a": 1}]}, 422, "examples[0]", "at most 256 columns"),
        (
            {"bundle": "joint", "examples": [{"text": "a", "colour": "red"}]},
            *(422, "examples[0]", "found the column 'colour', expected only text"),
        ),
        ({"bundle": "joint", "example": ["a"], "examples": ["a"]}, 422, "example", "unknown key"),
        ({"bundle": 1, "examples": ["a"]}, 422, "bundle", "the name of a bundle"),
        ({"examples": ["a"]}, 422, "bundle", "one of sentence, joint"),
        ({"bundle": "jint", "examples": ["a"]}, 404, "bundle", "one of sentence, joint"),
        ({"bundle": "joint", "examples": ["a", "b" * 1001]}, 422, "examples[1]", "at most 1000"),
        ({"bundle": "joint", "examples": [[""] * 1001]}, 422, "examples[0]", "at most 1000"),
        ({"bundle": "joint", "examples": ["a"] * 65}, 422, "examples", "at most 64"),
    ],
)
def test_a_wrong_request_is_told_where_and_why(
    served: Running, body: Any, status: int, field: str | None, text: str
) -> None:
    reply = ask(served.port, body)
    assert reply.status == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.body.get("field") == field
    assert text in reply.body["detail"]


@pytest.mark.parametrize(("steps", "length"), [([], 3), (["nfkc"], 54), (["width"], 3)])
def test_characters_are_counted_after_normalisation_too(steps: list[str], length: int) -> None:
    settings = Settings(max_text=54)
    assert measure_examples([{"text": "\ufdfa" * 3}], settings, steps) == length
    with pytest.raises(schema.ProblemError, match="expected at most 54"):
        measure_examples(["\ufdfa" * 4], settings, ["nfkc"])


@pytest.mark.parametrize("path", ["/bundles/", "/predict/", "/nothing"])
def test_a_path_that_is_none_is_an_error_in_json(served: Running, path: str) -> None:
    reply = ask(served.port, path=path, method="GET", headers={"Host": "evil.example"})
    assert reply.status == 404
    assert "location" not in reply.headers
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "sent", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 1" + b"0" * 30 + b"\r\n\r\n"]
)
def test_what_is_no_http_is_an_error_in_json(served: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as client:
        client.sendall(sent)
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize(
    "example",
    [
        {"text": "book a table", "text_history": [["hi", "there"]]},
        {"sentences": [["a", "b"], ["c"]]},
        ["book a table", [["hi", "there"]]],
    ],
)
def test_lists_of_tokens_of_several_texts_fit_the_schema(example: Any) -> None:
    schema.Request.model_validate_json(json.dumps({"examples": [example]}))


def test_a_body_that_is_too_large_is_answered(served: Running) -> None:
    assert ask(served.port, b" " * (3 * HUGE)).status == 413
    assert ask(served.port, (b" " * HUGE for _ in range(3))).status == 413
    assert ask(served.port, {"bundle": "joint", "examples": ["a"]}).status == 200


def test_a_client_that_waits_for_leave_need_not_send_too_large_a_body(served: Running) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as client:
        client.sendall(head + b"Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


def test_a_request_that_does_not_arrive_is_given_up(bundles: dict[str, Bundle]) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with (
        running(bundles, timeout=0.1) as found,
        socket.create_connection(("127.0.0.1", found.port), timeout=SECONDS) as client,
    ):
        client.sendall(head + b"Content-Length: 10\r\n\r\n{")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"])
@pytest.mark.parametrize(
    ("start", "is_answered"),
    [(b"GET /health HTTP/1.1\r\nHost: a\r\n", True), (b"\r\n", False), (b"", False)],
)
def test_a_head_that_does_not_arrive_is_given_up(
    bundles: dict[str, Bundle], before: bytes, start: bytes, is_answered: bool
) -> None:
    with (
        running(bundles, timeout=0.2) as found,
        socket.create_connection(("127.0.0.1", found.port), timeout=SECONDS) as client,
    ):
        said = b""
        client.sendall(before)
        while before and not said.endswith(b'"ready"}'):
            said += client.recv(1 << 16)
        client.sendall(start)
        said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert said.startswith(b"HTTP/1.1 408 ") is said.endswith(b' 0.2 s."}') is is_answered
    assert is_answered or not said


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_no_bad_request_is_answered_with_5xx(served: Running, document: Any, seed: int) -> None:
    bad = make_bad_request(document, random.Random(seed))
    reply = ask(served.port, bad.body, path=bad.path, method=bad.method, headers=bad.headers)
    assert reply.status in bad.statuses, (bad.fault, bad.body[:100], reply)
