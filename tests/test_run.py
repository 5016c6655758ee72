"""`reglue run`: one cell of a table, which the DAG may leave out."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nlp_core.cli import main
from nlp_core.cli import run as command
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import read_params
from nlp_core.models.plan import read_plan
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.results import read_results

ROOT = Path(__file__).resolve().parent.parent
CELL, OTHER = "sample_sentence_bilstm", "sample_answer_cnn"
PARAMS = read_params(ROOT / "params.yaml")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two optional cells, whose data have no stage."""
    for name in ("sources", "zoo", "stages"):
        (tmp_path / name).symlink_to(ROOT / name)
    values = yaml.safe_load((ROOT / "grid/sample.yaml").read_text())
    cells = values.pop("experiments")
    values["recipes"]["sample"]["epochs"] = 1
    values["optional"] = {name: {**cells[name], "seeds": [1]} for name in (CELL, OTHER)}
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid/sample.yaml").write_text(yaml.safe_dump({**values, "experiments": {}}))
    params = {"numerics": PARAMS.numerics, "tasks": ["sample_ner"]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    (tmp_path / "reports/published").mkdir(parents=True)
    published = (ROOT / "reports/published/sample.yaml").read_text()
    (tmp_path / "reports/published/sample.yaml").write_text(published)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_explanation(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    main(["explain", "sample", CELL, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_optional_cell_gets_its_data_weights_scores_and_row(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (CELL, OTHER):
        main(["run", "sample", name])
    assert [*read_results("sample", project).cells] == [OTHER, CELL]
    report = (project / "reports/sample.md").read_text()
    assert f"reglue run sample {CELL}" in report
    assert "finetune@" not in report
    assert read_explanation(capsys)["commands"] == {
        "train": f"reglue run sample {CELL}",
        "verify": f"reglue verify sample {CELL}",
        "picture of the model": f"reglue show zoo/sample/sentence_bilstm.json --svg {CELL}.svg",
    }
    main(["verify", "sample", CELL])
    assert "1 of 1 seeds verified" in capsys.readouterr().out


def test_a_fault_in_another_cell_is_named_before_any_training(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "sample", OTHER])
    values = yaml.safe_load((project / "grid/sample.yaml").read_text())
    values["optional"][OTHER]["seeds"] = [2]
    (project / "grid/sample.yaml").write_text(yaml.safe_dump(values))
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["run", "sample", CELL])
    assert caught.value.code == 2
    found = capsys.readouterr().err
    assert f"{OTHER}: seeds: found [1], but the grid says [2]" in found
    assert f"`reglue run sample {OTHER}`" in found
    assert not (project / "data/processed/sample_sentence").exists()


def test_a_cell_of_the_dag_is_trained_by_dvc(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["run", "sample", CELL])
    first = read_results("sample", project).cells[CELL]
    values = yaml.safe_load((project / "grid/sample.yaml").read_text())
    values["experiments"] = {CELL: values["optional"].pop(CELL)}
    (project / "grid/sample.yaml").write_text(yaml.safe_dump(values))
    params = {"numerics": PARAMS.numerics, "tasks": ["sample_sentence", "sample_vectors"]}
    (project / "params.yaml").write_text(yaml.safe_dump(params))
    (project / "results/sample.json").unlink()
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(command, "run_module", lambda *arguments: called.append(arguments))
    main(["run", "sample", CELL])
    assert called == [("dvc", "repro", f"finetune@{CELL}")]
    assert read_results("sample", project).cells == {CELL: first}
    assert "finetune@" in (project / "reports/sample.md").read_text()


def test_the_whole_table_has_the_optional_cells_that_are_trained_here(project: Path) -> None:
    for name in (CELL, OTHER):
        main(["run", "sample", name])
    first = (project / "results/sample.json").read_bytes()
    evaluate_table("sample", project)
    assert (project / "results/sample.json").read_bytes() == first
    (project / f"artifacts/cells/sample/{OTHER}").rename(project / "elsewhere")
    evaluate_table("sample", project)
    assert [*read_results("sample", project).cells] == [CELL]


def test_a_source_that_cannot_be_fetched_is_one_paragraph(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGLUE_MIRROR", str(project / "nothing"))
    (project / "sources").unlink()
    (project / "sources").mkdir()
    with pytest.raises(SystemExit) as caught:
        main(["run", "sample", CELL])
    assert caught.value.code == 2
    found = capfd.readouterr().err
    assert found.count("error: ") == 1
    assert "unknown dataset 'sample_sentence'" in found
    assert "Traceback" not in found
    assert not (project / "results").exists()


@pytest.mark.parametrize(
    ("table", "cell", "expected"),
    [
        ("sample", "sample_sentence_bilst", f"Did you mean '{CELL}'?"),
        ("samples", CELL, "unknown table 'samples'. Did you mean 'sample'?"),
    ],
)
def test_a_wrong_name_suggests_the_nearest(
    project: Path, table: str, cell: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", table, cell])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("name", PARAMS.optional)
def test_each_optional_cell_has_a_source_that_its_model_serves(name: str) -> None:
    cell = PARAMS.experiments[name]
    source = read_dataset(cell.data, ROOT / "sources")
    assert source.task is not None
    plan = read_plan(ROOT / cell.model)
    assert all(source.task.kind.name in head.head.kinds for head in plan.heads.values())
    assert read_dataset(Path(cell.init).name, ROOT / "sources").kind in ("encoder", "vectors")
    assert all(file.sha256 or all(member.sha256 for member in file.wanted) for file in source.files)
