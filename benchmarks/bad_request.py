"""Requests to /predict that break its schema, made from that schema.

A right body is drawn from the OpenAPI document, and one thing is then done to it that the service
has to refuse; every way of breaking it has the statuses that may answer it.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What json.dumps takes."""
Schema: TypeAlias = dict[str, Any]
HUGE = 1 << 20
"""Bytes of a body that is too large; the service under test is told to take fewer."""
ODD_TEXTS = ["", " ", "\0", "\u2028", "\U0001f600" * 3, "<script>", "a" * 300, "\u0301", "'\""]


@dataclass(frozen=True)
class BadRequest:
    """A request, what is wrong with it, and the statuses that say so."""

    fault: str
    body: bytes
    statuses: tuple[int, ...] = (422,)
    path: str = "/predict"
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


def make_bad_request(document: Schema, rng: random.Random) -> BadRequest:
    """Return a request that the service has to refuse.

    Args:
        document: of /openapi.json.
        rng: what is drawn from.
    """
    schemas = document["components"]["schemas"]
    right = _draw(schemas["Request"], schemas, rng)
    return rng.choice(FAULTS)(right, rng)


def _draw(schema: Schema, schemas: Schema, rng: random.Random) -> Json:
    """Return something of a schema's form."""
    if "$ref" in schema:
        return _draw(schemas[schema["$ref"].rpartition("/")[2]], schemas, rng)
    if "anyOf" in schema:
        return _draw(rng.choice(schema["anyOf"]), schemas, rng)
    match schema["type"]:
        case "object" if "properties" in schema:
            keys = [
                key
                for key in schema["properties"]
                if key in schema.get("required", ()) or rng.random() < 0.5
            ]
            return {key: _draw(schema["properties"][key], schemas, rng) for key in keys}
        case "object":
            keys = rng.sample(["text", "text_a", "tokens", "features.pos", "odd", ""], 2)
            return {key: _draw(schema["additionalProperties"], schemas, rng) for key in keys}
        case "array":
            sizes = range(schema.get("minItems", 0), 4)
            return [_draw(schema["items"], schemas, rng) for _ in range(rng.choice(sizes))]
        case "string":
            return rng.choice([*ODD_TEXTS, "show me flights", "Boston"])
        case "number":
            return rng.choice([0, -1, 1.5, 1e300, 5e-324])
        case "null":
            return None
        case kind:
            raise AssertionError(kind)


def _pack(body: Json) -> bytes:
    return json.dumps(body).encode()


def _break_example(right: Json, rng: random.Random) -> BadRequest:
    odd: list[Json] = [None, True, 7, -1.5, {"text": None}, {"text": {}}, [[[]]], [1], [["a", 1]]]
    place = rng.randrange(len(right["examples"]))
    right["examples"][place] = rng.choice(odd)
    return BadRequest("an example of a wrong type", _pack(right))


def _break_examples(right: Json, rng: random.Random) -> BadRequest:
    right["examples"] = rng.choice([None, [], {}, "a text", 5, False, {"0": "a"}])
    return BadRequest("examples that are no list of some", _pack(right))


def _drop_examples(right: Json, rng: random.Random) -> BadRequest:
    del right["examples"]
    return BadRequest("no examples", _pack(right))


def _add_key(right: Json, rng: random.Random) -> BadRequest:
    right[rng.choice(["example", "Bundle", "text", "", "__proto__", "x" * 200])] = rng.choice(
        [None, 1, "a", [], {}]
    )
    return BadRequest("an unknown key", _pack(right))


def _break_bundle(right: Json, rng: random.Random) -> BadRequest:
    right["bundle"] = rng.choice([1, [], {}, True, 0.5])
    return BadRequest("a bundle that is no name", _pack(right))


def _name_none(right: Json, rng: random.Random) -> BadRequest:
    right["bundle"] = rng.choice(["no such", "../..", "%2e", *ODD_TEXTS])
    return BadRequest("an unknown bundle", _pack(right), (404,))


def _replace_body(right: Json, rng: random.Random) -> BadRequest:
    body = rng.choice([None, [], "a", 3, True, [right], [[right]]])
    return BadRequest("a body that is no object", _pack(body))


def _cut(right: Json, rng: random.Random) -> BadRequest:
    body = _pack(right)
    return BadRequest("a body cut short", body[: rng.randrange(len(body))])


def _garble(right: Json, rng: random.Random) -> BadRequest:
    body = rng.choice(
        [
            b"\xff\xfe" + _pack(right),
            b'{"examples": ["\xc3"]}',
            b'{"examples": ["\\ud800"]}',
            b'{"examples": ["\x01"]}',
            b'{"examples": [NaN]}',
            b'{"examples": [{"dense": [Infinity, 1e999]}]}',
            b"{'examples': ['a']}",
            b"[" * rng.choice([10, 1000, 100_000]),
            b'{"examples":' * 5000,
            b'{"examples": [' + b"9" * 5000 + b"]}",
            rng.randbytes(rng.randrange(200)),
        ]
    )
    return BadRequest("bytes that are no JSON", body)


def _lengthen(right: Json, rng: random.Random) -> BadRequest:
    right.pop("bundle", None)
    right["examples"] = ["word " * (HUGE // 10)]
    return BadRequest("too long a text", _pack(right), (413, 422))


def _enlarge(right: Json, rng: random.Random) -> BadRequest:
    return BadRequest("too large a body", _pack(right) + b" " * (2 * HUGE), (413,))


def _mistype(right: Json, rng: random.Random) -> BadRequest:
    kind = rng.choice(["text/plain", "", "application/xml", "application/json-seq", "\t;;"])
    return BadRequest("no JSON by its type", _pack(right), (415,), headers={"Content-Type": kind})


def _compress(right: Json, rng: random.Random) -> BadRequest:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return BadRequest("a compressed body", _pack(right), (415,), headers=headers)


def _misplace(right: Json, rng: random.Random) -> BadRequest:
    path = rng.choice(["/predict/x", "/nothing", "/..%2f", "//predict", "/page.html", "/%00"])
    return BadRequest("an unknown path", _pack(right), (404,), path=path)


def _misuse(right: Json, rng: random.Random) -> BadRequest:
    method = rng.choice(["PUT", "DELETE", "PATCH", "GET"])
    return BadRequest("a wrong method", _pack(right), (405,), method=method)


FAULTS: list[Callable[[Json, random.Random], BadRequest]] = [
    _break_example,
    _break_examples,
    _drop_examples,
    _add_key,
    _break_bundle,
    _name_none,
    _replace_body,
    _cut,
    _garble,
    _lengthen,
    _enlarge,
    _mistype,
    _compress,
    _misplace,
    _misuse,
]
