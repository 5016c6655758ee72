from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.report.zoo import list_zoo, render_zoo

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
