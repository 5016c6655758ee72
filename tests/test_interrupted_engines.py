"""A killed engine ends with the same bytes; the long form is a benchmark."""

from pathlib import Path

import pytest

from benchmarks.faults.interrupted_engines import ROOT, try_engine


@pytest.mark.slow
def test_a_killed_engine_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (trial,) = try_engine(tmp_path, trials=1, kills=2, seed=3)
    assert not trial.fault, trial
