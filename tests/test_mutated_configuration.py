"""Damaged configuration is read or an error of one paragraph; the long form is a benchmark."""

from contextlib import chdir
from pathlib import Path

import pytest

from benchmarks.faults.mutated_configuration import list_cases, run_case
from benchmarks.faults.small_project import write_small_project

MUTATIONS = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("configuration") / "project"
    write_small_project(root)
    return root


@pytest.mark.parametrize(
    "idx", range(len(list_cases())), ids=lambda idx: list_cases()[idx].path.stem
)
def test_damaged_configuration_never_gives_a_traceback(root: Path, idx: int) -> None:
    with chdir(root):
        found = run_case(list_cases()[idx], MUTATIONS, seed=2)
    assert found.fault is None
    assert sum(found.counts.values()) == MUTATIONS
    assert found.counts["error"] > 0
