import shutil
from pathlib import Path

import pytest
import yaml

from nlp_core.cli import main
from nlp_core.report.zoo import list_zoo, render_zoo
from tests.tiny_group import describe_groups

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_the_zoo_is_current() -> None:
    text = (ROOT / "zoo" / "README.md").read_text(encoding="utf-8")
    assert text == render_zoo(list_zoo(ROOT)), "run reglue zoo --readme"


def test_every_model_is_there_with_task_weights_and_result() -> None:
    models = {model.path: model for model in list_zoo(ROOT)}
    assert len(models) == len(list((ROOT / "zoo").rglob("*.json")))
    cnn = models["sample/answer_cnn.json"]
    assert cnn.tasks == ["sample_answer"]
    assert cnn.weights == (50 + 1) * 32 + (2 * 50 + 1) * 32
    (result,) = cnn.results
    assert (result.table, result.cell) == ("sample", "sample_answer_cnn")
    assert result.number.startswith("test.auc ")
    assert models["sentence/textcnn.json"].tasks == ["any classification"]


def test_a_model_of_several_tasks_names_them() -> None:
    models = {model.path: model for model in list_zoo(ROOT)}
    shared = models["mtdnn/minilm_mtl.json"]
    assert shared.tasks == ["cola", "mrpc", "rte", "sst2", "stsb"]
    assert shared.has_encoder
    assert "| cola, mrpc, rte, sst2, stsb | 0 + encoder |" in render_zoo([shared])
    assert models["mtdnn/minilm_span.json"].tasks == ["any span"]
    assert not models["sentence/textcnn.json"].has_encoder


def test_the_tasks_of_a_group_are_those_of_its_model(tmp_path: Path) -> None:
    for name in ("params.yaml", "grid", "reports/published", "zoo"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["groups"] |= describe_groups({"two": ["cola", "sst2"]})
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    path = tmp_path / "grid/glue.yaml"
    grid = yaml.safe_load(path.read_text())
    grid["recipes"]["mixed"] = grid["recipes"]["sst2_fast"] | {"mixing": {"name": "proportional"}}
    grid["experiments"]["pair"] = {
        "table": "glue",
        "model": "zoo/mtdnn/minilm_mtl.json",
        "data": "two",
        "init": "data/processed/glove",
        "recipe": "mixed",
        "seeds": [1],
    }
    path.write_text(yaml.safe_dump(grid))
    models = {model.path: model for model in list_zoo(tmp_path)}
    shared = models["mtdnn/minilm_mtl.json"]
    assert shared.tasks == ["cola", "sst2"]
    assert [result.number for result in shared.results] == ["not run"]


def test_the_zoo_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    main(["zoo"])
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith(" sample/ner_bilstm_crf.json")]
    assert "Words + character CNN, BiLSTM, CRF" in line
    assert "test.f1 " in line
