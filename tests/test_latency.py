"""Tables of times: what is made of measured times, what is written, and what is refused."""

import csv
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from nlp_core.cli import main
from nlp_core.config.base import name_predictions
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import Params, read_params
from nlp_core.errors import ConfigError, DataError
from nlp_core.export import cell_export, timing
from nlp_core.export.grid import make_texts
from nlp_core.export.latency import Timing
from nlp_core.files import write_json
from nlp_core.metrics import measure
from nlp_core.processor import measure_peak
from nlp_core.report.cell import read_predictions
from nlp_core.report.comparison import read_comparison
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.paper import PaperTable, render_json
from nlp_core.report.results import read_results
from nlp_core.report.significance import find_differences
from nlp_core.report.table import write_report
from tests.fabricated import make_predictions, make_project
from tests.tiny import write_task, write_vectors
from tests.tiny_export import WORDS, export, make_trained, read_examples, unchecked_shapes

CONFIG: dict[str, Any] = {"runs": 2, "sentences": 3, "batches": 1, "threads": 1}
EXPORT: dict[str, Any] = {
    "table": "times",
    "cell": "artifacts/cells/trial/beta",
    "seed": 2,
    "variants": ["float32", "int8"],
    "max_drop": 0.5,
}
BUNDLES: dict[str, dict[str, Any]] = {
    "float32": {"examples": 4, "bytes": 4_000_000},
    "int8": {"trained": 50.0, "exported": 75.0, "bytes": 1_000_000},
}
PUBLISHED = """
title: Times
description: Of a trial.
measured_over: runs
papers:
  first: {name: First, citation: A log}
parts:
  - title: Eager by exported
    paper: first
    columns: {P50: ratio.p50}
    rows:
      - name: Beta, exported
        cell: beta_float32
        numbers: {P50: {value: 1.5}}
      - {name: Beta, int8, cell: beta_int8}
  - title: Milliseconds
    columns: {P50: latency.p50, score: score.first}
    rows: [{name: Beta, cell: beta_eager}]
"""


def make_timing(name: str, milliseconds: float, rate: float) -> Timing:
    model = {rank: milliseconds * rank / 50 for rank in (50, 90, 99)}
    whole = {rank: value + 1 for rank, value in model.items()}
    return Timing(name, model, whole, rate, rate / 2)


@pytest.fixture
def runs() -> list[list[Timing]]:
    runs = [
        [make_timing("eager", 4.0, 100), make_timing("float32", 2.0, 200)],
        [make_timing("eager", 6.0, 100), make_timing("float32", 2.0, 400)],
    ]
    for run in runs:
        run.append(make_timing("int8", 1.0, 800))
    return runs


@pytest.fixture
def timed(runs: list[list[Timing]]) -> timing.TimedExport:
    return timing.TimedExport("a quick processor, 1 thread", timing.measure_ways(runs))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path, ["beta"])
    path = tmp_path / "params.yaml"
    params = yaml.safe_load(path.read_text())
    params |= {"exports": {"beta": EXPORT}, "timing": {"times": CONFIG}}
    params["tables"].append("times")
    path.write_text(yaml.safe_dump(params))
    note = json.loads((tmp_path / "artifacts/cells/trial/beta/cell.json").read_text())
    note |= {"seeds": [2], "runs": {"2": note["runs"]["2"]}, "bundles": BUNDLES}
    folder = tmp_path / "artifacts/cells/times/beta"
    write_json(folder / "cell.json", note)
    for way, seed in {"eager": 2, "int8": 3}.items():
        found = pa.table(make_predictions("beta", seed))
        path = folder / name_predictions(way)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(found.filter(pc.field("selection") == "honest"), path)
    published = tmp_path / "reports/published/times.yaml"
    published.parent.mkdir(parents=True)
    published.write_text(PUBLISHED.replace("Beta, int8", "'Beta, int8'"))
    return tmp_path


def test_ratios_are_taken_within_a_run(runs: list[list[Timing]]) -> None:
    metrics = timing.measure_ways(runs)
    assert list(metrics) == ["eager", "float32", "int8"]
    exact, small = metrics["float32"], metrics["int8"]
    assert exact["ratio.p50"] == [2.0, 3.0]
    assert exact["ratio.p99"] == pytest.approx([2.0, 3.0])
    assert exact["ratio.per_second"] == [2.0, 4.0]
    assert exact["latency.p90"] == [3.6, 3.6]
    assert exact["latency.whole_p50"] == [3.0, 3.0]
    assert small["gain.per_second"] == [4.0, 2.0]
    assert "lead.per_second" not in exact
    assert metrics["eager"]["ratio.p50"] == [1.0, 1.0]


def test_a_student_is_compared_with_its_teacher_within_a_run(runs: list[list[Timing]]) -> None:
    for run, rate in zip(runs, (20.0, 50.0), strict=True):
        run.append(make_timing("teacher", 16.0, rate))
    metrics = timing.measure_ways(runs)
    assert list(metrics) == ["eager", "float32", "int8"]
    assert metrics["float32"]["lead.per_second"] == [10.0, 8.0]
    assert metrics["int8"]["lead.p50"] == [16.0, 16.0]
    assert metrics["eager"]["lead.per_second"] == [5.0, 2.0]


def test_sizes_and_scores_come_from_the_bundles(root: Path, timed: timing.TimedExport) -> None:
    evaluate_table("times", root, time_export=lambda *_: timed)
    cells = read_results("times", root).cells
    assert cells["beta_int8"].metrics["size.megabytes"].values == [1.0]
    assert "size.megabytes" not in cells["beta_eager"].metrics
    scores = [cells[f"beta_{way}"].metrics["score.first"].mean for way in ("eager", "int8")]
    assert scores == [50.0, 75.0]
    assert "score.first" not in cells["beta_float32"].metrics


def test_the_scores_of_a_model_and_its_bundle_are_compared_by_their_predictions(
    root: Path, timed: timing.TimedExport
) -> None:
    """The trained model has two of four right, the bundle three."""
    folder = root / "results/examples/times"
    folder.mkdir(parents=True)
    for name in ("beta_program", "former_int8"):
        (folder / f"{name}.parquet").write_bytes(b"")
    evaluate_table("times", root, time_export=lambda *_: timed)
    assert sorted(path.stem for path in folder.iterdir()) == ["beta_eager", "beta_int8"]
    published = root / "reports/published/times.yaml"
    row = "{name: Beta, cell: beta_eager}"
    published.write_text(
        published.read_text().replace(row, f"{row}, {{name: Small, cell: beta_int8}}")
    )
    findings = find_differences(read_comparison("times", root), root)
    assert [(finding.part, finding.column) for finding in findings] == [("Milliseconds", "score")]
    assert [(row.row, row.mean) for row in findings[0].rows] == [("Small", 75.0), ("Beta", 50.0)]
    small, eager = (row.interval for row in findings[0].rows)
    assert 0 < small.low < 75 < small.high == 100
    assert 0 == eager.low < 50 < eager.high == 100
    write_report("times", root)
    text = (root / "reports/times.md").read_text()
    assert "**Milliseconds, score.** 4 examples. The difference is not significant." in text
    (root / "artifacts/cells/times/beta" / name_predictions("int8")).unlink()
    with pytest.raises(DataError, match=r"int8\.parquet: no such file; make the cell again"):
        evaluate_table("times", root, only=["beta"], time_export=lambda *_: timed)


def test_the_report_has_runs_and_machine_and_is_the_same_again(
    root: Path, timed: timing.TimedExport
) -> None:
    evaluate_table("times", root, time_export=lambda *_: timed)
    results = read_results("times", root)
    assert list(results.cells) == ["beta_eager", "beta_float32", "beta_int8"]
    assert {cell.seeds[0] for cell in results.cells.values()} == {2}
    write_report("times", root)
    paths = [root / "reports" / name for name in ("times.md", "times.svg")]
    before = [path.read_bytes() for path in paths]
    text = before[0].decode()
    # the mean: 2.5 +- 12.706 * 0.7071 / sqrt(2), but no time is below 0
    assert "2.50 \u00b1 0.71 (2) | 0.00 to 8.85 | -8.50 to 13.50 | +1.00 | reproduced |" in text
    record, *_ = json.loads(render_json(PaperTable(read_comparison("times", root), [])))
    assert (record["low"], record["high"]) == pytest.approx((0.0, 8.853102), abs=1e-5)
    assert "mean \u00b1 sd (runs)" in text
    assert "a quick processor, 1 thread" in text
    assert "dvc repro --force --single-item evaluate@times" in text
    assert "not run" not in text
    assert b"a quick processor" in before[1]
    write_report("times", root)
    assert [path.read_bytes() for path in paths] == before


def test_a_model_without_bundles_is_timed_while_the_other_times_stay(
    root: Path, timed: timing.TimedExport
) -> None:
    evaluate_table("times", root, time_export=lambda *_: timed)
    before = read_results("times", root).cells
    path, cells = root / "params.yaml", root / "artifacts/cells/times"
    params = yaml.safe_load(path.read_text())
    params["exports"]["plain"] = {**params["exports"]["beta"], "variants": [], "max_drop": None}
    path.write_text(yaml.safe_dump(params))
    note = json.loads((cells / "beta/cell.json").read_text())
    (cells / "plain").mkdir()
    (cells / "plain/cell.json").write_text(json.dumps({**note, "cell": "plain", "bundles": {}}))
    eager = timing.TimedExport("another processor", {"eager": timed.metrics["eager"]})
    evaluate_table("times", root, only=["plain"], time_export=lambda *_: eager)
    after = read_results("times", root).cells
    assert after["plain_eager"].fingerprint["processor"] == "another processor"
    assert {name: cell for name, cell in after.items() if name in before} == before
    assert sorted({*after} - {*before}) == ["plain_eager"]


def test_times_of_a_table_without_a_timing_are_an_error(
    root: Path, timed: timing.TimedExport
) -> None:
    evaluate_table("times", root, time_export=lambda *_: timed)
    path = root / "params.yaml"
    params = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(params | {"exports": {}, "timing": {}}))
    with pytest.raises(DataError, match=r"results/times\.json: found the timed cell 'beta_eager'"):
        write_report("times", root)


def test_a_cell_trained_otherwise_is_refused(root: Path, timed: timing.TimedExport) -> None:
    path = root / "params.yaml"
    path.write_text(path.read_text().replace("numerics: 1", "numerics: 2"))
    with pytest.raises(DataError, match=r"numerics: found 1, but the grid says 2"):
        evaluate_table("times", root, time_export=lambda *_: timed)
    assert not (root / "results/times.json").exists()


@pytest.mark.parametrize(
    ("was", "became", "message"),
    [
        ("  times:\n    batches", "  tims:\n    batches", "table with a timing 'times'"),
        ("runs: 2", "runs: 0", "runs"),
        ("seed: 2", "seed: 2\n    teacher: bet", r"beta\.teacher: unknown export 'bet'"),
        ("cells/trial", "cells/other", "that cell is of the table trial"),
        ("table: times", "table: trial", "beta: experiments.beta has this name in the same table"),
    ],
)
def test_params_refuse_a_table_of_times(root: Path, was: str, became: str, message: str) -> None:
    path = root / "params.yaml"
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, became))
    with pytest.raises(ConfigError, match=message):
        read_params(path)


def test_an_export_keeps_the_predictions_of_measured_bundles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), WORDS)
    make_project(tmp_path, ["beta"])
    monkeypatch.setattr(timing.TrainedModel, "open", lambda *_, **__: trained)
    monkeypatch.setattr(cell_export, "read_examples", read_examples)
    monkeypatch.chdir(tmp_path)
    with unchecked_shapes():
        folder = cell_export.export_cell(
            "beta", ExportConfig.model_validate({**EXPORT, "max_drop": 30.0})
        )
    note = json.loads((folder / "cell.json").read_text())["bundles"]["int8"]
    assert sorted(path.stem for path in (folder / "predictions").iterdir()) == ["eager", "int8"]
    for way, key in {"eager": "trained", "int8": "exported"}.items():
        (found,) = read_predictions(folder / name_predictions(way), trained.task, "export@beta")
        assert (found.split, found.selection) == (trained.task.report_split, "honest")
        scores = measure(trained.task.kind.name, ["accuracy"], found.predictions)
        assert scores["accuracy"] == pytest.approx(note[key])
        assert found.predictions.score is not None


def test_bundles_are_timed_beside_the_model_they_were_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), WORDS)
    make_project(tmp_path, ["beta"])
    bundle = tmp_path / "artifacts/cells/times/beta/float32"
    export(trained, bundle, variant="float32")
    monkeypatch.setattr(timing.TrainedModel, "open", lambda *_, **__: trained)
    monkeypatch.setattr(timing, "read_examples", lambda *_: read_examples(trained))
    values = yaml.safe_load((tmp_path / "params.yaml").read_text())
    values["tables"].append("times")
    entry = {**EXPORT, "variants": ["float32"]}
    values |= {"timing": {"times": CONFIG}, "exports": {"beta": entry, "young": entry}}
    values["exports"]["young"] = {**entry, "teacher": "beta"}
    params = Params.model_validate(values)
    found = timing.time_export("beta", params, tmp_path).metrics
    assert list(found) == ["eager", "float32"]
    for metrics in found.values():
        assert {len(values) for values in metrics.values()} == {CONFIG["runs"]}
        for run in range(CONFIG["runs"]):
            of_run = {key: values[run] for key, values in metrics.items()}
            assert 0 < of_run["latency.p50"] <= of_run["latency.p90"] <= of_run["latency.p99"]
            assert of_run["latency.whole_p50"] > of_run["latency.p50"]
            assert of_run["speed.per_second"] > of_run["speed.whole_per_second"] > 0
        assert not [key for key in metrics if key.startswith("lead.")]
    with pytest.raises(DataError, match="float32"):
        timing.time_export("young", params, tmp_path)
    shutil.copytree(bundle.parent, bundle.parent.with_name("young"))
    beside = timing.time_export("young", params, tmp_path).metrics
    assert list(beside) == ["eager", "float32"]
    assert all(value > 0 for value in beside["float32"]["lead.per_second"])


def test_bundles_of_any_variant_are_timed_at_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), WORDS)
    folders = [tmp_path / variant for variant in ("float32", "program")]
    for folder in folders:
        export(trained, folder, variant=folder.name)
    texts, table = tmp_path / "texts.txt", tmp_path / "times.csv"
    texts.write_text("a good film\n\nthe awful 42\n")
    options = ["--texts", texts, "--csv", table, "--sentences", 3, "--batches", 1]
    packed = texts.with_suffix(".txt.gz")
    packed.write_bytes(gzip.compress(texts.read_bytes()))
    for item in (texts, packed):
        options[1] = item
        main(["bench", *map(str, [*folders, *options])])
        assert "per second at batch 32" in capsys.readouterr().out
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["float32", "program"]
    assert all(0 < float(row["p50_ms"]) <= float(row["p99_ms"]) for row in rows)
    texts.write_text("\n")
    options[1] = texts
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *map(str, [*folders, *options])])
    assert "found no text, expected one per line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch-sizes", "7"], "--batch-sizes: found without --lengths"),
        (["--task", "rte"], "--task: found without --against FOLDER"),
        (["--threads", "100000"], "--threads: found 100000, at most 1024"),
        (["--plugin", "x.py"], "--plugin: found without --against FOLDER"),
        (["--lengths", "4", "--sentences", "7"], "--lengths: found --sentences"),
        (["--lengths", "4", "1000000"], "--lengths: found 1000000 words in 1 text, at most 100000"),
        (
            ["--lengths", "9000", "--batch-sizes", "8", "64"],
            "--lengths: found 9000 words in 64 texts, at most 100000",
        ),
        (["--csv", "."], ".: --csv names a folder; name a file"),
        (["--svg", f"{__file__}/x.svg"], f"x.svg: --svg: {__file__} is a file, not"),
    ],
)
def test_a_wrong_option_is_an_error_before_anything_is_timed(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "none", "--texts", "none.txt", *options])
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_grid_of_lengths_and_batches_has_the_memory_of_a_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), WORDS)
    export(trained, tmp_path / "float32", variant="float32")
    texts, table = tmp_path / "texts.txt", tmp_path / "grid.csv"
    texts.write_text("a good film\nthe awful 42\n")
    options = ["--texts", texts, "--csv", table, "--batches", 3, "--lengths", 4, 400]
    options = [str(item) for item in [tmp_path / "float32", *options, "--batch-sizes", 64]]
    main(["bench", *options])
    assert "peak_mib" in capsys.readouterr().out
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["length"], row["batch_size"]) for row in rows] == [("4", "64"), ("400", "64")]
    short, long = rows
    for name in ("p50_ms", "peak_mib"):
        assert 0 < float(short[name]) < float(long[name])
    # this process has torch, and that of the bundle does not
    assert float(short["peak_mib"]) < measure_peak() / 2**20 / 2
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *options, "--svg", "x.svg"])
    assert "--lengths: found --against or --svg" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["bench", str(tmp_path / "none"), *options[1:]])
    assert "error: " in capsys.readouterr().err


def test_texts_of_a_length_follow_the_words_of_the_file() -> None:
    made = make_texts(["a b c", "d e"], 2, 5, seed=1)
    assert [len(text.split()) for text in made] == [2] * 5
    assert sorted(" ".join(made).split()) == ["a", "a", "b", "b", "c", "c", "d", "d", "e", "e"]
