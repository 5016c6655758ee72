"""Heads that compare candidates, trained: whole questions in a batch, exact resume, ranking."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from nlp_core.training.cell_run import train_cell
from nlp_core.training.loop import Trainer
from tests.tiny_training import check_resume, digests, find_train, make_cell, make_trainer, project

__all__ = ["project"]

HEADS = {
    "margin": {"head": "pairwise_ranking"},
    "logistic": {"head": "pairwise_ranking", "loss": {"name": "logistic"}},
    "listwise": {"head": "listwise_ranking", "hidden_dims": [6]},
}


def use(root: Path, head: str) -> None:
    path = root / "zoo/ranking.json"
    graph = json.loads(path.read_text())
    graph["heads"] = {"out": {"inputs": ["pair"], **HEADS[head]}}
    path.write_text(json.dumps(graph))


def watch(trainer: Trainer, seen: list[np.ndarray]) -> None:
    """Note the rows of each training batch."""
    encode = find_train(trainer).batch

    def batch(rows: np.ndarray) -> object:
        seen.append(rows)
        return encode(rows)

    object.__setattr__(find_train(trainer), "batch", batch)


@pytest.mark.parametrize("head", sorted(HEADS))
def test_a_ranking_is_learnt_and_written(project: Path, head: str) -> None:
    use(project, head)
    cell = make_cell(project, "ranking", epochs=20, optimizer={"name": "adam", "lr": 0.03})
    folder = train_cell(cell)
    lines = (folder / "seed-1/history.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    scores = [event["metrics"]["map"] for event in events if event["event"] == "validate"]
    assert max(scores) > 90, scores
    rows = pq.read_table(folder / "seed-1/predictions/tiny_ranking.parquet").to_pylist()
    for row in rows:
        assert sum(row["score"]) == pytest.approx(1.0)
        assert row["prediction"] == ("1" if row["score"][1] > 0.5 else "0")


def test_every_step_sees_whole_questions(project: Path) -> None:
    use(project, "margin")
    # 48 candidates of 12 questions, 4 each: 5 questions a step make 3 steps an epoch.
    cell = make_cell(project, "ranking", epochs=2, batch_size=5)
    trainer = make_trainer(cell, project / "x.safetensors")
    seen: list[np.ndarray] = []
    watch(trainer, seen)
    trainer.run()
    group = find_train(trainer).split.group
    assert group is not None
    assert [len(rows) for rows in seen].count(8) == 2
    assert len(seen) == trainer.progress.step == 2 * trainer.order.steps_per_epoch == 6
    for rows in seen:
        whole = np.flatnonzero(np.isin(group, group[rows]))
        assert sorted(rows.tolist()) == whole.tolist()


def test_batches_carry_the_questions_of_their_rows(project: Path) -> None:
    use(project, "margin")
    trainer = make_trainer(make_cell(project, "ranking"), project / "x")
    batch = find_train(trainer).batch(np.array([9, 0, 4]))
    assert batch.group is not None
    assert batch.group.tolist() == [2, 0, 1]
    tagging = make_trainer(make_cell(project, "tagging"), project / "y")
    assert find_train(tagging).batch(np.array([0])).group is None


@pytest.mark.parametrize("killed_at", [1, 4, 8])
def test_a_killed_run_ends_as_an_undisturbed_one(project: Path, killed_at: int) -> None:
    use(project, "listwise")
    cell = make_cell(project, "ranking", batch_size=3, validations_per_epoch=2)
    check_resume(partial(make_trainer, cell), project, killed_at)


def test_two_runs_give_the_same_bytes(project: Path) -> None:
    use(project, "logistic")
    cell = make_cell(project, "ranking", epochs=1)
    first = digests(train_cell(cell))
    (project / "artifacts").rename(project / "first")
    assert digests(train_cell(cell)) == first


def test_a_resample_is_of_whole_questions_and_counts_repeats_apart(project: Path) -> None:
    use(project, "margin")
    cell = make_cell(project, "ranking", batch_size=12, resample="bootstrap")
    trainer = make_trainer(cell, project)
    ((_, rows),) = trainer.order.order_epoch(1)
    batch = find_train(trainer).batch(rows)
    assert batch.group is not None
    assert len(rows) == 48
    _, sizes = np.unique(batch.group.numpy(), return_counts=True)
    assert sizes.tolist() == [4] * 12
    questions = set(find_train(trainer).split.group[rows].tolist())  # type: ignore[index]
    assert len(questions) < 12
    ((_, again),) = trainer.order.order_epoch(2)
    assert sorted(again.tolist()) == sorted(rows.tolist())
