"""Standard streams that are closed or full."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from nlp_core.cli import main
from tests.user_commands import fail, trained

__all__ = ["trained"]

REGLUE = f"{sys.executable} -c 'from nlp_core.cli import main; main()'"


def run_shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_reads_or_writes_nothing(
    trained: Path, place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, name, None)
    model = str(trained / "out")
    main(["predict", model, "--data", str(trained / "dev.tsv"), "-o", "p.tsv"])
    assert (place / "p.tsv").is_file()
    if name == "stdin":
        main(["predict", model])
    getattr(sys, name).close()


@pytest.mark.parametrize(
    ("streams", "shown"),
    [("<&- >&-", "error: reglue: unknown"), ("2>&-", ""), ("2>/dev/full", "")],
)
def test_a_mistake_keeps_its_exit_code_without_a_stream(streams: str, shown: str) -> None:
    done = run_shell(f"{REGLUE} soup {streams}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(shown)


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_full_output_is_named(
    trained: Path,
    is_buffered: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    buffering = -1 if is_buffered else 0
    with io.TextIOWrapper(open("/dev/full", "wb", buffering)) as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stdin", io.StringIO("soup\n"))
        message = fail(capsys, "predict", str(trained / "out"))
    assert "error: standard output: No space left on device. Make space" in message
