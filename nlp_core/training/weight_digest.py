"""Digests of a model's weights, so that a second run can name the first tensor that differs."""

import hashlib
from collections.abc import Mapping, Sequence

from torch import Tensor

WHOLE_DIGITS = 16
TENSOR_DIGITS = 4


def digest_weights(state: Mapping[str, Tensor]) -> str:
    """Return the digest of all tensors and a short one of each, in the order of their names.

    `<16 hex digits>-<4 hex digits for each tensor>`
    """
    each = [
        hashlib.sha256(state[name].detach().cpu().contiguous().numpy().tobytes()).hexdigest()
        for name in sorted(state)
    ]
    whole = hashlib.sha256("".join(each).encode()).hexdigest()[:WHOLE_DIGITS]
    return f"{whole}-{''.join(digest[:TENSOR_DIGITS] for digest in each)}"


def find_first_difference(expected: str, found: str, names: Sequence[str]) -> str | None:
    """Return the name of the first tensor that two digests differ in, or None if they are equal.

    Args:
        expected: of `digest_weights`.
        found: of `digest_weights`.
        names: of all tensors, in any order.
    """
    if expected == found:
        return None
    if len(expected) != len(found):
        return "another number of tensors"
    parts = (digests.partition("-")[2] for digests in (expected, found))
    pairs = zip(*(_split(part) for part in parts), strict=True)
    differing = (name for name, (one, two) in zip(sorted(names), pairs, strict=True) if one != two)
    return next(differing, "a tensor whose short digest is the same")


def _split(digests: str) -> list[str]:
    return [digests[at : at + TENSOR_DIGITS] for at in range(0, len(digests), TENSOR_DIGITS)]
