"""Stages that are killed or have no space end with the same bytes; the long form is a benchmark."""

from pathlib import Path

import pytest

from benchmarks.faults.interrupted_stages import SHARES, try_stages

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("stage", ["preprocess", "teach"])
def test_a_disturbed_stage_ends_with_the_same_bytes(stage: str, tmp_path: Path) -> None:
    trials = list(try_stages(tmp_path, kills=1, seed=4, only=stage))
    assert len(trials) % (1 + len(SHARES)) == 0
    assert [trial for trial in trials if trial.fault] == []
