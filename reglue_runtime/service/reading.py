"""From the bytes of a request to its examples, or to the reason of a refusal."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from reglue_runtime.example import Given
from reglue_runtime.service import schema
from reglue_runtime.service.schema import CLOSE, JSON, ProblemError
from reglue_runtime.service.settings import Settings
from reglue_runtime.text import normalize

DRAIN = 16
"""Up to this multiple of the allowed size is read and discarded, so that a client that writes its
whole request before it reads gets an answer."""
SHOWN = 60


async def read_request(http: HttpRequest, settings: Settings) -> schema.Request:
    """Return a parsed request.

    Raises:
        ProblemError: it is not JSON (415, 422), too large (413), too slow (408) or does not
            match the schema (422).
    """
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON or "content-encoding" in http.headers:
        raise ProblemError(
            415,
            f"found content of type {kind[:SHOWN]!r}, expected JSON, not compressed: send it with "
            "'Content-Type: application/json'.",
            headers=CLOSE,
        )
    try:
        async with asyncio.timeout(settings.timeout):
            body = await _read_body(http, settings.max_body)
    except TimeoutError:
        raise ProblemError(
            408, f"the request did not arrive within {settings.timeout:g} s.", headers=CLOSE
        ) from None
    except ClientDisconnect:
        raise ProblemError(400, "the client disconnected during its request.") from None
    try:
        return schema.Request.model_validate_json(body)
    except ValidationError as err:
        raise _explain(err) from None


async def _read_body(http: HttpRequest, limit: int) -> bytes:
    found = ProblemError(
        413, f"found more than {limit} bytes; send the examples in several requests.", headers=CLOSE
    )
    size = http.headers.get("content-length", "")
    if size.isdecimal() and int(size) > limit and "expect" in http.headers:
        raise found  # this client waits for permission to send
    chunks: list[bytes] = []
    total = 0
    async for chunk in http.stream():
        total += len(chunk)
        if total <= limit:
            chunks.append(chunk)
        elif total > limit * DRAIN:
            break
    if total > limit:
        raise found
    return b"".join(chunks)


def _explain(err: ValidationError) -> ProblemError:
    """Reword the first error of pydantic."""
    first: Mapping[str, Any] = err.errors(include_url=False)[0]  # Any: what the client sent
    place = first["loc"]
    if first["type"] == "json_invalid":
        return ProblemError(422, f"found no JSON: {first['ctx']['error']}.")
    if not place:
        return ProblemError(
            422, f"found {_show(first['input'])}, expected an object with 'examples'."
        )
    field = str(place[0])[:SHOWN]
    if field == "bundle":
        expected = f"found {_show(first['input'])}, expected the name of a bundle"
    elif field == "abstain_below":
        expected = f'found {_show(first["input"])}, expected a number from 0 to 1, or "auto"'
    elif first["type"] == "extra_forbidden":
        expected = "unknown key, expected 'examples', 'bundle' and 'abstain_below'"
    elif first["type"] == "missing":
        expected = "missing, expected a list of examples"
    elif len(place) == 1:
        expected = f"found {_show(first['input'])}, expected a list of at least one example"
    else:
        field = f"{field}[{place[1]}]"
        expected = f"expected {schema.EXAMPLE_FORMS}"
    return ProblemError(422, f"{field}: {expected}.", field=field)


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."


def measure_examples(examples: Sequence[Given], settings: Settings, steps: Sequence[str]) -> int:
    """Return the characters of the longest example, before or after normalisation.

    Args:
        steps: those of the bundle's tokenizer; one character may become 18.

    Raises:
        ProblemError: it is longer, or there are more of them, than allowed (422).
    """
    if len(examples) > settings.max_queue:
        raise ProblemError(
            422,
            f"examples: found {len(examples)}, expected at most {settings.max_queue}; send them in "
            "several requests.",
            field="examples",
        )
    lengths = [_measure(example, steps) for example in examples]
    longest = max(lengths)
    if longest > settings.max_text:
        field = f"examples[{lengths.index(longest)}]"
        raise ProblemError(
            422,
            f"{field}: found {longest} characters, expected at most {settings.max_text}; send a "
            "shorter text.",
            field=field,
        )
    return longest


def _measure(value: object, steps: Sequence[str]) -> int:
    """Return the characters of an example; each item of a list counts one more."""
    if isinstance(value, str):
        return max(len(value), len(normalize(value, steps)))
    if isinstance(value, Mapping):
        return sum(_measure(item, steps) for item in value.values())
    return sum(1 + _measure(item, steps) for item in value) if isinstance(value, list) else 0
