"""Guess whether a column holds numbers."""

import math
from collections.abc import Sequence
from typing import Any

from nlp_core.data.readers.lines import parse_number

ABSENT = {"nan", "na", "n/a", "null", "none"}
MOSTLY = 0.9
"""Least share of numbers in a column of numbers; no cell of the rest is another word."""


def drop_missing(values: Sequence[Any]) -> list[str]:  # Any: cells of JSON
    """Return the values as texts, without empty ones."""
    return [str(value) for value in values if value is not None and str(value).strip()]


def find_numbers(texts: Sequence[str]) -> list[float]:
    """Return the finite numbers of a column of numbers, or nothing if it is none.

    A few cells may be NaN, infinite or marked as absent: the reader of the file names their lines.
    """
    numbers = [parse_number(text) for text in texts]
    finite = [number for number in numbers if not math.isnan(number)]
    others = [text for text, number in zip(texts, numbers, strict=True) if math.isnan(number)]
    is_column = len(finite) >= MOSTLY * len(texts) and all(map(_is_absent, others))
    return finite if is_column else []


def is_numeric(text: str) -> bool:
    return not math.isnan(parse_number(text))


def describe_numbers(values: Sequence[Any]) -> tuple[str, str]:  # Any: cells of JSON
    """Return what a column of numbers holds, and a doubt if cells have none."""
    numbers = find_numbers(drop_missing(values))
    absent = len(values) - len(numbers)
    verb = "has" if absent == 1 else "have"
    doubt = f"{absent} of the first rows {verb} no number" if absent else ""
    return f"numbers from {min(numbers):g} to {max(numbers):g}", doubt


def _is_absent(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in ABSENT
    return "_" not in text
