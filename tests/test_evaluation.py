import json
import math
import shutil
from pathlib import Path

import pytest
import yaml
from fabricated import SEEDS, TASKS, edit_json, make_project

from nlp_core.config.export import ExportConfig
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_json
from nlp_core.report.cell import match_cells
from nlp_core.report.evaluation import evaluate_table, summarise
from nlp_core.report.results import read_results

ROOT = Path(__file__).resolve().parent.parent


def evaluate(root: Path) -> dict[str, dict[str, dict[str, object]]]:
    evaluate_table("trial", root)
    cells: dict[str, dict[str, dict[str, object]]] = json.loads(
        (root / "results" / "trial.json").read_text()
    )["cells"]
    return cells


def test_mean_and_sample_deviation_over_seeds(tmp_path: Path) -> None:
    cells = evaluate(make_project(tmp_path))
    # Seed 1: AUC 4/4 of pairs, MAP 1; seed 2: scores .9 .1 .2 .8, of 4 pairs 3 in order.
    assert cells["alpha"]["metrics"] == {
        "test.auc": {"mean": 87.5, "sd": round(12.5 * 2**0.5, 6), "n": 2, "values": [100.0, 75.0]},
        "test.map": {"mean": 87.5, "sd": round(12.5 * 2**0.5, 6), "n": 2, "values": [100.0, 75.0]},
    }


def test_both_ways_of_choosing_the_epoch_are_measured(tmp_path: Path) -> None:
    cells = evaluate(make_project(tmp_path))
    assert cells["beta"]["metrics"] == {
        "dev.accuracy": {"mean": 50.0, "sd": 25.0, "n": 3, "values": [25.0, 50.0, 75.0]},
        "dev.accuracy.paper": {"mean": 100.0, "sd": 0.0, "n": 3, "values": [100.0] * 3},
        "held_out.accuracy": {"mean": 50.0, "sd": 0.0, "n": 3, "values": [50.0] * 3},
    }
    assert cells["beta"]["epochs"] == {"honest": [1.0] * 3, "paper": [2.0] * 3}


def test_one_seed_has_no_spread(tmp_path: Path) -> None:
    cells = evaluate(make_project(tmp_path))
    score = cells["gamma"]["metrics"]["test.f1"]
    assert score == {"mean": 66.666667, "sd": 0.0, "n": 1, "values": [66.666667]}


def test_results_say_what_a_cell_was_made_of(tmp_path: Path) -> None:
    cells = evaluate(make_project(tmp_path))
    facts = {key: value for key, value in cells["alpha"].items() if key != "metrics"}
    assert facts == {
        "seeds": [1, 2],
        "epochs": {"honest": [1.0, 1.0]},
        "model": "zoo/trial/alpha.json",
        "recipe": "quick",
        "data": {"alpha": "sha256:" + "ab" * 32},
        "init": {"path": "data/processed/words", "sha256": "sha256:" + "cd" * 32},
        "tasks": {"alpha": {"kind": "ranking", "select_split": "dev", "report_split": "test"}},
        "parameters": {"total": 12345, "trainable": 345},
        "footnotes": ["words.txt: a part of the official file"],
        "fingerprint": {"device": "cpu", "torch": "2.13.0", "isa": "avx2"},
        "numerics": 1,
        "runs": {
            "1": {"weights": "sha256:" + "01" * 32},
            "2": {"weights": "sha256:" + "02" * 32},
        },
    }


def test_results_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    first = make_project(tmp_path / "a")
    second = make_project(tmp_path / "b", ["gamma", "beta", "alpha"])
    evaluate(first)
    evaluate(second)
    path = Path("results", "trial.json")
    assert (first / path).read_bytes() == (second / path).read_bytes()
    assert read_results("trial", first).table == "trial"


def test_a_cell_that_params_do_not_have_is_left_out(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    make_project(root / "other", ["gamma"])
    (root / "other" / "params.yaml").replace(root / "params.yaml")
    assert list(evaluate(root)) == ["gamma"]


def test_an_unfinished_cell_says_what_to_run(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    (root / "artifacts/cells/trial/beta/cell.json").unlink()
    with pytest.raises(DataError, match="run `dvc repro finetune@beta`"):
        evaluate(root)
    assert not (root / "results").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": [1, 3]},
        {"model": "zoo/trial/other.json"},
        {"recipe": "slow"},
        {"numerics": 2},
        {"runs": {}},
        {"tasks": {"gamma": TASKS["gamma"]}},
        {"init": {"path": "data/processed/other", "sha256": "sha256:00"}},
    ],
)
def test_a_cell_trained_otherwise_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    root = make_project(tmp_path)
    edit_json(root / "artifacts/cells/trial/alpha/cell.json", **change)
    key = next(iter(change))
    with pytest.raises(DataError, match=rf"cell\.json: {key}: found .* the grid says"):
        evaluate(root)


def test_values_of_a_recipe_that_changed_under_its_name_are_seen(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    params = read_params(root / "params.yaml")
    digest = digest_json(params.recipes["quick"].describe())
    for cell in ("alpha", "beta", "gamma"):
        edit_json(root / f"artifacts/cells/trial/{cell}/cell.json", recipe_digest=digest)
    assert evaluate(root)["gamma"]["recipe_digest"] == digest
    described = yaml.safe_load((root / "params.yaml").read_text())
    described["recipes"]["quick"]["epochs"] += 1
    (root / "params.yaml").write_text(yaml.safe_dump(described))
    for only in ([], ["beta"]):
        with pytest.raises(DataError, match=r"values of the recipe: found .* the grid says"):
            evaluate_table("trial", root, only=only)


def test_a_file_that_training_did_not_write_is_refused(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    edit_json(root / "artifacts/cells/trial/alpha/cell.json", seeds="one")
    with pytest.raises(DataError, match="seeds: input should be a valid array"):
        evaluate(root)


def test_missing_predictions_are_named(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    (root / "artifacts/cells/trial/alpha/seed-2/predictions/alpha.parquet").unlink()
    with pytest.raises(DataError, match="alpha/seed-2/predictions"):
        evaluate(root)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"{}", b"\xff\xfe{}"])
def test_a_damaged_history_is_named(tmp_path: Path, content: bytes) -> None:
    make_project(tmp_path)
    (tmp_path / "artifacts/cells/trial/alpha/seed-1/history.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"alpha/seed-1/history\.jsonl: the file is damaged"):
        evaluate_table("trial", tmp_path)


def test_a_page_of_predictions_that_is_damaged_is_named(tmp_path: Path) -> None:
    make_project(tmp_path)
    path = tmp_path / "artifacts/cells/trial/alpha/seed-1/predictions/alpha.parquet"
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36  # the head of the first page; the file's own is at its end
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"alpha\.parquet: .*damaged; run `dvc repro --force"):
        evaluate_table("trial", tmp_path)


def test_the_reported_split_must_be_predicted(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    path = root / "artifacts/cells/trial/alpha/cell.json"
    edit_json(path, tasks={"alpha": TASKS["alpha"] | {"report_split": "final"}})
    with pytest.raises(DataError, match="no honest predictions of the split 'final'"):
        evaluate(root)


def test_a_task_that_reports_on_several_splits_has_their_mean(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    facts = TASKS["beta"] | {"further_report_splits": ["held_out"]}
    edit_json(root / "artifacts/cells/trial/beta/cell.json", tasks={"beta": facts})
    metrics = evaluate(root)["beta"]["metrics"]
    values = [metrics[f"{split}.accuracy"] for split in ("dev", "held_out", "reported")]
    assert values[0]["values"] == [25.0, 50.0, 75.0]
    assert values[1]["values"] == [50.0, 50.0, 50.0]
    assert values[2]["values"] == [37.5, 50.0, 62.5]
    facts |= {"further_report_splits": ["other"]}
    edit_json(root / "artifacts/cells/trial/beta/cell.json", tasks={"beta": facts})
    with pytest.raises(DataError, match="no honest predictions of the split 'other'"):
        evaluate(root)


def test_one_cell_is_measured_alone_and_the_others_are_kept(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    before = evaluate(root)
    # Of the others nothing is left but the numbers.
    for cell in ("alpha", "gamma"):
        shutil.rmtree(root / "artifacts" / "cells" / "trial" / cell)
    path = root / "results" / "trial.json"
    note = json.loads(path.read_text())
    note["cells"]["alpha"]["metrics"]["test.auc"] = summarise([100.0, 1.0]).model_dump()
    path.write_text(json.dumps(note))
    curves = read_results("trial", root).curves
    assert curves["alpha"] == {f"auc, seed {seed}": [(2, 50.0)] for seed in SEEDS["alpha"]}
    evaluate_table("trial", root, only=["beta"])
    assert read_results("trial", root).curves == curves
    after = json.loads(path.read_text())["cells"]
    assert after["beta"] == before["beta"]
    assert after["gamma"] == before["gamma"]
    assert after["alpha"]["metrics"]["test.auc"]["values"] == [100.0, 1.0]


def test_a_table_that_was_never_measured_begins_with_all_its_cells_named(tmp_path: Path) -> None:
    root = make_project(tmp_path, cells=["alpha"])
    evaluate_table("trial", root, only=["alpha"])
    assert list(read_results("trial", root).cells) == ["alpha"]


def test_kept_numbers_must_be_of_the_cells_that_params_describe(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    evaluate(root)
    params = root / "params.yaml"
    described = yaml.safe_load(params.read_text())
    described["experiments"]["gamma"]["seeds"] = [8]
    params.write_text(yaml.safe_dump(described))
    written = (root / "results" / "trial.json").read_bytes()
    with pytest.raises(DataError, match=r"gamma: seeds: found \[7\], but the grid says \[8\]"):
        evaluate_table("trial", root, only=["beta"])
    assert (root / "results" / "trial.json").read_bytes() == written


def test_a_cell_that_was_never_measured_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = make_project(tmp_path)
    evaluate_table("trial", root, only=["beta"])
    assert sorted(read_results("trial", root).cells) == ["beta"]
    assert "left out cells that were never measured: alpha, gamma" in caplog.text
    evaluate_table("trial", root, only=["gamma"])
    assert sorted(read_results("trial", root).cells) == ["beta", "gamma"]


def test_a_kept_teacher_follows_its_own_table_once_that_has_newer_numerics(
    tmp_path: Path,
) -> None:
    root = make_project(tmp_path)
    older = evaluate(root)
    path = root / "params.yaml"
    described = yaml.safe_load(path.read_text())
    cells, recipes = described["experiments"], described["recipes"]
    cells["alpha"]["table"] = "other"
    cells["student"] = cells["beta"] | {"data": "taught", "recipe": "distilled"}
    recipes["distilled"] = recipes["quick"] | {
        "distillation": {"name": "kl", "weight": 0.5, "temperature": 1.0}
    }
    teaching = {"cell": "artifacts/cells/other/alpha", "seeds": [1], "data": "alpha"}
    described |= {"numerics": 2, "tables": ["other", "trial"], "taught": {"taught": teaching}}
    path.write_text(yaml.safe_dump(described))
    edit_json(root / "artifacts/cells/trial/beta/cell.json", numerics=2)
    evaluate_table("trial", root, only=["beta"])
    assert read_results("trial", root).cells["alpha"].numerics == 1
    retrained = older["alpha"] | {"numerics": 2}
    (root / "results" / "other.json").write_text(
        json.dumps({"table": "other", "cells": {"alpha": retrained}, "curves": {}})
    )
    evaluate_table("trial", root, only=["beta"])
    found = read_results("trial", root).cells
    assert found["alpha"].numerics == 2
    assert found["gamma"].numerics == 1


def test_the_times_of_exports_are_found_by_the_longest_name() -> None:
    export = ExportConfig(
        table="t", cell="artifacts/cells/t/student", seed=1, variants=["float32"], max_drop=None
    )
    items = dict.fromkeys(["student", "student_64"], export)
    measured = ["student_eager", "student_64_eager", "student_64_float32", "gone"]
    assert match_cells(measured, items) == {
        "student_eager": "student",
        "student_64_eager": "student_64",
        "student_64_float32": "student_64",
    }


def test_a_cell_that_the_table_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"grid/trial.yaml: unknown cell 'gama'\. Did you mean 'gamma'"
    ):
        evaluate_table("trial", make_project(tmp_path), only=["gama"])


def test_an_unknown_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown table 'trail'\. Did you mean 'trial'"):
        evaluate_table("trail", make_project(tmp_path))


def test_summarise_by_hand() -> None:
    score = summarise([1.0, 2.0, 6.0])
    assert (score.mean, score.n) == (3.0, 3)
    assert score.sd == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
