"""The history of a training, read back."""

from pathlib import Path

import pytest

from nlp_core.errors import DataError
from nlp_core.training.history import list_values, read_history


def test_each_line_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text('{"event": "train"}\n{"event": "measure"}\n')
    assert [event["event"] for event in read_history(tmp_path)] == ["train", "measure"]


def test_a_missing_history_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"history\.jsonl: no such file; train the cell again"):
        read_history(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]\n", b'{"step": 3}\n'])
def test_a_damaged_history_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"history\.jsonl: the file is damaged"):
        read_history(tmp_path)


def test_values_have_the_names_of_their_curves() -> None:
    measured = {"event": "validate", "step": 3, "split": "dev", "metrics": {"f1": 25.0}}
    assert list_values({"event": "train", "lr": 0.5, "loss": 2.0}) == {
        "train/loss": 2.0,
        "train/lr": 0.5,
    }
    assert list_values({"event": "mixture", "steps": {"a": 3}}) == {}
    assert list_values(measured) == {"validate/dev/f1": 25.0}
    assert list_values({**measured, "task": "rte"}) == {"validate/rte/dev/f1": 25.0}
