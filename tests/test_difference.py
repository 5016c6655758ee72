"""`reglue diff`: moved, new and removed scores between two commits."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from nlp_core.cli import main
from nlp_core.errors import ConfigError
from nlp_core.files import write_json
from nlp_core.report.comparison import find_interval
from nlp_core.report.difference import list_moved, read_revision
from nlp_core.report.results import CellResult, Score
from tests.user_commands import fail

ROOT = Path(__file__).resolve().parent.parent


def write(root: Path, **cells: list[float]) -> None:
    """Write results whose cells have the given test scores, and the same dev score each."""
    note = {
        name: {
            "metrics": {
                "test.f1": score(values).model_dump(),
                "dev.f1": score([sum(values), 1.0]).model_dump(),
            },
            "seeds": [*range(1, len(values) + 1)],
            "epochs": {},
            "model": "zoo/a.json",
            "recipe": "quick",
            "data": {},
            "init": None,
            "tasks": {"a": {"kind": "tagging", "select_split": "dev", "report_split": "test"}},
            "parameters": {},
            "footnotes": [],
            "fingerprint": {},
            "numerics": 1,
        }
        for name, values in cells.items()
    }
    write_json(root / "results/trial.json", {"table": "trial", "cells": note})


def score(values: list[float]) -> Score:
    mean = sum(values) / len(values)
    sd = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return Score(mean=mean, sd=sd, n=len(values), values=values)


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A commit with two cells; since then one score has moved, one cell went and one came."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    write(tmp_path, kept=[80.0, 81.0], moved=[70.0, 71.0], removed=[50.0, 52.0])
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    write(tmp_path, kept=[80.0, 81.0], moved=[75.0, 76.5], added=[60.0, 61.0])
    return tmp_path


def test_moved_new_and_removed_scores_are_listed(repository: Path) -> None:
    before, after = read_revision(repository, "HEAD"), read_revision(repository, None)
    found = {item.cell: item for item in list_moved(before, after)}
    assert list(found) == ["added", "moved", "removed"]
    assert {item.metric for item in found.values()} == {"test.f1"}
    assert found["added"].before is None
    assert found["removed"].after is None
    interval = find_interval(score([75.0, 76.5]), score([70.0, 71.0]))
    assert found["moved"].interval == pytest.approx(interval, abs=1e-4)  # six decimal places
    assert list(list_moved(before, before)) == []


def test_names_of_tasks_and_labels_are_not_taken_for_times_or_splits() -> None:
    task = {"kind": "classification", "select_split": "dev", "report_split": "test"}
    facts: dict[str, object] = {"model": "m", "recipe": "r", "seeds": [1], "data": {}}
    facts |= {
        "init": None,
        "parameters": {},
        "fingerprint": {},
        "numerics": 1,
        "epochs": {},
        "footnotes": [],
    }
    names = ["latency.dev.f1", "latency.test.f1", "other.dev.f1@v.test"]
    cell = CellResult.model_validate(
        facts
        | {
            "tasks": {"latency": task, "other": task},
            "metrics": dict.fromkeys(names, score([1.0, 2.0])),
        }
    )
    assert not cell.is_timed
    assert [*cell.reported] == ["latency.test.f1"]


def test_all_reported_splits_and_their_mean_count(repository: Path) -> None:
    (before,) = read_revision(repository, None).values()
    cell = before.cells["kept"]
    task = cell.tasks["a"].model_copy(update={"further_report_splits": ["other"]})
    metrics = {
        **cell.metrics,
        "other.f1": score([40.0, 41.0]),
        "reported.f1": score([60.0, 61.0]),
    }
    old = cell.model_copy(update={"tasks": {"a": task}, "metrics": metrics})
    new = old.model_copy(update={"metrics": {name: score([1.0, 2.0]) for name in metrics}})
    states = [{"trial": before.model_copy(update={"cells": {"kept": item}})} for item in (old, new)]
    moved = [item.metric for item in list_moved(*states)]
    assert moved == ["other.f1", "reported.f1", "test.f1"]


def test_a_project_may_be_a_folder_of_a_repository(repository: Path) -> None:
    write(repository / "inner", kept=[1.0, 2.0])
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "inner")
    assert list(read_revision(repository / "inner", "HEAD")["trial"].cells) == ["kept"]


def test_the_command_prints_them(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", "HEAD", "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| table | cell | metric | before | after |")
    assert "| trial | moved | test.f1 | 70.50 ± 0.71 (2) | 75.75 ± 1.06 (2) | +5.25 |" in lines[3]
    with pytest.raises(SystemExit) as caught:
        main(["diff", "HEAD", "--exit-code"])
    assert caught.value.code == 1
    capsys.readouterr()
    main(["diff", "HEAD", "HEAD", "--exit-code"])
    assert capsys.readouterr().out == "No score moved.\n"


def test_the_command_prints_json(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", "HEAD", "--json"])
    added, moved, removed = json.loads(capsys.readouterr().out)
    assert (added["cell"], added["before"]) == ("added", None)
    assert (moved["before"]["values"], moved["after"]["n"]) == ([70.0, 71.0], 2)
    assert removed["interval"] is None
    assert "found --json and --markdown" in fail(capsys, "diff", "HEAD", "--json", "--markdown")


def test_an_unknown_commit_is_the_users_mistake(repository: Path) -> None:
    with pytest.raises(ConfigError, match=r"Not a valid object name nowhere\. Name a commit"):
        read_revision(repository, "nowhere")


@pytest.mark.parametrize(("rows", "is_failing"), [(3, False), (900, False), (1, True)])
def test_the_comment_on_a_pull_request_fits_and_says_if_the_comparison_failed(
    tmp_path: Path, rows: int, *, is_failing: bool
) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
    (step,) = (step for step in workflow["jobs"]["check"]["steps"] if step.get("name") == "comment")
    row = "| " + "x" * 150 + " |"
    printing = f'yes "{row}" | head -n {rows}'
    for name, line in {
        ".venv/bin/reglue": f'echo "$*" > asked; {printing}; exit {int(is_failing)}',
        "bin/gh": 'echo "$*" > said',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "NUMBER": "7"}
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environment, check=True)
    # the base branch as it was merged, so that its own changes are not in the comment
    assert (tmp_path / "asked").read_text() == "diff HEAD^1 HEAD --markdown\n"
    said = (tmp_path / "said").read_text()
    assert said == "pr comment 7 --edit-last --create-if-none --body-file moved.md\n"
    body = (tmp_path / "moved.md").read_text()
    assert len(body) < 65536  # GitHub refuses longer comments
    assert body.count(row) == min(rows, 302)
    assert ("598 more" in body) == (rows == 900)
    assert ("The comparison failed." in body) == is_failing
