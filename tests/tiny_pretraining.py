"""A project to pretrain an encoder in, what its folder says, and what kills its run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nlp_core.files import digest_file
from nlp_core.training.encoder_plan import EncoderPlan
from nlp_core.training.history import read_history
from nlp_core.training.loop import Trainer
from nlp_core.training.pretraining import pretrain_encoder
from tests.tiny_corpus import make_plan, write_project
from tests.tiny_training import KilledError

FURTHER: dict[str, Any] = {
    "init": "data/processed/tiny_encoder",
    "tokenizer": None,
    "head_start": {"steps": 4, "lr": 0.01},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    return tmp_path


def write_start(project: Path) -> None:
    """Write an encoder without heads, as one that comes from elsewhere."""
    folder = pretrain_encoder(make_plan(project, steps=1))
    (folder / "lm_head.safetensors").unlink()
    shutil.copytree(folder, project / "data/processed/tiny_encoder")


def list_points(folder: Path) -> list[dict[str, Any]]:
    return [event for event in read_history(folder) if event["event"] == "validate"]


def read_note(folder: Path) -> dict[str, Any]:
    note: dict[str, Any] = json.loads((folder / "cell.json").read_text())
    return note


def read_metrics(folder: Path) -> dict[str, float]:
    """Return what was measured of the only seed."""
    return {name: value for name, (value,) in read_note(folder)["metrics"].items()}


def list_digests(folder: Path) -> dict[str, str]:
    return {path.name: digest_file(path) for path in sorted(folder.iterdir())}


def check_resume(plan: EncoderPlan, monkeypatch: pytest.MonkeyPatch, kills: list[int]) -> None:
    """Kill a run at some of all steps that it takes, and compare it with an undisturbed one."""
    whole = list_digests(pretrain_encoder(plan))
    shutil.rmtree("artifacts/work")
    original, taken, waiting = Trainer.step, 0, list(kills)

    def step(self: Trainer, *given: Any) -> None:
        nonlocal taken
        if waiting and taken == waiting[0]:
            waiting.pop(0)
            raise KilledError
        taken += 1
        original(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        for _ in kills:
            with pytest.raises(KilledError):
                pretrain_encoder(plan)
        assert list_digests(pretrain_encoder(plan)) == whole
