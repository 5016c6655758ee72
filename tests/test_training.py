"""The loop, its checkpoints and the cell: what is kept, what is repeated, what comes out."""

import json
import shutil
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from filelock import FileLock
from pydantic import ValidationError

from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError, TrainingError
from nlp_core.files import digest_file
from nlp_core.kinds import TAGGING
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.models.saving import load_model, load_tensors, save_tensors
from nlp_core.prediction.split_prediction import predict
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.run import prepare_tasks
from tests.tiny import make_recipe, write_task
from tests.tiny_training import (
    FIRST_METRIC,
    MODELS,
    check_resume,
    digests,
    make_cell,
    make_params,
    make_trainer,
    project,
)

__all__ = ["project"]


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_cell_learns_and_writes_what_the_contract_names(project: Path, kind: str) -> None:
    folder = train_cell(make_cell(project, kind, epochs=20, optimizer={"name": "adam", "lr": 0.03}))
    note = json.loads((folder / "cell.json").read_text())
    assert note["seeds"] == [1, 2]
    assert note["runs"]["1"]["weights"] != note["runs"]["2"]["weights"]
    assert note["tasks"][f"tiny_{kind}"]["footnotes"] == ["tiny.tsv: made up for a test"]
    rows = pq.read_table(folder / f"seed-1/predictions/tiny_{kind}.parquet").to_pylist()
    assert {(row["split"], row["selection"]) for row in rows} == {
        ("dev", "honest"),
        ("test", "honest"),
    }
    lines = (folder / "seed-1/history.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    scores = [e["metrics"][FIRST_METRIC[kind]] for e in events if e["event"] == "validate"]
    assert len(scores) == 20
    assert max(scores) > 80, scores
    losses = [e["loss"] for e in events if e["event"] == "train"]
    assert losses[-1] < losses[0]


def test_two_runs_give_the_same_bytes(project: Path) -> None:
    cell = make_cell(project, "tagging")
    first = digests(train_cell(cell))
    (project / "artifacts").rename(project / "first")
    assert digests(train_cell(cell)) == first


@pytest.mark.parametrize("killed_at", [1, 7, 13])
@pytest.mark.parametrize(
    "optimizer", [{"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "adamw", "lr": 0.01}]
)
def test_killed_run_ends_with_the_weights_of_an_undisturbed_one(
    project: Path, killed_at: int, optimizer: dict[str, object]
) -> None:
    cell = make_cell(project, "tagging", optimizer=optimizer, validations_per_epoch=2)
    check_resume(partial(make_trainer, cell), project, killed_at)


def test_finished_seed_is_kept_when_a_seed_is_added(project: Path) -> None:
    kind = "classification"
    write_task(project, kind)
    train_cell(read_cell("tiny", make_params(kind, make_recipe(), seeds=(1,))))
    (kept,) = (project / "artifacts/work/sample/tiny").glob("*/seed-1")
    before = (kept / "model.safetensors").stat().st_mtime_ns
    folder = train_cell(read_cell("tiny", make_params(kind, make_recipe(), seeds=(1, 2))))
    assert (kept / "model.safetensors").stat().st_mtime_ns == before
    assert (folder / "seed-2/model.safetensors").exists()


def test_changed_recipe_starts_afresh_and_drops_the_old_work(project: Path) -> None:
    first = train_cell(make_cell(project, "classification"))
    weights = digest_file(first / "seed-1/model.safetensors")
    works = project / "artifacts/work/sample/tiny"
    (works / "used").mkdir()
    (works / "stray").touch()
    with FileLock(works / "used/lock"):
        second = train_cell(make_cell(project, "classification", epochs=4))
    assert digest_file(second / "seed-1/model.safetensors") != weights
    left = {path.name for path in works.iterdir()}
    assert {"stray", "used"} < left
    assert len(left) == 3


def test_what_is_said_of_a_model_and_a_recipe_trains_nothing_anew(project: Path) -> None:
    key = make_cell(project, "classification").key
    path = project / "zoo/classification.json"
    model = json.loads(path.read_text())
    path.write_text(json.dumps({**model, "description": "other", "source": "words"}))
    assert make_cell(project, "classification", source="other words").key == key
    model["layers"][0]["dim"] += 1
    path.write_text(json.dumps(model))
    assert make_cell(project, "classification").key != key


def test_task_reported_on_dev_has_both_ways_of_choosing_the_epoch(project: Path) -> None:
    folder = train_cell(make_cell(project, "classification", held_out=True))
    rows = pq.read_table(folder / "seed-1/predictions/tiny_classification.parquet").to_pylist()
    assert {(row["split"], row["selection"]) for row in rows} == {
        ("held_out", "honest"),
        ("dev", "honest"),
        ("dev", "paper"),
    }
    assert set(json.loads((folder / "cell.json").read_text())["runs"]["1"]["epochs"]) == {
        "honest",
        "paper",
    }


def test_every_reported_split_is_predicted(project: Path) -> None:
    kind, name = "classification", "tiny_classification"
    alone = train_cell(make_cell(project, kind, held_out=True))
    note = json.loads((alone / "cell.json").read_text())
    assert "further_report_splits" not in note["tasks"][name]
    task = project / "data/processed" / name
    shutil.copy(task / "dev.parquet", task / "dev_more.parquet")
    manifest = json.loads((task / "manifest.json").read_text())
    manifest["further_report_splits"] = ["dev_more"]
    manifest["splits"]["dev_more"] = manifest["splits"]["dev"]
    (task / "manifest.json").write_text(json.dumps(manifest))
    recipe = make_cell(project, kind, held_out=True)
    folder = train_cell(recipe)
    rows = pq.read_table(folder / f"seed-1/predictions/{name}.parquet").to_pylist()
    assert {(row["split"], row["selection"]) for row in rows} == {
        ("held_out", "honest"),
        ("dev", "honest"),
        ("dev_more", "honest"),
        ("dev", "paper"),
        ("dev_more", "paper"),
    }
    note = json.loads((folder / "cell.json").read_text())
    assert note["tasks"][name]["further_report_splits"] == ["dev_more"]


def test_a_share_of_train_is_drawn_for_each_seed(project: Path) -> None:
    cell = make_cell(project, "classification", train_share=0.25)
    rows = []
    for seed in (1, 2, 1):
        _, featurizers, (task,) = prepare_tasks(cell, seed)
        rows.append(task.train.split.ids.tolist())
        assert len(task.train.split) == 12
        assert len(task.splits["dev"].split) == 20
    (featurizer,) = featurizers.values()
    seen = {word for row in task.train.split.texts["tokens"].list_rows() for word in row}
    assert {*featurizer.vocabularies["word"].ids} <= {word.lower() for word in seen} | seen
    assert rows[0] == rows[2] != rows[1]
    assert cell.key != make_cell(project, "classification").key


@pytest.mark.parametrize("kind", ["classification", "ranking"])
def test_the_schedule_ends_with_the_last_batch_of_the_buckets(project: Path, kind: str) -> None:
    buckets = {"widths": "equal", "count": 4}
    cell = make_cell(project, kind, epochs=2, batch_size=3, buckets=buckets)
    trainer = make_trainer(cell, project / "x.safetensors")
    batches = [len(trainer.order.order_epoch(epoch)) for epoch in (1, 2)]
    assert trainer.num_steps == sum(batches)
    trained = trainer.run()
    rates = [event["lr"] for event in trained.progress.events if event["event"] == "train"]
    assert min(rates) > 0


def test_last_epoch_is_kept_honestly_whatever_its_score(project: Path) -> None:
    kind, values = "classification", {"epochs": 20, "optimizer": {"name": "adam", "lr": 0.03}}
    best = make_trainer(make_cell(project, kind, held_out=True, **values), project / "a").run()
    cell = make_cell(project, kind, held_out=True, kept_epoch="last", **values)
    last = make_trainer(cell, project / "b").run()
    assert best.progress.best["honest"].epoch < last.progress.best["honest"].epoch == 20
    assert last.progress.best["paper"] == best.progress.best["paper"]
    assert last.progress.events == best.progress.events
    torch.testing.assert_close(last.states["paper"], best.states["paper"], rtol=0, atol=0)


def test_the_last_of_equally_good_epochs_is_kept_and_patience_ends_as_before(
    project: Path,
) -> None:
    values = {"epochs": 20, "patience": 4, "optimizer": {"name": "adam", "lr": 0.03}}
    runs = {}
    for kept in (None, "last_best"):
        cell = make_cell(project, "classification", held_out=True, kept_epoch=kept, **values)
        runs[kept] = make_trainer(cell, project / str(kept)).run().progress
    first, last = runs[None].best["honest"], runs["last_best"].best["honest"]
    scores = runs[None].scores
    equal = [epoch for epoch, score in enumerate(scores, 1) if score == max(scores)]
    assert (first.epoch, last.epoch) == (equal[0], equal[-1])
    assert len(equal) > 1
    assert (first.score, runs[None].best["paper"]) == (last.score, runs["last_best"].best["paper"])
    assert runs[None].events == runs["last_best"].events


def test_patience_awaits_no_last_epoch() -> None:
    with pytest.raises(ValidationError, match="kept_epoch: last with a patience"):
        make_recipe(kept_epoch="last", patience=2)


def test_the_gradient_is_clipped_as_a_whole(project: Path) -> None:
    norms, directions = [], []
    for most in (None, 1e-3):
        trainer = make_trainer(make_cell(project, "classification", clip_norm=most), project / "x")
        (task, rows), *_ = trainer.order.order_epoch(1)
        trainer.step(task, rows)
        slopes = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
        whole = torch.cat(slopes)
        norms.append(float(whole.norm()))
        directions.append(whole / whole.norm())
    assert norms[0] > 0.01
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)
    torch.testing.assert_close(directions[1], directions[0], rtol=1e-3, atol=1e-5)


def test_patience_stops_a_run_that_no_longer_gains(project: Path) -> None:
    cell = make_cell(project, "classification", epochs=40, patience=2)
    trainer = make_trainer(cell, project / "x.safetensors")
    progress = trainer.run().progress
    assert progress.stale == 2
    assert progress.epoch < 40


def test_loss_that_is_not_finite_names_step_and_rate(project: Path) -> None:
    cell = make_cell(project, "pair_regression", optimizer={"name": "sgd", "lr": 1e30})
    path = project / "x.safetensors"
    with pytest.raises(TrainingError) as caught:
        make_trainer(cell, path).run()
    for part in ("tiny_pair_regression", "of epoch 1", "learning rate", "clip_norm"):
        assert part in str(caught.value)
    assert "checkpoint" not in str(caught.value), "none was written"


def test_saved_model_predicts_as_the_trained_one(project: Path) -> None:
    cell = make_cell(project, "tagging")
    folder = train_cell(cell)
    model, featurizers = load_model(
        folder / "seed-2", cell.plan, kinds={None: TAGGING}, init=cell.init
    )
    featurizer = featurizers[None]
    found = predict(model, featurizer.encode(cell.task.read_split("test")), cell.task.targets)
    rows = pq.read_table(folder / "seed-2/predictions/tiny_tagging.parquet").to_pylist()
    assert found.prediction == [row["prediction"] for row in rows if row["split"] == "test"]


def test_weights_of_another_model_are_refused(project: Path) -> None:
    folder = train_cell(make_cell(project, "classification"))
    other = read_plan(Path("zoo/tagging.json"))
    with pytest.raises(DataError, match="weights of another model"):
        load_model(
            folder / "seed-1",
            other,
            kinds={None: TAGGING},
            init=Path("data/processed/tiny_vectors"),
        )


def test_head_must_serve_the_kind_of_the_task(project: Path) -> None:
    cell = make_cell(project, "classification")
    train = cell.task.read_split("train")
    featurizer = Featurizer.build(cell.plan, cell.task, train, cell.init)
    with pytest.raises(ConfigError, match="expected one for a task of kind tagging"):
        build_model(cell.plan, featurizer, kind=TAGGING)


def test_model_that_reads_a_column_the_task_lacks_is_refused(project: Path) -> None:
    cell = make_cell(project, "classification")
    ranking = read_task(write_task(project, "ranking"))
    with pytest.raises(ConfigError, match="'words' reads 'tokens', which task 'tiny_ranking'"):
        Featurizer.build(cell.plan, ranking, ranking.read_split("train"), cell.init)


def test_cell_that_is_not_in_the_grid_names_the_nearest(project: Path) -> None:
    write_task(project, "classification")
    with pytest.raises(ConfigError, match=r"unknown cell 'tinny'. Did you mean 'tiny'"):
        read_cell("tinny", make_params("classification", make_recipe()))


def test_task_that_is_not_processed_says_which_command_makes_it(project: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro preprocess@tiny_tagging`"):
        read_cell("tiny", make_params("tagging", make_recipe()))


def test_init_that_holds_no_vectors_is_refused(project: Path) -> None:
    folder = write_task(project, "classification")
    (project / "data/processed/tiny_vectors/manifest.json").write_bytes(
        (folder / "manifest.json").read_bytes()
    )
    with pytest.raises(ConfigError, match="which holds classification data, expected word vectors"):
        read_cell("tiny", make_params("classification", make_recipe()))


def test_work_folder_in_use_is_refused(project: Path) -> None:
    cell = make_cell(project, "classification")
    work = project / "artifacts/work/sample/tiny" / cell.key[:16]
    work.mkdir(parents=True)
    with FileLock(work / "lock"), pytest.raises(TrainingError, match="another process trains"):
        train_cell(cell)
    assert not (project / "artifacts/cells").exists()


def test_tensors_come_back_with_their_note_and_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3), "a": torch.ones(2, 2)}
    save_tensors(tmp_path / "x", tensors, {"step": 3, "more": [1]})
    save_tensors(tmp_path / "y", dict(reversed(tensors.items())), {"more": [1], "step": 3})
    assert digest_file(tmp_path / "x") == digest_file(tmp_path / "y")
    found, note = load_tensors(tmp_path / "x")
    assert note == {"step": 3, "more": [1]}
    assert torch.equal(found["b"], tensors["b"])
    (tmp_path / "z").touch()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "z").stat().st_mode


def test_mistake_found_by_a_head_names_file_and_head(project: Path) -> None:
    graph = json.loads((project / "zoo/classification.json").read_text())
    graph["heads"]["out"]["class_weights"] = [1.0, 2.0, 3.0]
    (project / "zoo/classification.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"zoo/classification\.json: head 'out': "):
        train_cell(make_cell(project, "classification"))
