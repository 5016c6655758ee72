"""Inputs of a bundle's graph, padded to declared sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reglue_runtime import BundleError, load
from reglue_runtime.service.server import _read_sizes
from reglue_runtime.session import Arrays
from reglue_runtime.sizes import check_sizes, round_up
from tests.tiny import write_task, write_vectors
from tests.tiny_encoder import write_encoder
from tests.tiny_export import APART, JOINT, WINDOWS, WORDS, export, make_trained

SIZES = [3, 8, 20]
LONGEST = 16
"""The most pieces that the tiny encoder reads."""
TEXTS = ["the good film is 42", "x", "good " * 11, "the awful unseenlongword"]
PAIRS = [("good films", "the bad film"), ("x", "good films " * 9), ("a film", "a")]
CASES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "words": ("classification", WORDS, TEXTS),
    "characters": ("intent_slots", JOINT, TEXTS),
    "windows": ("tagging", WINDOWS, [text.split() for text in TEXTS]),
    "pairs": ("pair_regression", APART, PAIRS),
}


@pytest.mark.parametrize("name", CASES)
def test_every_open_axis_has_a_declared_size_and_predictions_stay(
    name: str, tmp_path: Path
) -> None:
    kind, graph, examples = CASES[name]
    is_encoder = name in ("windows", "pairs")
    init = write_encoder(tmp_path) if is_encoder else write_vectors(tmp_path)
    trained = make_trained(tmp_path, write_task(tmp_path, kind), init, graph)
    export(trained, tmp_path / "bundle", variant="float32")
    plain, padded = load(tmp_path / "bundle"), load(tmp_path / "bundle", sizes=SIZES)
    assert same(plain.predict(examples), padded.predict(examples))
    assert same(plain.predict(examples[:1]), padded.predict(examples[:1]))
    _, before = plain.featurize(examples)
    _, after = padded.featurize(examples)
    assert before.keys() == after.keys()
    for key, array in after.items():
        assert array.dtype == before[key].dtype
        has_forms = array.ndim == 3 and array.dtype == object
        sizes = array.shape[1:] if has_forms else array.shape
        declared = {*SIZES, LONGEST} if is_encoder else {*SIZES}
        assert [size for size in sizes if size not in declared and size % SIZES[-1]] == [], key
    assert list_sizes(after) != list_sizes(before)


def list_sizes(arrays: Arrays) -> set[tuple[int, ...]]:
    return {array.shape for array in arrays.values()}


def same(first: Any, second: Any) -> bool:  # Any: predictions
    """Return whether two predictions are equal but for rounding."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(
        np.isclose(first, second, atol=1e-5) if isinstance(first, float) else first == second
    )


def test_sizes_are_rounded_up() -> None:
    assert [round_up(count, SIZES) for count in (1, 3, 4, 20, 21, 41)] == [3, 3, 8, 20, 40, 60]
    assert [round_up(count, SIZES, 16) for count in (3, 9, 16)] == [3, 16, 16]
    assert check_sizes([8, 3, 8]) == (3, 8)
    with pytest.raises(BundleError, match="found 0, expected numbers of 1 or more"):
        check_sizes([0, 8])


def test_sizes_are_read_from_the_command_line() -> None:
    assert _read_sizes("1,8,32") == [1, 8, 32]
    assert _read_sizes("") == []
    with pytest.raises(BundleError, match="--pad-to: found '1;8'"):
        _read_sizes("1;8")
