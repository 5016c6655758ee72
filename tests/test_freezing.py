"""Patterns that keep weights out of training, and the limits of a run that change no result."""

import argparse
import time
from pathlib import Path

import pytest

from nlp_core.errors import ConfigError, TimeLimitError, UsageError
from nlp_core.files import digest_file
from nlp_core.training.cell_run import train_cell, train_seed
from nlp_core.training.control import (
    PROFILE,
    RunControl,
    add_control,
    profile_steps,
    read_control,
)
from nlp_core.training.optimizer import freeze_weights
from nlp_core.training.run import prepare_tasks
from tests.tiny_training import make_cell, project

__all__ = ["project"]


def test_patterns_freeze_layers_and_parts_of_them(project: Path) -> None:
    model, *_ = prepare_tasks(make_cell(project, "classification"))
    freeze_weights(model, ["lstm.*hh*", "heads.out"])
    frozen = {name for name, item in model.named_parameters() if not item.requires_grad}
    assert all("hh" in name or name.startswith("heads.out.") for name in frozen)
    assert any("hh" in name for name in frozen)
    assert any(name.startswith("heads.out.") for name in frozen)
    with pytest.raises(ConfigError, match=r"found 'lstn', which names no weight .* 'lstm'"):
        freeze_weights(model, ["lstn"])
    with pytest.raises(ConfigError, match="leaves no weight to train"):
        freeze_weights(model, ["*"])


class Clock:
    """Stands for `time.monotonic`: each look at it is a second later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"ema_decay": None, "swa": {"start": 0.3, "every": 2, "lr": 0.005}},
        {
            "ema_decay": None,
            "optimizer": {"name": "adamw_schedule_free", "lr": 0.01},
            "schedule": {"name": "warmup_constant", "warmup": 0.1},
        },
        {
            "optimizer": {"name": "radam", "lr": 0.01},
            "schedule": {"name": "plateau", "factor": 0.5, "patience": 0},
            "batch_tokens": 60,
            "batch_growth": {"name": "linear", "last": 16, "epochs": 2},
            "frozen": ["word"],
        },
    ],
    ids=["plain", "swa", "schedule_free", "plateau"],
)
def test_a_run_stopped_by_its_time_limit_ends_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch, recipe: dict[str, object]
) -> None:
    cell = make_cell(project, "classification", **recipe)
    whole = train_seed(cell, 1, project / "whole")
    monkeypatch.setattr(time, "monotonic", Clock())
    stops = 0
    while True:
        try:
            limit = RunControl(deadline=time.monotonic() + 5)
            parts = train_seed(cell, 1, project / "parts", control=limit)
            break
        except TimeLimitError:
            stops += 1
    assert stops >= 2
    for name in ("model.safetensors", "history.jsonl"):
        assert digest_file(parts / name) == digest_file(whole / name), name


def test_the_time_limit_ends_a_command_with_code_75(project: Path) -> None:
    cell = make_cell(project, "classification")
    with pytest.raises(TimeLimitError, match="the same command resumes it") as found:
        train_cell(cell, RunControl(deadline=time.monotonic()))
    assert (found.value.exit_code, found.value.label) == (75, "stopped")
    assert not cell.folder.exists()


def test_options_are_read_and_checked() -> None:
    parser = argparse.ArgumentParser()
    add_control(parser)
    assert read_control(parser.parse_args([])) == RunControl()
    control = read_control(parser.parse_args(["--time-limit", "2", "--profile", "p"]))
    assert control.profile == Path("p")
    assert control.deadline is not None
    assert 100 < control.deadline - time.monotonic() <= 120
    with pytest.raises(UsageError, match="--time-limit: found -1, expected minutes above 0"):
        read_control(parser.parse_args(["--time-limit", "-1"]))


@pytest.mark.parametrize("option", ["--profile", "--tensorboard"])
def test_a_file_in_place_of_a_folder_is_an_error_before_the_training(
    option: str, tmp_path: Path
) -> None:
    parser = argparse.ArgumentParser()
    add_control(parser)
    (tmp_path / "a.txt").touch()
    for name in ("a.txt", "a.txt/curves"):
        with pytest.raises(UsageError, match=rf"{option}: found the file '.*a\.txt', expected"):
            read_control(parser.parse_args([option, str(tmp_path / name)]))


def test_a_run_too_short_for_a_profile_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with profile_steps(tmp_path / "profile") as after_step:
        after_step()
    assert "no profile, since it starts after 5 steps" in caplog.text
    assert not (tmp_path / "profile").exists()


@pytest.mark.slow
def test_a_profile_names_the_parts_of_a_step(project: Path) -> None:
    cell = make_cell(project, "classification", epochs=6)
    train_seed(cell, 1, project / "work", control=RunControl(profile=project / "profile"))
    text = (project / "profile" / PROFILE).read_text()
    assert all(f"\n{part}" in text for part in ("read", "gradients", "exchange", "update"))
    assert "aten::" in text
