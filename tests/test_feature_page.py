"""docs/features.md: every row is there once, and names tests that exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "features.md").read_text("utf-8")
IDS = [*(f"A{idx}" for idx in range(1, 105)), *(f"B{idx}" for idx in range(1, 80))]
STATES = ("works", "in part", "no")
TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")


class Feature(NamedTuple):
    ids: list[str]
    state: str
    reason: str
    tests: list[tuple[str, str]]


def read_features() -> list[Feature]:
    found = []
    for line in TEXT.splitlines():
        if re.match(r"\| [AB]\d", line):
            ids, _, state, shown = (cell.strip() for cell in line.strip("|").split(" | "))
            state, _, reason = state.partition(": ")
            found.append(Feature(ids.split(", "), state, reason, TEST.findall(shown)))
    return found


FEATURES = read_features()


@cache
def list_tests(name: str) -> set[str]:
    path = ROOT / "tests" / name
    if not path.exists():
        return set()
    nodes = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_row_is_there_once() -> None:
    assert Counter(key for item in FEATURES for key in item.ids) == Counter(IDS)


def test_each_named_test_exists() -> None:
    named = {test for item in FEATURES for test in item.tests}
    assert [f"{file}::{name}" for file, name in named if name not in list_tests(file)] == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda item: "-".join(item.ids))
def test_a_row_names_a_test_or_says_why_not(feature: Feature) -> None:
    assert feature.state in STATES
    assert bool(feature.tests) == (feature.state != "no")
    assert bool(feature.reason) == (feature.state != "works")


def test_the_counts_are_those_of_the_rows() -> None:
    counts: Counter[str] = Counter()
    for item in FEATURES:
        counts[item.state] += len(item.ids)
    works, part, none = (counts[state] for state in STATES)
    stated = f"{works} of {len(IDS)} work, {part} work in part, and {none} do not."
    assert stated in TEXT.replace("\n", " ")
