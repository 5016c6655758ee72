"""Tests of nlp_core/tracking/."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from fabricated import edit_json, make_project

from nlp_core.errors import ConfigError, DataError, UsageError
from nlp_core.report.evaluation import evaluate_table
from nlp_core.tracking.store import (
    CELL_TAG,
    KEY_TAG,
    LEVEL_TAG,
    SEED_TAG,
    Point,
    TrackedCell,
    collect_cells,
    flatten,
    import_runs,
    open_store,
    spell,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LOCK: dict[str, Any] = {
    "schema": "2.0",
    "stages": {
        "finetune@alpha": {
            "cmd": "python -m stages.finetune alpha",
            "deps": [{"path": "data/processed/alpha", "hash": "md5", "md5": "11.dir"}],
            "outs": [{"path": "artifacts/cells/trial/alpha", "hash": "md5", "md5": "22.dir"}],
            "params": {
                "grid/trial.yaml": {"recipes.quick": {"epochs": 9, "optimizer": {"lr": 0.5}}}
            },
        }
    },
}

DAMAGED = (
    "dvc.lock",
    "results/trial.json",
    "runs/trial/alpha/seed-1.json",
    "artifacts/cells/trial/alpha/cell.json",
    "artifacts/cells/trial/alpha/seed-1/history.jsonl",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path)
    evaluate_table("trial", tmp_path)
    (tmp_path / "dvc.lock").write_text(yaml.safe_dump(LOCK))
    path = tmp_path / "runs" / "trial" / "alpha" / "seed-1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"started": 1000.5, "seconds": 2.0, "host": "here"}))
    return tmp_path


def collect(root: Path) -> dict[str, TrackedCell]:
    return {cell.cell: cell for cell in collect_cells(root)}


def test_each_finished_cell_is_collected(root: Path) -> None:
    (root / "artifacts/cells/trial/beta/cell.json").unlink()
    assert list(collect(root)) == ["alpha", "gamma"]


def test_params_are_flat_and_as_dvc_recorded_them(root: Path) -> None:
    cells = collect(root)
    assert cells["alpha"].params == {
        "model": "zoo/trial/alpha.json",
        "recipe": "quick",
        "seeds": "1, 2",
        "numerics": "1",
        "parameters.total": "12345",
        "parameters.trainable": "345",
        "data.alpha": "sha256:" + "ab" * 32,
        "init.path": "data/processed/words",
        "init.sha256": "sha256:" + "cd" * 32,
        "recipe.epochs": "9",
        "recipe.optimizer.lr": "0.5",
    }
    # Not in dvc.lock: the recipe of params.yaml.
    assert cells["beta"].params["recipe.optimizer.lr"] == "0.001"


def test_metrics_of_a_cell_and_of_its_seeds(root: Path) -> None:
    cell = collect(root)["alpha"]
    assert cell.metrics["test.auc"] == 87.5
    assert cell.metrics["test.auc.sd"] == pytest.approx(17.677670)
    assert [seed.metrics["test.auc"] for seed in cell.seeds] == [100.0, 75.0]


def test_scores_of_before_a_cell_was_trained_again_stay_with_their_seeds(root: Path) -> None:
    path = root / "artifacts/cells/trial/alpha/cell.json"
    runs = json.loads(path.read_text())["runs"]
    edit_json(path, seeds=[2, 3], runs={"2": runs["2"], "3": runs["1"]})
    cell = collect(root)["alpha"]
    assert cell.metrics == {}
    assert [seed.metrics.get("test.auc") for seed in cell.seeds] == [75.0, None]


def test_curves_and_facts_of_a_seed(root: Path) -> None:
    first, second = collect(root)["alpha"].seeds
    assert Point("train/loss", 2, 0.5) in first.points
    assert Point("validate/dev/auc", 2, 50.0) in first.points
    assert (first.started, first.seconds, first.tags["run.host"]) == (1000.5, 2.0, "here")
    assert second.started is None
    assert first.tags["weights"] == "sha256:" + "01" * 32
    assert first.tags["epoch.honest"] == "1.0"


def test_digests_are_tags(root: Path) -> None:
    tags = collect(root)["alpha"].tags
    assert tags["dvc.deps.data/processed/alpha"] == "11.dir"
    assert tags["dvc.outs.artifacts/cells/trial/alpha"] == "22.dir"
    assert tags["fingerprint.device"] == "cpu"


def test_the_key_follows_the_content(root: Path) -> None:
    before = {name: cell.key for name, cell in collect(root).items()}
    assert {name: cell.key for name, cell in collect(root).items()} == before
    history = root / "artifacts/cells/trial/beta/seed-2/history.jsonl"
    history.write_text(history.read_text().replace("0.7", "0.8"))
    after = {name: cell.key for name, cell in collect(root).items()}
    assert {name for name in after if after[name] != before[name]} == {"beta"}


def test_a_cell_without_results_or_lock_is_still_there(root: Path) -> None:
    (root / "results" / "trial.json").unlink()
    (root / "dvc.lock").unlink()
    cell = collect(root)["alpha"]
    assert cell.metrics == {}
    assert cell.seeds[0].points


ENCODER = {
    "table": "pretrain",
    "cell": "small",
    "model": "data/processed/minilm",
    "recipe": "small",
    "seeds": [3],
    "numerics": 1,
    "data": {"enwiki": "sha256:" + "ab" * 32},
    "init": {"path": "data/processed/minilm", "sha256": "sha256:" + "cd" * 32},
    "fingerprint": {"device": "cpu"},
    "parameters": {"total": 9},
    "metrics": {"wikitext2.perplexity": [12.5], "before.wikitext2.perplexity": [30.0]},
    "runs": {"3": {"weights": "sha256:" + "01" * 32, "epochs": {}}},
}
EVENTS: list[dict[str, object]] = [
    {"event": "validate", "step": 0, "split": "wikitext2"}
    | {"metrics": {"perplexity": 40.0, "accuracy": 9.0}},
    {"event": "measure", "at": "before", "split": "wikitext2", "metrics": {"perplexity": 30.0}},
    {"event": "train", "step": 4, "loss": 2.0, "lr": 0.5},
]


def write_encoder(root: Path, **changes: object) -> None:
    """Write what pre-training leaves of an encoder.

    Args:
        changes: other values of its cell.json.
    """
    history = root / "artifacts/cells/pretrain/small/history.jsonl"
    history.parent.mkdir(parents=True)
    (history.parent / "cell.json").write_text(json.dumps(ENCODER | changes))
    history.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    recipe = {"steps": 4, "optimizer": {"name": "lamb", "lr": 0.5}, "pairs": None}
    stage = {"params": {"grid/pretrain.yaml": {"encoders.small": recipe}}}
    lock = {"stages": {**LOCK["stages"], "pretrain@small": stage}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    note = root / "runs/pretrain/small/seed-3.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"started": 5.0, "seconds": 9.0, "host": "here"}))


def test_an_encoder_is_a_cell_of_one_seed(root: Path) -> None:
    write_encoder(root)
    found = collect(root)["small"]
    assert (found.table, found.cell) == ("pretrain", "small")
    assert found.metrics["wikitext2.perplexity"] == 12.5
    assert found.params["recipe.optimizer.lr"] == "0.5"
    assert found.params["init.path"] == "data/processed/minilm"
    assert "recipe.pairs" not in found.params
    (seed,) = found.seeds
    assert (seed.seed, seed.started, seed.seconds, seed.tags["run.host"]) == (3, 5.0, 9.0, "here")
    assert Point("validate/wikitext2/perplexity", 0, 40.0) in seed.points
    assert Point("train/loss", 4, 2.0) in seed.points
    assert len(seed.points) == 2 + 2


def test_an_encoder_may_have_several_seeds(root: Path) -> None:
    runs = {seed: {"weights": "sha256:" + "01" * 32, "epochs": {}} for seed in ("3", "4")}
    metrics = {"wikitext2.perplexity": [12.0, 14.0]}
    write_encoder(root, seeds=[3, 4], runs=runs, metrics=metrics)
    history = root / "artifacts/cells/pretrain/small/seed-4/history.jsonl"
    history.parent.mkdir()
    history.write_text(json.dumps(EVENTS[-1]) + "\n")
    found = collect(root)["small"]
    assert found.metrics["wikitext2.perplexity"] == 13.0
    assert found.metrics["wikitext2.perplexity.sd"] == pytest.approx(2**0.5)
    assert [seed.metrics["wikitext2.perplexity"] for seed in found.seeds] == [12.0, 14.0]
    assert [len(seed.points) for seed in found.seeds] == [4, 2]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_an_error_that_names_it(root: Path, name: str) -> None:
    (root / name).write_text('{"a": b: c')
    with pytest.raises(DataError, match=f"{name}: (not valid|the file is damaged)"):
        collect(root)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[1]"])
@pytest.mark.parametrize("name", DAMAGED)
def test_bytes_of_no_record_are_an_error_that_names_the_file(
    root: Path, name: str, content: bytes
) -> None:
    (root / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: (not valid|the file is damaged)"):
        collect(root)


def test_an_empty_lock_has_no_digests(root: Path) -> None:
    (root / "dvc.lock").write_text("")
    assert not [tag for tag in collect(root)["alpha"].tags if tag.startswith("dvc.")]


def test_curves_of_several_tasks_have_their_names(root: Path) -> None:
    history = root / "artifacts/cells/trial/alpha/seed-1/history.jsonl"
    event = {"event": "validate", "step": 3, "task": "rte", "split": "dev", "metrics": {"f1": 5.0}}
    history.write_text(json.dumps(event) + "\n")
    assert collect(root)["alpha"].seeds[0].points == [Point("validate/rte/dev/f1", 3, 5.0)]


def test_without_params_nothing_is_collected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        list(collect_cells(tmp_path))


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("something else")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(UsageError, match="other than an SQLite file"), open_store(path):
            pass


def test_a_database_whose_path_sqlalchemy_would_cut_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found \? in the path"), open_store(tmp_path / "a?b.db"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE things(a)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="found the database of another program"), open_store(path):
        pass
    assert path.read_bytes() == before


def test_a_database_of_another_mlflow_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE alembic_version(version_num VARCHAR(32))")
        database.execute("INSERT INTO alembic_version VALUES('ffffffffffff')")
    message = "found a database of another version of MLflow"
    with pytest.raises(UsageError, match=message), open_store(path):
        pass


def test_a_damaged_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.db"
    path.write_bytes(b"SQLite format 3\0" + b"\1" * 200)
    with pytest.raises(UsageError, match="found a damaged SQLite file"), open_store(path):
        pass


def test_flatten_leaves_out_what_is_not_set() -> None:
    assert flatten({"a": {"b": 1, "c": None}, "d": [1]}, "x") == {"x.a.b": "1", "x.d": "[1]"}


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("dev.accuracy", "dev.accuracy"),
        ("validate/dev/f1", "validate/dev/f1"),
        ("test.auc@a b", "test.auc:a b"),
        ("test.recall_at_precision@0.9@a+", "test.recall_at_precision:0.9:a-2b-"),
    ],
)
def test_names_are_spelt_as_mlflow_allows(name: str, spelt: str) -> None:
    assert spell(name) == spelt


def search(client: "MlflowClient", query: str = "") -> "list[Run]":
    experiment = client.get_experiment_by_name("trial")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], query))


@pytest.mark.slow
def test_an_import_is_idempotent_and_replaces_what_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    database = root / "mlflow.db"
    results = root / "results" / "trial.json"
    results.write_text(results.read_text().replace('"test.f1"', '"test.f1@a+"'))
    assert import_runs(root, database) == {"added": 3}
    assert import_runs(root, database) == {"kept": 3}
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    assert len(search(client)) == 3 + 2 + 3 + 1
    (parent,) = search(client, f"tags.`{LEVEL_TAG}` = 'cell' and tags.`{CELL_TAG}` = 'alpha'")
    assert parent.data.metrics["test.auc"] == 87.5
    assert parent.data.params["recipe.epochs"] == "9"
    assert parent.info.status == "FINISHED"
    children = search(client, f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    assert sorted(run.data.tags[SEED_TAG] for run in children) == ["1", "2"]
    (seed,) = [run for run in children if run.data.tags[SEED_TAG] == "1"]
    assert (seed.info.start_time, seed.info.end_time) == (1000500, 1002500)
    losses = client.get_metric_history(seed.info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in losses] == [(1, 0.7), (2, 0.5)]

    edit_json(root / "artifacts/cells/trial/alpha/cell.json", parameters={"total": 1})
    assert import_runs(root, database) == {"kept": 2, "replaced": 1}
    assert len(search(client)) == 9
    assert client.get_run(parent.info.run_id).info.lifecycle_stage == "deleted"

    # A seed that somebody deleted comes back with its cell.
    (seed, *_) = search(client, f"tags.`{LEVEL_TAG}` = 'seed' and tags.`{CELL_TAG}` = 'beta'")
    client.delete_run(seed.info.run_id)
    assert import_runs(root, database) == {"kept": 2, "replaced": 1}
    assert len(search(client)) == 9

    # A parent without its key was interrupted.
    (parent,) = search(client, f"tags.`{LEVEL_TAG}` = 'cell' and tags.`{CELL_TAG}` = 'gamma'")
    assert parent.data.metrics["test.f1:a-2b-"] == 66.666667
    client.delete_tag(parent.info.run_id, KEY_TAG)
    assert import_runs(root, database) == {"kept": 2, "replaced": 1}
    assert not (root / "mlruns").exists()

    write_encoder(root)
    assert import_runs(root, database) == {"kept": 3, "added": 1}
    assert import_runs(root, database) == {"kept": 4}
    pretrain = client.get_experiment_by_name("pretrain")
    assert pretrain is not None
    whole, seed = client.search_runs([pretrain.experiment_id], order_by=["attributes.start_time"])
    assert {whole.data.tags[LEVEL_TAG], seed.data.tags[LEVEL_TAG]} == {"cell", "seed"}
    assert whole.data.metrics["wikitext2.perplexity"] == 12.5
