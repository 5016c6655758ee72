"""Damaged files of users are read or refused in one paragraph; the long form is a benchmark."""

from pathlib import Path

import pytest

from benchmarks.faults.mutated_files import Case, list_cases, run_case

MUTATIONS = 25


@pytest.mark.parametrize("case", list_cases(), ids=lambda case: f"{case.kind}-{case.name}")
def test_damaged_file_never_gives_a_traceback(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    found = run_case(case, MUTATIONS, seed=2, folder=tmp_path)
    assert found.fault is None
    assert sum(found.counts.values()) == MUTATIONS
    assert found.counts["error"] > 0
