import io
from types import SimpleNamespace
from typing import cast

import pytest
from rich.progress import Task

from nlp_core.progress import SETTING, has_progress, hide_progress, show_progress
from nlp_core.progress_drawing import Rate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; not in a fixture, after which pytest sets it again."""
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv(SETTING, raising=False)
    return found


def test_a_terminal_shows_title_count_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = open_terminal(monkeypatch)
    with show_progress("later[1].tsv", 40) as bar:
        bar.reach(10)
        bar.advance(2.5)
        assert bar.drawing is not None
        bar.drawing.refresh()
    assert "later[1].tsv" in terminal.getvalue()
    assert "12/40" in terminal.getvalue()
    assert "-:--:--" in terminal.getvalue()  # no time left after a single moment
    assert capsys.readouterr().out == ""


def test_bytes_have_units(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with show_progress("archive", 4_000_000, is_bytes=True) as bar:
        bar.reach(1_000_000)
        assert bar.drawing is not None
        bar.drawing.refresh()
    assert "1.0/4.0 MB" in terminal.getvalue()


def test_hidden_bars_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with hide_progress():
        assert not has_progress()
        with show_progress("later.tsv", 40) as bar:
            bar.reach(10)
    with show_progress("second process", 40, shown=False) as bar:
        bar.reach(10)
    assert terminal.getvalue() == ""
    assert has_progress()


def test_a_hidden_bar_stays_hidden_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    open_terminal(monkeypatch)
    monkeypatch.setenv(SETTING, "0")
    with hide_progress():
        pass
    assert not has_progress()


def test_a_file_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("later.tsv", 40) as bar:
        bar.reach(40)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("speed", "expected"), [(None, ""), (0.26, "0.3/s"), (12.5, "12/s"), (43210.0, "43,210/s")]
)
def test_a_rate_has_two_digits_at_least(speed: float | None, expected: str) -> None:
    task = cast(Task, SimpleNamespace(finished_speed=None, speed=speed))
    assert Rate().render(task).plain == expected
