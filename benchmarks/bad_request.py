"""Requests to /predict that break its schema, made from that schema.

A right body is drawn from the OpenAPI document, and one fault is added that the service must
reject; every fault has the statuses that may answer it.
"""

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What json.dumps takes."""
Schema: TypeAlias = dict[str, Any]
HUGE = 1 << 20
"""Bytes of a body that is too large; the service under test must have a lower limit."""
ODD_TEXTS = ["", " ", "\0", "\u2028", "\U0001f600" * 3, "<script>", "a" * 300, "\u0301", "'\""]
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class BadRequest:
    """A request with a fault, and the statuses that may answer it."""

    fault: str
    body: bytes
    statuses: tuple[int, ...] = (422,)
    path: str = "/predict"
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=lambda: JSON)


def make_bad_request(document: Schema, rng: random.Random) -> BadRequest:
    """Return a random request that the service must reject, given its /openapi.json."""
    schemas = document["components"]["schemas"]
    right = _draw(schemas["Request"], schemas, rng)
    return rng.choice([_break_json, _break_content, _break_request])(right, rng)


def _draw(schema: Schema, schemas: Schema, rng: random.Random) -> Json:
    if "$ref" in schema:
        return _draw(schemas[schema["$ref"].rpartition("/")[2]], schemas, rng)
    if "anyOf" in schema:
        return _draw(rng.choice(schema["anyOf"]), schemas, rng)
    if "const" in schema:
        return schema["const"]
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
            low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
            numbers = [0, -1, 1.5, 1e300, 5e-324]
            return rng.choice([number for number in numbers if low <= number <= high])
        case "null":
            return None
        case kind:
            raise AssertionError(kind)


def _pack(body: Json) -> bytes:
    return json.dumps(body).encode()


def _break_json(right: Json, rng: random.Random) -> BadRequest:
    body = _pack(right)
    faults: list[Callable[[], bytes]] = [
        lambda: body[: rng.randrange(len(body))],
        lambda: b"\xff\xfe" + body,
        lambda: b'{"examples": ["\xc3"]}',
        lambda: b'{"examples": ["\\ud800"]}',
        lambda: b'{"examples": ["\x01"]}',
        lambda: b'{"examples": [NaN]}',
        lambda: b'{"examples": [{"dense": [Infinity, 1e999]}]}',
        lambda: b"{'examples': ['a']}",
        lambda: b"[" * rng.choice([10, 1000, 100_000]),
        lambda: b'{"examples":' * 5000,
        lambda: b'{"examples": [' + b"9" * 5000 + b"]}",
        lambda: rng.randbytes(rng.randrange(200)),
    ]
    return BadRequest("not JSON", rng.choice(faults)())


def _break_content(right: Json, rng: random.Random) -> BadRequest:
    """Return JSON that does not fit the schema."""
    example = [None, True, 7, -1.5, {"text": None}, {"text": {}}, [[[[]]]], [1], [["a", 1]]]
    changes: dict[str, tuple[str, list[Json]]] = {
        "a wrong example": ("examples", [[*right["examples"][1:], item] for item in example]),
        "wrong examples": ("examples", [None, [], {}, "a text", 5, False, {"0": "a"}]),
        "a wrong bundle": ("bundle", [1, [], {}, True, 0.5]),
        "an unknown bundle": ("bundle", ["no such", "../..", "%2e", *ODD_TEXTS]),
        "an unknown key": (
            rng.choice(["example", "Bundle", "text", "", "__proto__", "x" * 200]),
            [None, 1, "a", [], {}],
        ),
        "too long a text": ("examples", [["word " * (HUGE // 10)]]),
    }
    statuses = {"an unknown bundle": (404,), "too long a text": (413, 422)}
    fault = rng.choice(["no examples", "not an object", *changes])
    if fault == "no examples":
        return BadRequest(fault, _pack({"bundle": right.get("bundle", "a")}))
    if fault == "not an object":
        return BadRequest(fault, _pack(rng.choice([None, [], "a", 3, True, [right], [[right]]])))
    if fault == "too long a text":
        right.pop("bundle", None)
    key, values = changes[fault]
    body = right | {key: rng.choice(values)}
    return BadRequest(fault, _pack(body), statuses.get(fault, (422,)))


def _break_request(right: Json, rng: random.Random) -> BadRequest:
    """Return a fault outside the JSON of the body."""
    body = _pack(right)
    types = ["text/plain", "", "application/xml", "application/json-seq", "\t;;"]
    paths = ["/predict/x", "/nothing", "/..%2f", "//predict", "/page.html", "/%00"]
    methods = ["PUT", "DELETE", "PATCH", "GET"]
    kind = {"Content-Type": rng.choice(types)}
    return rng.choice(
        [
            BadRequest("too large a body", body + b" " * (2 * HUGE), (413,)),
            BadRequest("not JSON by its type", body, (415,), headers=kind),
            BadRequest("compressed", body, (415,), headers=JSON | {"Content-Encoding": "gzip"}),
            BadRequest("an unknown path", body, (404,), path=rng.choice(paths)),
            BadRequest("a wrong method", body, (405,), method=rng.choice(methods)),
        ]
    )
