"""A service that is treated badly answers right requests; the long form is a benchmark."""

from pathlib import Path

import pytest

from benchmarks.faults.hostile_clients import treat_badly

pytestmark = pytest.mark.slow


def test_a_service_survives_hostile_clients(tmp_path: Path) -> None:
    found = treat_badly(tmp_path, requests=40, clients=8, seed=5)
    assert {name: outcome.faults for name, outcome in found.items()} == {key: [] for key in found}
    assert found["slow clients"].counts["right 200"] > 0
    assert found["SIGTERM under load"].counts["200"] > 0
