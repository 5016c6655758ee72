"""The table of encoders: what is gathered, what is written, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlp_core.errors import DataError
from nlp_core.files import digest_json, write_json
from nlp_core.report.cell import TrainedCell
from nlp_core.report.comparison import read_comparison
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.example_writing import write_examples
from nlp_core.report.examples import measure_examples, read_runs
from nlp_core.report.table import write_report
from nlp_core.statistics import resample
from nlp_core.training.pretraining import pretrain_encoder
from tests.test_replacement import REPLACED
from tests.tiny_corpus import ARCHITECTURE, make_params, make_plan
from tests.tiny_pretraining import FURTHER, project, read_note, write_start

__all__ = ["project"]

METRICS = {
    "fresh.text.perplexity": 900.0,
    "before.text.perplexity": 90.0,
    "text.perplexity": 30.0,
    "text.accuracy": 40.0,
    "train.accuracy": 45.0,
}
PUBLISHED = """
title: Trial
description: Of encoders.
papers:
  first: {name: First, citation: A log}
parts:
  - title: Perplexity
    columns: {before: before.text.perplexity, after: text.perplexity}
    rows: [{name: Tiny, cell: tiny}]
  - title: Accuracy
    columns: {in training: train.accuracy}
    rows:
      - {name: Tiny, cell: tiny}
      - {name: Large, paper: first, numbers: {in training: {value: 70.0}}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    params = make_params(tmp_path, tiny={"head_start": None})
    folder, config = tmp_path / "artifacts/cells/pretrain/tiny", params.encoders["tiny"]
    seed = str(config.seeds[0])
    note = {
        "table": "pretrain",
        "cell": "tiny",
        "model": config.init,
        "recipe": "tiny",
        "recipe_digest": digest_json(config.describe()),
        "seeds": config.seeds,
        "numerics": 1,
        "data": {"tiny_corpus": "sha256:" + "ab" * 32},
        "init": {"path": "encoders/tiny.json", "sha256": "sha256:" + "cd" * 32},
        "fingerprint": {"device": "cpu", "isa": "avx2"},
        "parameters": {"total": 12345, "heads": 345},
        "tasks": {
            "tiny_corpus": {
                "kind": "masked_language_model",
                "labels": [],
                "metrics": [],
                "select_split": "",
                "report_split": "tiny_text",
                "scheme": None,
                "footnotes": ["documents.jsonl: made up"],
            }
        },
        "runs": {seed: {"weights": "sha256:" + "ef" * 32, "epochs": {}}},
        "metrics": {name: [value] for name, value in METRICS.items()},
    }
    write_json(folder / "cell.json", note)
    events: list[dict[str, Any]] = [
        {
            "event": "validate",
            "step": step,
            "split": "text",
            "metrics": {"perplexity": 100.0 / (step + 1)},
        }
        for step in (0, 4, 12)
    ]
    events.insert(1, {"event": "train", "step": 2, "loss": 1.0})
    sums = {"perplexity": [[2.0, 1.0], [3.0, 2.0]]}
    events.append({"event": "measure", "at": "after", "split": "text", "sums": sums})
    events[-1]["documents"] = [0, 2]
    (folder / "history.jsonl").write_text("".join(json.dumps(item) + "\n" for item in events))
    path = tmp_path / "reports/published/pretrain.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(PUBLISHED)
    return tmp_path


def test_results_are_what_training_measured(root: Path) -> None:
    evaluate_table("pretrain", root)
    results = json.loads((root / "results/pretrain.json").read_text())
    cell = results["cells"]["tiny"]
    assert {key: score["mean"] for key, score in cell["metrics"].items()} == METRICS
    assert results["curves"] == {"tiny": {"text": [[0, 100.0], [4, 20.0], [12, 7.692308]]}}
    entries = {
        (entry.row, entry.column): entry.verdict.text
        for entry in read_comparison("pretrain", root).entries
    }
    assert entries == {
        ("Tiny", "before"): "no published number",
        ("Tiny", "after"): "no published number",
        ("Tiny", "in training"): "no published number",
        ("Large", "in training"): "for reference",
    }


@pytest.mark.parametrize("changes", [FURTHER, {"pairs": "next_sentence"}, REPLACED])
def test_sums_of_documents_give_the_metrics(project: Path, changes: dict[str, Any]) -> None:
    write_json(project / "encoders/tiny.json", ARCHITECTURE | {"model_type": "roformer"})
    write_start(project)
    # a seed of more than 16 bits too
    folder = pretrain_encoder(make_plan(project, steps=2, seeds=[3, 40_000], **changes))
    note, path = read_note(folder), project / "sums.parquet"
    write_examples(path, folder, TrainedCell.model_validate(note))
    found = measure_examples(path)
    without = {name for name in note["metrics"] if "train." in name}
    assert found.keys() == note["metrics"].keys() - without
    for name, values in found.items():
        assert values == pytest.approx(note["metrics"][name], rel=1e-8, abs=1e-5), name
    runs = next(item for item in read_runs(path) if item.prefix == "before.")
    score = runs.build_score("perplexity")
    assert score is not None
    assert score.shape == (2, len(runs.ids))
    interval = resample(score).interval
    assert interval.low < score.values.mean() < interval.high


def test_a_history_of_earlier_code_is_named(root: Path) -> None:
    path = root / "artifacts/cells/pretrain/tiny/history.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"history\.jsonl: found no sums .* pretrain the encoder"):
        evaluate_table("pretrain", root)


def test_report_has_numbers_making_and_curves(root: Path) -> None:
    evaluate_table("pretrain", root)
    write_report("pretrain", root)
    text = (root / "reports/pretrain.md").read_text()
    assert "| Tiny | before | 90.00 (1) | no published number |" in text
    assert "| `tiny` | encoders/tiny.json | tiny_corpus |  | 12 | 3 | 12,345 |" in text
    assert "- **tiny**: a test. data tiny_corpus, measured_on tiny_text" in text
    assert "- documents.jsonl: made up" in text
    assert "`dvc repro finetune" not in text
    path = root / "reports/pretrain.svg"
    first = path.read_bytes()
    assert b"Held-out masked perplexity" in first
    assert b"7.692" in first
    assert b"head alone" not in first
    write_report("pretrain", root)
    assert path.read_bytes() == first


def test_an_encoder_that_is_not_as_described_is_refused(root: Path) -> None:
    make_params(root, tiny={"validate_every": 99})
    with pytest.raises(DataError, match=r"found others than the grid says; .*pretrain@tiny"):
        evaluate_table("pretrain", root)
    make_params(root, tiny={}, other={})
    with pytest.raises(DataError, match=r"other/cell\.json: no such file"):
        evaluate_table("pretrain", root)
