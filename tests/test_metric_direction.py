"""A metric of which less is better chooses epochs, stops runs and is judged the other way round."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.config.published import NumberConfig, PublishedTable
from nlp_core.errors import ConfigError
from nlp_core.report.comparison import compare, judge
from nlp_core.report.markdown import render_report
from nlp_core.report.results import CellResult, Results, summarise
from nlp_core.training import loop
from tests.tiny_training import make_cell, make_trainer, project

__all__ = ["project"]


def set_metrics(root: Path, kind: str, metrics: list[str]) -> None:
    path = root / "data/processed" / f"tiny_{kind}" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"metrics": metrics}))


def train_with_scores(
    root: Path, monkeypatch: pytest.MonkeyPatch, metric: str, scores: list[float], **recipe: Any
) -> loop.Trained:
    """Train with made-up validations."""
    make_cell(root, "pair_regression")
    set_metrics(root, "pair_regression", [metric])
    cell = make_cell(root, "pair_regression", epochs=len(scores), **recipe)
    left = iter(scores)
    monkeypatch.setattr(loop, "score_predictions", lambda *_: {metric: next(left)})
    return make_trainer(cell, root / "x.safetensors").run()


@pytest.mark.parametrize(("metric", "epoch"), [("rmse", 2.0), ("pearson", 4.0)])
def test_the_best_epoch_is_the_one_of_the_least_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, metric: str, epoch: float
) -> None:
    trained = train_with_scores(project, monkeypatch, metric, [0.5, 0.2, 0.2, 0.9])
    assert trained.progress.best["honest"].epoch == epoch


@pytest.mark.parametrize(("metric", "epochs"), [("rmse", 5), ("pearson", 3)])
def test_patience_waits_for_less_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, metric: str, epochs: int
) -> None:
    falling = [0.9, 0.7, 0.5, 0.6, 0.6, 0.1]
    trained = train_with_scores(project, monkeypatch, metric, falling, patience=2)
    validations = [e for e in trained.progress.events if e["event"] == "validate"]
    assert len(validations) == epochs
    assert trained.progress.best["honest"].score == (0.5 if metric == "rmse" else 0.9)


def test_a_real_run_keeps_its_least_error(project: Path) -> None:
    make_cell(project, "pair_regression")
    set_metrics(project, "pair_regression", ["rmse", "pearson"])
    cell = make_cell(project, "pair_regression", epochs=4, optimizer={"name": "adam", "lr": 0.3})
    progress = make_trainer(cell, project / "x.safetensors").run().progress
    found = [e["metrics"]["rmse"] for e in progress.events if e["event"] == "validate"]
    assert progress.best["honest"].score == min(found)
    assert progress.best["honest"].epoch == 1.0 + int(np.argmin(found))


def test_a_cell_cannot_choose_by_a_threshold(project: Path) -> None:
    make_cell(project, "classification")
    set_metrics(project, "classification", ["threshold_at_precision@0.9", "accuracy"])
    with pytest.raises(ConfigError, match=r"manifest\.json: metrics: found 'threshold_at_prec"):
        make_cell(project, "classification")


def test_a_cell_refuses_a_metric_of_a_label_that_the_task_lacks(project: Path) -> None:
    make_cell(project, "classification")
    set_metrics(project, "classification", ["auc@2"])
    with pytest.raises(ConfigError, match=r"auc@2: found the label '2'"):
        make_cell(project, "classification")


@pytest.mark.parametrize(
    ("published", "outcome", "text"),
    [
        # 0.3 plus or minus 4.303 x 0.01 x sqrt(4 / 3) = 0.050
        (0.36, "above", "better, lower"),
        (0.34, "reproduced", "reproduced"),
        (0.26, "reproduced", "reproduced"),
        (0.18, "below", "worse, higher by 0.12"),
    ],
)
def test_verdict_of_an_error(published: float, outcome: str, text: str) -> None:
    ours = summarise([0.29, 0.30, 0.31])
    found = judge(NumberConfig(value=published), ours, 2, lower_is_better=True)
    assert found == (outcome, text)


def make_results(metrics: dict[str, float]) -> Results:
    cell = CellResult(
        metrics={key: summarise([value, value]) for key, value in metrics.items()},
        seeds=[1, 2],
        epochs={"honest": [1.0]},
        model="zoo/trial/a.json",
        recipe="quick",
        data={"a": "sha256:" + "ab" * 32},
        init=None,
        tasks={},
        parameters={"total": 1, "trainable": 1},
        footnotes=[],
        fingerprint={},
        numerics=1,
    )
    return Results(table="trial", cells={"a": cell})


def test_a_report_judges_each_column_its_own_way() -> None:
    columns = {"RMSE": "test.rmse", "AUC of x": "test.auc@x", "recall": "t.recall_at_precision@0.9"}
    published = PublishedTable.model_validate(
        {
            "title": "Trial",
            "description": "A table.",
            "papers": {"p": {"name": "P", "citation": "C"}},
            "parts": [
                {
                    "title": "Part",
                    "paper": "p",
                    "columns": columns,
                    "rows": [
                        {
                            "name": "A",
                            "cell": "a",
                            "numbers": {name: {"value": 2.0} for name in columns},
                        }
                    ],
                }
            ],
        }
    )
    results = make_results(dict.fromkeys(columns.values(), 3.0))
    comparison = compare(published, results)
    assert [entry.verdict.text for entry in comparison.entries] == [
        "worse, higher by 1.00",
        "above",
        "above",
    ]
    text = render_report(comparison, {}, [])
    assert "Less is better for RMSE." in text


def test_metrics_of_our_own_with_parameters_are_shown() -> None:
    published = PublishedTable.model_validate(
        {
            "title": "T",
            "description": "D",
            "parts": [{"title": "P", "columns": {"F1": "test.f1"}, "rows": [{"name": "R"}]}],
        }
    )
    keys = ["test.auc@a label", "test.threshold_at_precision@0.9"]
    comparison = compare(published, make_results(dict.fromkeys(keys, 3.0)))
    assert [entry.metric for entry in comparison.entries] == keys
