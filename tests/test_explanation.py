"""`reglue explain`: every cell of every table has its scores, data, recipe and commands."""

import json
from pathlib import Path

import pytest
from dvc.repo import Repo

from nlp_core.cli import main
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError
from nlp_core.report.comparison import read_comparison
from nlp_core.report.explanation import explain

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("table", sorted(path.stem for path in (ROOT / "grid").glob("*.yaml")))
def test_every_number_of_a_report_is_explained(table: str) -> None:
    params = read_params(ROOT / "params.yaml")
    comparison = read_comparison(table, ROOT, allow_missing=True)
    stages, sources = read_stages(), {path.stem for path in Path("sources").glob("*.yaml")}
    cells = {entry.cell for entry in comparison.entries if entry.ours and entry.cell}
    cells |= {name for name, cell in params.experiments.items() if cell.table == table}
    assert cells
    for cell in cells:
        found = explain(comparison, cell, params, ROOT)
        commands = found["commands"]
        result = comparison.results.cells.get(cell)
        device = "REGLUE_DEVICE=cuda " if result is not None and result.is_of_gpu else ""
        first = next(iter(commands.values())).removeprefix(device)
        if cell in params.optional:
            assert first == f"reglue run {table} {cell}"
            assert "measure" not in commands
        else:
            assert first.removeprefix("dvc repro ") in stages
            assert commands["measure"] == f"snakemake --cores 2 reports/{table}.md"
        if cell in params.experiments:
            assert cell in params.optional or first == f"dvc repro finetune@{cell}"
            home = params.experiments[cell].table
            assert commands["verify"] == f"{device}reglue verify {home} {cell}"
            assert found["recipe"]["values from"]
        elif cell in params.encoders:
            assert commands["verify"] == f"{device}reglue verify {table} {cell}"
        assert set(found["data"]) & sources
        for file in found["model"]["file"].split(" + "):  # an ensemble may have several models
            assert Path(file).exists() or not file.startswith("zoo")
        if cell in comparison.results.cells:
            assert found["training"]["seeds"]
            assert found["commit"]["results from"]


def test_a_number_in_two_parts_is_explained_twice() -> None:
    comparison = read_comparison("latency", ROOT)
    (cell,) = {e.cell for e in comparison.entries if e.number.value == 1.73}
    found = explain(comparison, str(cell), read_params(ROOT / "params.yaml"), ROOT)
    shown = [entry for entry in comparison.entries if entry.cell == cell]
    assert len(found["scores"]) == len(shown)


def read_stages() -> set[str]:
    """Return the stages of dvc.yaml, as DVC names them."""
    return {stage.addressing for stage in Repo(str(ROOT)).index.stages}


def test_scores_are_those_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "wikiqa", "cnn", "--json"])
    found = json.loads(capsys.readouterr().out)
    score = json.loads(Path("results/wikiqa.json").read_text())["cells"]["cnn"]["metrics"][
        "test.auc"
    ]
    expected = f"{score['mean']:.2f} ± {score['sd']:.2f} ({score['n']})"
    assert found["scores"]["CNN, AUC, test.auc"].startswith(f"{expected}; published 74.79: ")
    run = json.loads(Path("results/wikiqa.json").read_text())["cells"]["cnn"]["runs"]["1"]
    assert run["weights"][7:23] in found["training"]["weights of seed 1"]


def test_curves_and_the_picture_of_the_model_are_named() -> None:
    params, comparison = read_params(ROOT / "params.yaml"), read_comparison("sample", ROOT)
    found = explain(comparison, "sample_answer_cnn", params, ROOT, has_commit=False)
    points = comparison.results.curves["sample_answer_cnn"]["auc, seed 1"]
    line = found["curves"]["auc, seed 1"]
    assert line.startswith(f"steps {points[0][0]} to {points[-1][0]}: {points[0][1]:.2f}, ")
    assert line.count(", ") == len(points) - 1
    command = "reglue show zoo/sample/answer_cnn.json --svg sample_answer_cnn.svg"
    assert found["commands"]["picture of the model"] == command


def test_a_cell_of_older_code_is_marked() -> None:
    params = read_params(ROOT / "params.yaml")
    newer = params.model_copy(update={"numerics": params.numerics + 1})
    found = explain(read_comparison("wikiqa", ROOT), "cnn", newer, ROOT)
    assert "to be retrained" in found["training"]["numerics"]


def test_an_unknown_cell_gets_the_nearest_name() -> None:
    params = read_params(ROOT / "params.yaml")
    with pytest.raises(ConfigError, match=r"unknown cell 'cn'\. Did you mean 'cnn'"):
        explain(read_comparison("wikiqa", ROOT), "cn", params, ROOT)
    with pytest.raises(SystemExit):
        main(["explain", "wikiqua", "cnn"])
