"""Curves for TensorBoard, read back by its own reader."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nlp_core.errors import ConfigError
from nlp_core.training import board
from nlp_core.training.board import check_board, show_events
from nlp_core.training.cell_run import train_seed
from nlp_core.training.control import RunControl
from nlp_core.training.history import list_values
from tests.tiny_training import make_cell, project

__all__ = ["project"]
Curves = dict[str, list[tuple[int, float]]]
EVENTS: list[dict[str, Any]] = [
    {"event": "train", "epoch": 1, "step": 3, "lr": 0.5, "loss": 2.0},
    {"event": "mixture", "epoch": 1, "steps": {"a": 3}},
    {"event": "validate", "epoch": 1.0, "step": 3, "split": "dev", "metrics": {"f1": 25.0}},
    {"event": "train", "epoch": 2, "step": 6, "lr": 0.25, "loss": 1.0},
]
needs_board = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="tensorboard is not installed"
)


def read_curves(folder: Path) -> Curves:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        name: [(item.step, item.value) for item in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"reglue\[tensorboard\]"):
        check_board()


@needs_board
def test_events_are_written_as_they_come_and_replaced_by_a_resumed_run(tmp_path: Path) -> None:
    events = EVENTS[:1]
    with show_events(tmp_path, events) as write:
        assert read_curves(tmp_path)["train/loss"] == [(3, 2.0)]
        events += EVENTS[1:3]
        write()
        assert read_curves(tmp_path)["validate/dev/f1"] == [(3, 25.0)]
    with show_events(tmp_path, events):
        events.append(EVENTS[3])
    assert read_curves(tmp_path) == {
        "train/loss": [(3, 2.0), (6, 1.0)],
        "train/lr": [(3, 0.5), (6, 0.25)],
        "validate/dev/f1": [(3, 25.0)],
    }


@needs_board
def test_a_training_shows_its_history(project: Path) -> None:
    control = RunControl(board=project / "board")
    folder = train_seed(
        make_cell(project, "classification", epochs=2), 1, project / "work", control=control
    )
    lines = (folder / "history.jsonl").read_text().splitlines()
    expected: Curves = {}
    for event in map(json.loads, lines):
        for name, value in list_values(event).items():
            expected.setdefault(name, []).append((event["step"], value))
    found = read_curves(project / "board/seed-1")
    assert {name.split("/")[0] for name in found} == {"train", "validate"}
    assert found.keys() == expected.keys()
    for name, points in found.items():
        assert [step for step, _ in points] == [step for step, _ in expected[name]]
        values = [value for _, value in points]
        assert values == pytest.approx([value for _, value in expected[name]], rel=1e-5)
