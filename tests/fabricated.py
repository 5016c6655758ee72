"""A small project whose cells were never trained: made-up predictions in the files of training."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nlp_core.report.comparison import Comparison, Entry
from nlp_core.report.evaluation import evaluate_table

RECIPE = {
    "source": "ours, for tests",
    "optimizer": {"name": "adam", "lr": 0.001},
    "schedule": {"name": "constant"},
    "batch_size": 4,
    "epochs": 3,
}
FINGERPRINT = {"device": "cpu", "torch": "2.13.0", "isa": "avx2"}

PUBLISHED = """
title: Trial
description: A table for tests.
papers:
  first: {name: First et al. 2000, citation: A paper, place: Table 1, url: "https://example.org"}
  other: {name: Other 1999, citation: Another paper}
reasons:
  time: for want of time
parts:
  - title: Ranking
    note: Of two questions.
    paper: first
    columns: {AUC: test.auc, MAP: test.map}
    rows:
      - name: Alpha
        cell: alpha
        numbers:
          AUC:
            value: 88.0
            literature: [{value: 86.0, sd: 0.25, paper: other}]
      - name: Delta
        cell: delta
        reason: time
        numbers:
          AUC: {value: 91.0, claim: not_run}
      - name: Epsilon
        cell: epsilon
        numbers:
          AUC: {value: 92.0}
      - name: Reference
        paper: other
        numbers:
          AUC: {value: 70.0}
  - title: Classification
    paper: first
    selection: paper
    decimals: 1
    columns: {accuracy: dev.accuracy}
    rows:
      - name: Beta
        cell: beta
        numbers:
          accuracy: {value: 90.0, remark: Few examples.}
"""

# By cell: kind, metrics, splits (select, report), labels.
TASKS: Mapping[str, dict[str, Any]] = {
    "alpha": {
        "kind": "ranking",
        "labels": ["0", "1"],
        "metrics": ["auc", "map"],
        "select_split": "dev",
        "report_split": "test",
        "scheme": None,
        "footnotes": ["words.txt: a part of the official file"],
    },
    "beta": {
        "kind": "classification",
        "labels": ["no", "yes"],
        "metrics": ["accuracy"],
        "select_split": "held_out",
        "report_split": "dev",
        "scheme": None,
        "footnotes": [],
    },
    "gamma": {
        "kind": "tagging",
        "labels": ["B-A", "I-A", "O"],
        "metrics": ["f1"],
        "select_split": "dev",
        "report_split": "test",
        "scheme": "BIO",
        "footnotes": [],
    },
}
SEEDS = {"alpha": [1, 2], "beta": [1, 2, 3], "gamma": [7]}


def make_project(root: Path, cells: Sequence[str] = ("alpha", "beta", "gamma")) -> Path:
    """Write params.yaml and the artifacts of trained cells, and return the root."""
    experiments = {
        cell: {
            "table": "trial",
            "model": f"zoo/trial/{cell}.json",
            "data": cell,
            "init": "data/processed/words",
            "recipe": "quick",
            "seeds": SEEDS[cell],
        }
        for cell in cells
    }
    # in the grid, and not trained
    further = {"epsilon": experiments[cells[0]] | {"model": "zoo/trial/epsilon.json"}}
    params = {
        "numerics": 1,
        "tasks": [*cells, "words"],
        "tables": ["trial"],
        "recipes": {"quick": RECIPE},
        "experiments": experiments | further,
        "optional": [*further],
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    for cell in cells:
        make_cell(root, cell)
    return root


def make_published(root: Path) -> Path:
    """Write the published numbers of the trial table and return the file."""
    path = root / "reports" / "published" / "trial.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PUBLISHED)
    return path


def make_cell(root: Path, cell: str) -> Path:
    """Write what training leaves of one cell and return its folder."""
    folder = root / "artifacts" / "cells" / "trial" / cell
    task = TASKS[cell]
    selections = ["honest", "paper"] if task["select_split"] == "held_out" else ["honest"]
    for seed in SEEDS[cell]:
        path = folder / f"seed-{seed}" / "predictions" / f"{cell}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(make_predictions(cell, seed)), path)
        events: list[dict[str, Any]] = [
            {"event": "train", "epoch": 1, "step": 1, "lr": 0.001, "loss": 0.7},
            {"event": "train", "epoch": 1, "step": 2, "lr": 0.001, "loss": 0.5},
            {
                "event": "validate",
                "epoch": 1.0,
                "step": 2,
                "split": task["select_split"],
                "metrics": {task["metrics"][0]: 50.0},
            },
        ]
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (folder / f"seed-{seed}" / "history.jsonl").write_text(lines)
    note = {
        "table": "trial",
        "cell": cell,
        "model": f"zoo/trial/{cell}.json",
        "recipe": "quick",
        "seeds": SEEDS[cell],
        "data": {cell: "sha256:" + "ab" * 32},
        "init": {"path": "data/processed/words", "sha256": "sha256:" + "cd" * 32},
        "numerics": 1,
        "fingerprint": FINGERPRINT,
        "parameters": {"total": 12345, "trainable": 345},
        "tasks": {cell: task},
        "runs": {
            str(seed): {
                "weights": "sha256:" + f"{seed:02d}" * 32,
                "epochs": {selection: 1.0 + idx for idx, selection in enumerate(selections)},
            }
            for seed in SEEDS[cell]
        },
    }
    (folder / "cell.json").write_text(json.dumps(note))
    return folder


def make_predictions(cell: str, seed: int) -> dict[str, list[Any]]:
    """Return the columns of a predictions file; by seed the numbers differ in a known way."""
    if cell == "alpha":
        # Two questions of two candidates; seed 1 ranks both right, seed 2 the second one wrong.
        high = [0.9, 0.1, 0.8, 0.2] if seed == 1 else [0.9, 0.1, 0.2, 0.8]
        return {
            "split": ["test"] * 4,
            "selection": ["honest"] * 4,
            "id": [0, 1, 2, 3],
            "group": [0, 0, 1, 1],
            "target": ["1", "0", "1", "0"],
            "prediction": ["1" if score > 0.5 else "0" for score in high],
            "score": [[1 - score, score] for score in high],
        }
    if cell == "beta":
        # Honest: `seed` of four right; as the paper: all four right.
        honest = ["yes"] * seed + ["no"] * (4 - seed)
        return {
            "split": ["dev"] * 8 + ["held_out"] * 2,
            "selection": ["honest"] * 4 + ["paper"] * 4 + ["honest"] * 2,
            "id": [0, 1, 2, 3, 0, 1, 2, 3, 0, 1],
            "target": ["yes"] * 10,
            "prediction": [*honest, *["yes"] * 4, "yes", "no"],
            "score": [[0.5, 0.5]] * 10,
        }
    return {
        "split": ["test", "test"],
        "selection": ["honest", "honest"],
        "id": [0, 1],
        "target": [["B-A", "I-A"], ["B-A", "O"]],
        "prediction": [["B-A", "I-A"], ["O", "O"]],
    }


def edit_json(path: Path, **changes: Any) -> None:  # Any: JSON holds anything
    """Change top-level keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose table `trial` is measured."""
    make_project(tmp_path)
    make_published(tmp_path)
    evaluate_table("trial", tmp_path)
    return tmp_path


def find_entry(comparison: Comparison, row: str, column: str, selection: str = "honest") -> Entry:
    """Return the one entry of a row, a column and a way of choosing the epoch."""
    (entry,) = [
        entry
        for entry in comparison.entries
        if (entry.row, entry.column, entry.selection) == (row, column, selection)
    ]
    return entry
