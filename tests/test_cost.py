"""What cells cost: from runs/ into results/cost/, the report and `reglue explain`."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.config.params import read_params
from nlp_core.errors import DataError
from nlp_core.report.cost import (
    Costs,
    RunNote,
    describe_cost,
    estimate_watt_hours,
    find_costs,
    measure_costs,
    read_costs,
    record_costs,
    render_cost,
)
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.results import Results, read_results
from nlp_core.report.table import write_report
from nlp_core.training.processes import Processes
from nlp_core.training.work import train_once
from tests.fabricated import make_project, make_published
from tests.tiny_corpus import make_params

NOTE: dict[str, Any] = {"seconds": 90.0, "cpu_seconds": 60.0, "peak_bytes": 2**30, "processes": 1}
NOTE |= {"device": "cpu", "processor": "AMD EPYC", "is_resumed": False}


def write_note(root: Path, cell: str, seed: int, **changes: object) -> None:
    path = root / "runs" / "trial" / cell / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(NOTE | changes))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path)
    make_published(tmp_path)
    evaluate_table("trial", tmp_path)
    for seed in (1, 2):
        write_note(tmp_path, "alpha", seed)
    return tmp_path


def read_trial(root: Path) -> Results:
    return read_results("trial", root)


def record(root: Path) -> Costs:
    return record_costs(read_trial(root), read_params(root / "params.yaml"), root)


def render(root: Path) -> str:
    params = read_params(root / "params.yaml")
    return render_cost(measure_costs(read_trial(root), params, read_costs("trial", root)))


def test_energy_is_core_hours_times_watts_times_the_building() -> None:
    assert estimate_watt_hours(3600.0) == pytest.approx(12.0 * 1.67)


def test_a_note_without_cpu_time_counts_the_clock() -> None:
    assert RunNote(seconds=10.0).core_seconds == 10.0
    assert RunNote(seconds=10.0, cpu_seconds=4.0, processes=2).core_seconds == 8.0


def test_the_report_says_the_cost_and_names_cells_without_a_record(root: Path) -> None:
    assert render(root) == "Cost of training: no record of the 3 cells."
    write_note(root, "beta", 3, cpu_seconds=None)
    record(root)
    assert render(root) == (
        "Cost of training: 2 of 3 cells, 3.5 core-minutes, peak 1.0 GiB, about 1.2 Wh ([how this "
        "is estimated](../docs/cost.md)). No record: gamma, beta (seed 1, 2)."
    )
    write_report("trial", root)
    assert render(root) in (root / "reports/trial.md").read_text(encoding="utf-8")


def test_a_clone_without_runs_keeps_what_is_committed(root: Path) -> None:
    before = record(root)
    content = find_costs("trial", root).read_bytes()
    for path in (root / "runs").rglob("*.json"):
        path.unlink()
    assert record(root) == before
    assert find_costs("trial", root).read_bytes() == content


def test_a_record_of_other_weights_is_not_the_cost_of_the_results(root: Path) -> None:
    record(root)
    path = root / "results" / "trial.json"
    results = json.loads(path.read_text())
    results["cells"]["alpha"]["runs"]["2"]["weights"] = "sha256:" + "77" * 32
    path.write_text(json.dumps(results))
    assert "alpha (seed 2)" in render(root)
    assert sorted(read_costs("trial", root).cells["alpha"]) == ["1", "2"]


def test_a_training_that_is_not_measured_yet_is_not_recorded(root: Path) -> None:
    measured = read_trial(root).cells["alpha"].runs["2"].weights
    write_note(root, "alpha", 2, weights=measured)
    before = record(root)
    assert sorted(before.cells["alpha"]) == ["1", "2"]
    write_note(root, "alpha", 2, weights="sha256:" + "77" * 32, seconds=1.0, cpu_seconds=1.0)
    assert record(root) == before


def test_a_resumed_run_gives_a_lower_bound_and_a_gpu_no_energy(root: Path) -> None:
    write_note(root, "alpha", 2, is_resumed=True, device="cuda")
    record(root)
    assert "1 of 3 cells, at least 2.0 core-minutes, peak 1.0 GiB (" in render(root)
    write_note(root, "beta", 1)
    record(root)
    assert "about 0.3 Wh without those of a GPU (" in render(root)


def test_a_damaged_note_is_an_error_that_names_the_file(root: Path) -> None:
    write_note(root, "alpha", 2, seconds="long")
    with pytest.raises(DataError, match=r"runs/trial/alpha/seed-2\.json: seconds"):
        record(root)
    assert not find_costs("trial", root).exists()


def test_a_damaged_note_of_an_encoder_names_the_stage_that_pretrains(root: Path) -> None:
    params = make_params(root, tiny={})
    encoder = params.encoders["tiny"].model_copy(update={"table": "trial"})
    named = params.model_copy(update={"encoders": {"alpha": encoder}, "experiments": {}})
    write_note(root, "alpha", 2, seconds="long")
    with pytest.raises(DataError, match="dvc repro --force pretrain@alpha"):
        record_costs(read_trial(root), named, root)


def test_no_results_file_moves_when_a_cost_is_recorded(root: Path) -> None:
    before = (root / "results/trial.json").read_bytes()
    record(root)
    evaluate_table("trial", root)
    assert (root / "results/trial.json").read_bytes() == before


def test_a_cell_is_explained_with_its_cost(root: Path) -> None:
    record(root)
    params = read_params(root / "params.yaml")
    costs = measure_costs(read_trial(root), params, read_costs("trial", root))
    assert describe_cost(costs["alpha"]) == {
        "training": "2.0 core-minutes",
        "seconds by seed": "1: 60, 2: 60",
        "processor": "AMD EPYC",
        "peak memory": "1.0 GiB",
        "energy": "about 0.7 Wh",
    }
    assert describe_cost(costs["gamma"]) == {"training": "no record"}


def test_training_notes_time_and_memory(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "seed-1.json", tmp_path / "seed-1.safetensors"
    done, processes = tmp_path / "seed-1", Processes()

    def train() -> None:
        sum(range(100_000))
        done.mkdir()
        (done / "model.safetensors").write_bytes(b"weights")

    assert train_once(train, done, checkpoint, processes, path)
    assert not train_once(train, done, checkpoint, processes, path)
    note = json.loads(path.read_text())
    assert note["weights"] == f"sha256:{hashlib.sha256(b'weights').hexdigest()}"
    assert 0 < note["cpu_seconds"] <= note["seconds"] + 0.1  # the two clocks tick differently
    assert note["peak_bytes"] > 2**20
    assert (note["processes"], note["device"], note["is_resumed"]) == (1, "cpu", False)
    shutil.rmtree(done)
    checkpoint.touch()
    assert train_once(train, done, checkpoint, processes, path)
    assert json.loads(path.read_text())["is_resumed"]


def test_the_command_records_and_writes_the_report(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    main(["cost", "trial", "--record"])
    out = capsys.readouterr().out
    assert "no record" in out
    assert "AMD EPYC" in out
    assert "2.0 core-minutes" in (root / "reports/trial.md").read_text(encoding="utf-8")
    main(["cost", "trial", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["alpha"]["core_seconds"] == 120.0
    assert found["alpha"]["runs"]["1"]["processor"] == "AMD EPYC"
    assert found["gamma"]["seeds_without_record"] == ["7"]
    with pytest.raises(SystemExit):
        main(["cost", "trail"])
    assert "Did you mean 'trial'" in capsys.readouterr().err
