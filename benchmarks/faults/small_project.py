"""A project of generated data with a cell of every sort, whose stages take seconds."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.tiny_corpus import ENCODER, write_project

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ("sources", "zoo/sample", "reports/published/sample.yaml", "dvc.yaml")
OUTPUTS = ("data/processed", "artifacts/cells", "artifacts/groups", "results", "reports")
GROUP = "artifacts/groups/pair"
SECONDS = 300
RECIPE = {
    "source": "ours, for a test",
    "optimizer": {"name": "adam", "lr": 0.003},
    "schedule": {"name": "warmup_linear", "warmup": 0.1},
    "batch_size": 32,
    "epochs": 3,
    "clip_norm": 5.0,
}
DISTILLATION = {"name": "kl", "temperature": 2.0, "weight": 0.5}


class Stage(NamedTuple):
    """A stage and the arguments that it is started with."""

    name: str
    key: str

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", f"stages.{self.name}", *self.key.split()]


STAGES = (
    Stage("preprocess", "sample_vectors"),
    Stage("preprocess", "sample_sentence"),
    Stage("finetune", "old"),
    Stage("teach", "taught_sentence"),
    Stage("finetune", "young"),
    Stage("gather", f"artifacts/cells/small/old {GROUP}"),
    Stage("gather", f"artifacts/cells/small/young {GROUP}"),
    Stage("ensemble", "both"),
    Stage("pretrain", "tiny"),
    Stage("export", "shipped"),
    Stage("evaluate", "small"),
    Stage("report", "small"),
)


def write_small_project(root: Path) -> None:
    """Write what the stages read."""
    root.mkdir()
    for name in COPIED:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, target)
    write_project(root)
    cell = {
        "table": "small",
        "init": "data/processed/sample_vectors",
        "model": "zoo/sample/sentence_bilstm.json",
    }
    old = {"cell": "artifacts/cells/small/old"}
    _write(
        root / "params.yaml",
        {
            "numerics": 2,
            "tasks": ["sample_sentence", "sample_vectors", "tiny_corpus", "tiny_text"],
            "taught": {"taught_sentence": {**old, "seeds": [1], "data": "sample_sentence"}},
            "groups": {
                f"pair_{cell}": {"group": GROUP, "folder": "artifacts/cells/small", "member": cell}
                for cell in ("old", "young")
            },
        },
    )
    small = {
        "recipes": {"alone": RECIPE, "taught": RECIPE | {"distillation": DISTILLATION}},
        "experiments": {
            "old": {**cell, "data": "sample_sentence", "recipe": "alone", "seeds": [1, 2]},
            "young": {**cell, "data": "taught_sentence", "recipe": "taught", "seeds": [1]},
        },
        "ensembles": {
            "both": {
                "table": "small",
                "cells": GROUP,
                "data": "sample_sentence",
                "member_seeds": [1],
                "combination": "probabilities",
            }
        },
    }
    timing = {"runs": 1, "sentences": 8, "batches": 2, "threads": 1}
    export = {"table": "bundles", "seed": 1, "variants": ["float32"], **old}
    _write(root / "grid/small.yaml", small)
    _write(root / "grid/bundles.yaml", {"timing": timing, "exports": {"shipped": export}})
    _write(root / "grid/pretrain.yaml", {"encoders": {"tiny": ENCODER}})
    published = yaml.safe_load((root / COPIED[2]).read_text(encoding="utf-8"))
    part = published["parts"][0]
    part["rows"] = [{"name": name, "cell": name} for name in ("old", "young", "both")]
    for table in ("small", "bundles", "pretrain"):
        content = published | {"title": table, "parts": [part]}
        _write(root / f"reports/published/{table}.yaml", content)
    (root / COPIED[2]).unlink()


def start(stage: Stage, root: Path, **options: Any) -> subprocess.Popen[str]:
    """Start a stage in a process group of its own."""
    return subprocess.Popen(
        stage.command,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def finish(stage: Stage, root: Path) -> None:
    """Run a stage, which must succeed."""
    process = start(stage, root)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, f"{stage}: {errors[-3000:]}"


def digest_outputs(root: Path) -> dict[str, str]:
    """Return the digest of each file that stages wrote; hidden ones are of runs that were cut."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in _list_files(root)
    }


def _list_files(root: Path) -> Iterator[Path]:
    for folder in OUTPUTS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not any(part.startswith(".") for part in path.parts[1:]):
                yield path


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # without anchors: the second of two equal mappings would be one
    path.write_text(yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False))
