"""Pad a graph's inputs to declared sizes, so that hardware for fixed shapes sees few of them.

Examples, windows and distinct words are repeated, and what comes of them is dropped; tokens,
characters and pieces are padded.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from reglue_runtime.manifest import BundleError


class _Axes(NamedTuple):
    """The axes of an array that have no fixed size."""

    rows: int
    inner: int | None
    fill: Any  # Any: of the array's own type
    most: int | None = None
    """Largest size of the inner axis: the length of an encoder's windows."""


def check_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """Return sizes in rising order.

    Raises:
        BundleError: one of them is below 1.
    """
    found = tuple(sorted(set(sizes)))
    if found and found[0] < 1:
        raise BundleError(f"sizes: found {found[0]}, expected numbers of 1 or more.")
    return found


def round_up(count: int, sizes: Sequence[int], most: int | None = None) -> int:
    """Return the next size, at most `most`; above the largest, the next multiple of it."""
    found = next((size for size in sizes if size >= count), -(-count // sizes[-1]) * sizes[-1])
    return found if most is None else min(found, most)


def pad_inputs(
    arrays: Mapping[str, np.ndarray], inputs: Sequence[Mapping[str, Any]], sizes: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return the arrays with every open axis padded to one of the sizes.

    Args:
        inputs: those of the manifest.
    """
    found = dict(arrays)
    for note in inputs:
        places = f"{note['name']}.places"
        if places in found:  # they count pieces over all windows
            width = found[f"{note['name']}.ids"].shape[1]
            window, place = np.divmod(found[places], width)
            found[places] = window * round_up(width, sizes, note["max_length"]) + place
        for name, axes in _list_axes(note).items():
            if name in found:
                found[name] = _grow(found[name], axes, sizes)
    return found


def _list_axes(note: Mapping[str, Any]) -> dict[str, _Axes]:
    name = note["name"]
    match note["source"]:
        case "lengths":
            return {name: _Axes(0, None, 0)}
        case "words":
            return {name: _Axes(1, 2, "")}
        case "spellings":
            pieces = {item["name"]: _Axes(0, 1, 0) for item in note["pieces"]}
            return {name: _Axes(0, 1, 0), note["characters"]: _Axes(0, 1, "")} | pieces
        case "numbers":
            return {name: _Axes(0, 1 if note["width"] is None else None, 0)}
        case "gazetteer":
            return {name: _Axes(0, 1, 0)}
    return {
        f"{name}.ids": _Axes(0, 1, note["padding"], note["max_length"]),
        f"{name}.segments": _Axes(0, 1, 0, note["max_length"]),
        f"{name}.places": _Axes(0, 1, 0),
        f"{name}.lengths": _Axes(0, None, 0),
    }


def _grow(array: np.ndarray, axes: _Axes, sizes: Sequence[int]) -> np.ndarray:
    if axes.inner is not None:
        size = round_up(array.shape[axes.inner], sizes, axes.most)
        array = np.pad(array, _missing(array, axes.inner, size), constant_values=axes.fill)
    size = round_up(array.shape[axes.rows], sizes)
    return np.pad(array, _missing(array, axes.rows, size), mode="edge")


def _missing(array: np.ndarray, axis: int, size: int) -> list[tuple[int, int]]:
    found = [(0, 0)] * array.ndim
    found[axis] = 0, size - array.shape[axis]
    return found
