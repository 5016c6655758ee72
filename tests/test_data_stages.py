import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stages import preprocess
from stages._cli import run_stage

SOURCES = Path(__file__).parent.parent / "sources"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(SOURCES, tmp_path / "sources")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGLUE_MIRROR", raising=False)
    return tmp_path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*names: str) -> int:
        monkeypatch.setattr(sys, "argv", ["preprocess", *names])
        try:
            parser = argparse.ArgumentParser()
            parser.add_argument("names", nargs="+")
            run_stage(preprocess.main, parser)
        except SystemExit as exit_:
            return int(exit_.code or 0)
        return 0

    return run


@pytest.mark.parametrize("name", ["sample_answer", "sample_ner", "sample_sentence"])
def test_sample_tasks_go_through_the_stage(
    project: Path, call: Callable[..., int], name: str
) -> None:
    assert call(name) == 0
    assert (project / "data" / "processed" / name / "manifest.json").is_file()


def test_missing_source_tells_what_to_do(
    project: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("conll2003") == 2
    message = capsys.readouterr().err
    for part in ("conll2003.zip", "eng.testb", "data/local/conll2003/", "no public address"):
        assert part in message
    assert "Traceback" not in message


def test_unknown_name_stops_before_any_work(
    project: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("sample_ner", "sample_sentense") == 2
    assert "Did you mean 'sample_sentence'" in capsys.readouterr().err
    assert not (project / "data").exists()
