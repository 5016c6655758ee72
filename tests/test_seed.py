"""The fixture `seed`: a test that fails can be run again with the seed that it shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SEED = "REGLUE_TEST_SEED"


def test_a_test_keeps_its_seed(seed: int, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("seed") == seed
    shown = [text for _, name, text in request.node._report_sections if name == "seed"]
    assert shown == [f"run it again with {SEED}={seed}"]


def test_a_given_seed_replaces_it(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(SEED, "7")
    assert request.getfixturevalue("seed") == 7


@pytest.mark.slow
def test_a_failure_shows_its_seed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "tests/test_one.py").write_text("def test_it(seed):\n    assert seed == 1\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    codes = []
    for value in ("5", "1"):
        done = subprocess.run(
            command, cwd=tmp_path, env=given | {SEED: value}, capture_output=True, text=True
        )
        codes.append(done.returncode)
        assert (f"{SEED}=5" in done.stdout) == (value == "5"), done.stdout
    assert codes == [1, 0]
