"""A source of a few reviews as the download leaves it, and its preprocessing."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import DatasetConfig
from nlp_core.data.preprocess import preprocess_source
from nlp_core.files import digest_file, write_json

ABOUT = {"title": "t", "licence": "l", "citation": "c", "homepage": "h"}
REVIEWS = "text\tlabel\n" + "".join(f"word {n} is fine\t{n % 2}\n" for n in range(20))
UNSEEN = "id\ttext\n0\tnobody knows\n"
TASK: dict[str, Any] = {
    "kind": "classification",
    "reader": {"name": "tsv", "texts": ["text"], "label": "label"},
    "tokens": "spaces",
    "labels": ["0", "1"],
    "metrics": ["accuracy"],
    "splits": {
        "train": {"file": "train.tsv", "rows": 20},
        "dev": {"file": "dev.tsv", "rows": 20},
        "test": {"file": "test.tsv", "rows": 1, "labelled": False},
    },
    "select_split": "held_out",
    "report_split": "dev",
    "held_out": {"share": 0.1, "seed": 1, "by": "row"},
}
FILES = {"train.tsv": REVIEWS, "dev.tsv": REVIEWS, "test.tsv": UNSEEN}


def build(content: dict[str, Any], members: list[str]) -> DatasetConfig:
    pin = [{"digest": "0" * 64}]
    files = [{"name": name, "mirror": name, "sha256": pin} for name in members]
    return parse_config(ABOUT | {"files": files} | content, DatasetConfig, where="d.yaml")


def put(data_dir: Path, files: Mapping[str, str | bytes], label: str | None = None) -> None:
    """Write checked members as the download stage leaves them."""
    folder = data_dir / "raw" / "d"
    folder.mkdir(parents=True, exist_ok=True)
    members: dict[str, object] = {}
    for name, text in files.items():
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
        members[name] = {"sha256": digest_file(folder / name), "bytes": 0, "label": label}
    write_json(folder / "manifest.json", {"source": "d", "members": members})


def run(data_dir: Path, task: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    put(data_dir, files)
    preprocess_source("d", build({"task": task}, sorted(files)), data_dir)
    manifest: dict[str, Any] = json.loads((data_dir / "processed/d/manifest.json").read_text())
    return manifest


def read(data_dir: Path, split: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        data_dir / "processed" / "d" / f"{split}.parquet"
    ).to_pylist()
    return rows
