import argparse
import io
import logging
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from nlp_core.errors import ConfigError, DataError
from stages import report
from stages._cli import configure_logging, run_stage


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def parser() -> argparse.ArgumentParser:
    """Return a stage's parser of one name."""
    built = argparse.ArgumentParser(prog="stage")
    built.add_argument("name")
    return built


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Set the command line."""
    monkeypatch.setattr(sys, "argv", ["stage", *arguments])


def test_stage_is_called_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    start(monkeypatch, "cola")
    seen: list[str] = []
    run_stage(lambda arguments: seen.append(arguments.name), parser())
    assert seen == ["cola"]


def test_user_error_is_one_paragraph_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: argparse.Namespace) -> None:
        raise DataError("sources/cola.yaml: no 'members'.\n  Add them.")

    start(monkeypatch, "cola")
    with pytest.raises(SystemExit) as stopped:
        run_stage(fail, parser())
    assert stopped.value.code == 2
    see = "See docs/command-line.md#train-on-your-own-data.\n"
    assert capsys.readouterr().err == f"error: sources/cola.yaml: no 'members'. Add them. {see}"


@pytest.mark.parametrize(("table", "readme"), [(None, False), ("wikiqa", True)])
def test_a_report_is_of_a_table_or_of_all(table: str | None, *, readme: bool) -> None:
    with pytest.raises(ConfigError, match="either a table or --readme"):
        report.main(argparse.Namespace(table=table, readme=readme, action="report"))


def test_interrupt_is_exit_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(_: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    start(monkeypatch, "cola")
    with pytest.raises(SystemExit) as stopped:
        run_stage(stop, parser())
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_our_own_mistake_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: argparse.Namespace) -> None:
        raise ZeroDivisionError

    start(monkeypatch, "cola")
    with pytest.raises(ZeroDivisionError):
        run_stage(fail, parser())


def test_missing_argument_is_exit_2_with_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start(monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        run_stage(lambda _: None, parser())
    assert stopped.value.code == 2
    assert "required: name" in capsys.readouterr().err


def test_log_lines_are_plain_where_no_terminal_is() -> None:
    stream = io.StringIO()
    configure_logging("INFO", stream)
    logging.getLogger("nlp_core.x").info("train step epoch=%d loss=%.2f", 1, 0.5)
    logging.getLogger("nlp_core.x").debug("hidden")
    line = stream.getvalue()
    assert line.endswith(" INFO train step epoch=1 loss=0.50\n")
    assert line.count("\n") == 1
    assert "\x1b" not in line


def test_log_lines_go_through_rich_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    configure_logging("INFO", stream)
    logging.getLogger("nlp_core.x").info("[b]finetune[/b] step")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert "INFO     [b]finetune[/b] step" in shown, "brackets are text, not markup"
    assert type(logging.getLogger().handlers[0]).__name__ == "RichHandler"


def test_process_writes_no_traceback_and_nothing_to_standard_output(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        textwrap.dedent("""
        import argparse
        from nlp_core.errors import ConfigError
        from stages._cli import run_stage
        def main(arguments):
            raise ConfigError("params.yaml: unknown key 'lr2'.")
        run_stage(main, argparse.ArgumentParser())
        """),
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: params.yaml: unknown key 'lr2'. See docs/params.md.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("nlp_core.training.cell_run", ["scipy", "sklearn", "seqeval", "pandas", "nltk"]),
        ("nlp_core.report.table", ["torch", "scipy.stats", "sklearn", "seqeval", "pandas"]),
    ],
)
def test_a_stage_starts_without_libraries_that_few_runs_need(
    module: str, unneeded: list[str]
) -> None:
    code = f"import sys, {module}; print(sorted(set({unneeded!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
