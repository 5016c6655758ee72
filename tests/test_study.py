"""The trials of a search: repeated, resumed after a kill, pruned, failed, and drawn."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.cli.search import work_together
from nlp_core.config.space import Outcome, SearchObjective, SpaceConfig
from nlp_core.errors import ConfigError, TrainingError, UsageError
from nlp_core.report.search import draw_search
from nlp_core.training.loop import Trainer
from nlp_core.training.run import Run
from nlp_core.training.searched import search_cell
from nlp_core.training.seed_run import find_objective, train_trial
from nlp_core.training.study import Search
from nlp_core.training.task_run import TaskRun
from nlp_core.training.work import locked
from tests.tiny_training import KilledError, make_cell, make_params, project
from tests.user_commands import fail
from tests.user_files import SMALL, write_tsv

__all__ = ["project"]
LR, WIDTH = "training.optimizer.lr", "layers.lstm.hidden_dim"
SPACE: dict[str, Any] = {
    LR: {"low": 0.001, "high": 0.1, "scale": "log"},
    WIDTH: {"choices": [2, 4, 6]},
}


TRAIN: dict[int, Callable[..., float]] = {0: train_trial}
"""What trains a trial; tests replace it."""


def make_search(root: Path, output: str, seed: int = 1, **recipe: object) -> Search:
    cell = make_cell(root, "classification", **{"epochs": 2, **recipe})
    space = SpaceConfig.model_validate({"values": SPACE})
    searched = search_cell("tiny", make_params("classification", cell.recipe), 1)

    def train(values: dict[str, Any], folder: Path, watch: Callable[[int, float], None]) -> float:
        run = searched.build(searched.change(values))
        return TRAIN[0](run, 1, folder / "checkpoint.safetensors", watch)

    defaults = searched.find_defaults(space)
    return Search(train, space, find_objective(cell), seed, root / output, defaults)


def list_outcomes(search: Search) -> list[Outcome]:
    return search.list_outcomes(search.open())


def score_by_values(run: Run, seed: int, checkpoint: Path, watch: Callable[..., None]) -> float:
    """Stand for a training whose score is the larger, the nearer the learning rate is to 0.01."""
    score = 100 - 1000 * abs(run.recipe.optimizer.lr - 0.01)
    watch(1, score)
    return score


@pytest.mark.slow
def test_a_search_repeats_and_its_seed_matters(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRAIN, 0, score_by_values)
    found = []
    for output, seed in (("a", 1), ("b", 1), ("c", 2)):
        search = make_search(project, output, seed)
        search.work(8)
        found.append(list_outcomes(search))
        assert len(found[-1]) == 8
    assert found[0] == found[1] != found[2]
    default = found[0][0]
    assert default.values == {LR: 0.01, WIDTH: 6}
    assert search.find_winner(found[0]) == default
    assert {item.state for item in found[0]} == {"finished", "pruned"}


@pytest.mark.slow
def test_a_killed_search_loses_no_trial_and_ends_as_an_undisturbed_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_search(project, "whole")
    whole.work(3)

    def kill(run: Run, seed: int, checkpoint: Path, watch: Callable[[int, float], None]) -> float:
        def watch_and_kill(number: int, score: float) -> None:
            watch(number, score)
            if number == 2 and "1" in checkpoint.parts:
                raise KilledError

        return train_trial(run, seed, checkpoint, watch_and_kill)

    killed = make_search(project, "killed")
    with monkeypatch.context() as patch:
        patch.setitem(TRAIN, 0, kill)
        with pytest.raises(KilledError):
            killed.work(3)
    first = list_outcomes(killed)
    assert [item.number for item in first] == [0]
    killed.work(3)
    assert list_outcomes(killed) == list_outcomes(whole)
    assert list_outcomes(killed)[:1] == first
    killed.work(3)
    assert len(list_outcomes(killed)) == 3


def test_another_seed_of_the_training_is_another_search(project: Path) -> None:
    params = make_params("classification", make_cell(project, "classification").recipe)
    first, second, again = (search_cell("tiny", params, seed).digest for seed in (1, 2, 1))
    assert first == again != second


def test_an_output_folder_whose_name_would_be_cut_is_an_error(project: Path) -> None:
    with pytest.raises(UsageError, match=r"found \? in the path"):
        make_search(project, "which?").open()
    assert not (project / "which?").exists()


def test_a_trial_never_measures_the_reported_split(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell(project, "classification", held_out=True, epochs=1)
    seen: list[str] = []
    measure = Trainer._measure

    def record(trainer: Trainer, item: TaskRun, split: str, epoch: float) -> float:
        seen.append(split)
        return measure(trainer, item, split, epoch)

    monkeypatch.setattr(Trainer, "_measure", record)
    train_trial(cell, 1, project / "x.safetensors", lambda number, score: None)
    assert seen == ["held_out"]


@pytest.mark.parametrize(
    "error",
    [
        TrainingError("found a loss of nan"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
    ids=["loss", "torch", "python"],
)
def test_a_trial_that_fails_is_counted_and_the_others_go_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail_above(run: Run, *others: Any) -> float:
        if run.recipe.optimizer.lr > 0.01:
            raise error
        return score_by_values(run, *others)

    monkeypatch.setitem(TRAIN, 0, fail_above)
    search = make_search(project, "x")
    search.work(6)
    outcomes = list_outcomes(search)
    assert len(outcomes) == 6
    assert {item.state for item in outcomes} >= {"finished", "failed"}
    assert all(item.score is None for item in outcomes if item.state == "failed")
    with pytest.raises(TrainingError, match="no trial that finished"):
        search.find_winner([item for item in outcomes if item.state == "failed"])


def test_a_trial_whose_share_of_train_has_no_row_fails_alone(project: Path) -> None:
    cell = make_cell(project, "classification", epochs=1)
    searched = search_cell("tiny", make_params("classification", cell.recipe), 1)
    values = {"training.train_share": {"choices": [0.0001, 0.9]}}
    space = SpaceConfig.model_validate({"values": values})

    def train(values: dict[str, Any], folder: Path, watch: Callable[[int, float], None]) -> float:
        run = searched.build(searched.change(values))
        return train_trial(run, 1, folder / "checkpoint.safetensors", watch)

    search = Search(train, space, find_objective(cell), 1, project / "x")
    search.work(6)
    states = {item.values["training.train_share"]: item.state for item in list_outcomes(search)}
    assert states == {0.0001: "failed", 0.9: "finished"}


@pytest.mark.parametrize(
    ("path", "dimension", "message"),
    [
        ("layers.lstm.hiden_dim", {"low": 2, "high": 4}, "Did you mean 'hidden_dim'"),
        ("layers.gru.hidden_dim", {"low": 2, "high": 4}, "has none named 'gru'"),
        ("training.batch_size", {"low": 0, "high": 4}, "at 0: .*batch_size"),
        ("training.optimizer.name", {"choices": ["adam", "adm"]}, "Did you mean 'adam'"),
        ("data.label", {"choices": ["a", "b"]}, "expected one of layers, heads or training"),
    ],
)
def test_a_space_that_does_not_fit_the_model_is_an_error(
    project: Path, path: str, dimension: dict[str, Any], message: str
) -> None:
    cell = make_cell(project, "classification")
    searched = search_cell("tiny", make_params("classification", cell.recipe), 1)
    space = SpaceConfig.model_validate({"values": {path: dimension}})
    with pytest.raises(ConfigError, match=rf"s.yaml: values.{path}: .*{message}"):
        searched.check_space(space, "s.yaml")


def test_own_values_outside_the_space_are_no_trial(project: Path) -> None:
    search = make_search(project, "x", optimizer={"name": "adam", "lr": 0.5})
    assert search.defaults is None


def test_a_test_file_that_comes_later_is_measured(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=40)
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    values = {"training.clip_norm": {"choices": [1.0, 5.0]}}
    (place / "space.yaml").write_text(json.dumps({"values": values}))
    space = ["--space", "space.yaml", "--trials", "1", "-o", "x", "--epochs", "1"]
    search = ["search", "m.json", "--train", "a.tsv", *space, *SMALL]
    (place / "number.tsv").write_text("a\t1\nb\t2\n")
    assert "the label '1' and none" in fail(capsys, *search, "--test", "number.tsv")
    assert not (place / "x").exists()
    for more in ([], ["--test", "a.tsv"], ["--trials", "2"]):
        main([*search, *more])
        metrics = json.loads((place / "x/search.json").read_text())["metrics"]
        assert [*metrics] == ["dev", *(["test"] if "--test" in more else [])]
    model = json.loads((place / "x/best/model.json").read_text())
    assert model == json.loads((place / "x/winner.json").read_text())
    (place / "link").symlink_to("x")
    with locked(place / "x/run", "search"):
        other = ["--search-seed", "2", "-o", "link", "--force"]
        assert "another process trains this search" in fail(capsys, *search, *other)
    main([*search, *other])
    assert len(json.loads((place / "x/search.json").read_text())["trials"]) == 1
    assert "--epochs: is for a model file" in fail(capsys, "search", "wikiqa", "cnn", *space)
    assert "found -1, expected 0 or more" in fail(capsys, *search, "--search-seed", "-1")
    cell = ["search", "wikiqa", "cnn", *space[:4], "--seed", "-1"]
    assert "--seed: found -1, expected 0 to" in fail(capsys, *cell)


class _Killer:
    """What ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        return os._exit, (9,)


@pytest.mark.slow
def test_a_job_that_was_killed_is_one_paragraph() -> None:
    with pytest.raises(TrainingError, match="one of 2 jobs was killed"):
        work_together(Namespace(jobs=2, killer=_Killer()))


@pytest.mark.slow
def test_jobs_end_with_a_killed_command(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    os.mkfifo(space)
    code = f"work_together(Namespace(jobs=1, space=Path({str(space)!r})))"
    code = f"from pathlib import Path; from nlp_core.cli.search import *; {code}"
    code = f"from argparse import Namespace; {code}"
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with space.open("w"):  # once the job reads it
        started.kill()
        started.communicate(timeout=30)  # until the job too has closed its output


def test_the_figure_has_the_history_and_the_importance() -> None:
    outcomes = [
        Outcome(0, "finished", {LR: 0.1}, 70.0),
        Outcome(1, "pruned", {LR: 0.2}, 60.0),
        Outcome(2, "failed", {LR: 0.3}, None),
        Outcome(3, "finished", {LR: 0.4}, 75.0),
    ]
    drawn = draw_search(outcomes, {LR: 0.8, WIDTH: 0.2}, SearchObjective("auc", "dev", 1.0))
    assert drawn == draw_search(outcomes, {LR: 0.8, WIDTH: 0.2}, SearchObjective("auc", "dev", 1.0))
    text = drawn.decode()
    assert all(name in text for name in (LR, WIDTH, "auc on dev", "pruned", "best so far"))
    assert WIDTH not in draw_search(outcomes, {}, SearchObjective("auc", "dev", 1.0)).decode()
