"""Small processed tasks, written as the preprocess stage writes them, for the tests of training."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from nlp_core.config.recipe import RecipeConfig
from nlp_core.files import digest_file, write_json

GOOD = ["good", "great", "fine", "nice"]
BAD = ["bad", "poor", "sad", "awful"]
NEUTRAL = ["the", "film", "is", "a", "Film", "42", "x7"]
METRICS = {
    "classification": ["accuracy"],
    "multi_label": ["micro_f1", "exact_match", "auc@good"],
    "ranking": ["auc", "map", "mrr"],
    "tagging": ["f1", "accuracy"],
    "intent_slots": ["frame_accuracy", "intent_accuracy", "slot_f1"],
    "pair_regression": ["pearson"],
}
LABELS = {
    "classification": ["0", "1"],
    "multi_label": ["bad", "good"],
    "ranking": ["0", "1"],
    "tagging": ["B-Q", "E-Q", "I-Q", "O", "S-Q"],
    "intent_slots": ["0", "1"],
    "pair_regression": [],
}


def write_task(root: Path, kind: str = "classification", *, held_out: bool = False) -> Path:
    """Write a processed task of some kind and return its folder."""
    folder = root / "data/processed" / f"tiny_{kind}"
    folder.mkdir(parents=True)
    select, report = ("held_out", "dev") if held_out else ("dev", "test")
    splits = {}
    for number, split in enumerate(dict.fromkeys(["train", select, report])):
        size = 48 if split == "train" else 20
        pq.write_table(_make_table(kind, size, number), folder / f"{split}.parquet")
        digest = digest_file(folder / f"{split}.parquet")
        splits[split] = {"rows": size, "sha256": digest, "labels": {}}
    manifest = {
        "task": folder.name,
        "kind": kind,
        "labels": LABELS[kind],
        "splits": splits,
        "select_split": select,
        "report_split": report,
        "metrics": METRICS[kind],
        "scheme": "BIOES" if kind in ("tagging", "intent_slots") else None,
        "source": {"tiny.tsv": {"sha256": "0" * 64, "label": "made up for a test"}},
    }
    if kind == "intent_slots":
        manifest["tags"] = LABELS["tagging"]
    write_json(folder / "manifest.json", manifest)
    return folder


def write_vectors(root: Path, dim: int = 8) -> Path:
    """Write processed word vectors of some of the words and return their folder."""
    folder = root / "data/processed/tiny_vectors"
    folder.mkdir(parents=True)
    words = [*GOOD, *BAD, "the", "film", "unseen"]
    vectors = np.random.default_rng(0).normal(size=(len(words), dim)).astype(np.float32)
    save_file({"vectors": vectors}, folder / "8d.safetensors")
    (folder / "8d.words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    table = {"rows": len(words), "dim": dim, "sha256": digest_file(folder / "8d.safetensors")}
    note = {"task": "tiny_vectors", "kind": "vectors", "tables": {"8d": table}, "source": {}}
    write_json(folder / "manifest.json", note)
    return folder


def make_recipe(**changes: object) -> RecipeConfig:
    """Return a short recipe."""
    values: dict[str, object] = {
        "source": "a test",
        "optimizer": {"name": "adam", "lr": 0.01},
        "schedule": {"name": "warmup_linear", "warmup": 0.1},
        "batch_size": 8,
        "epochs": 3,
        "clip_norm": 5.0,
        "ema_decay": 0.9,
    }
    return RecipeConfig.model_validate({**values, **changes})


def _make_table(kind: str, size: int, seed: int) -> pa.Table:
    generator = np.random.default_rng(seed)
    rows = [_make_row(kind, generator) for _ in range(size)]
    columns: dict[str, object] = {"id": list(range(size))}
    columns |= {name: [row[name] for row in rows] for name in rows[0]}
    if kind == "ranking":
        columns["group"] = [idx // 4 for idx in range(size)]
    return pa.table(columns)


def _make_row(kind: str, generator: np.random.Generator) -> dict[str, object]:
    if kind == "multi_label":
        return _make_labelled_row(generator)
    label = int(generator.integers(2))
    words = [str(w) for w in generator.choice(NEUTRAL, size=int(generator.integers(2, 7)))]
    sign = str(generator.choice(GOOD if label else BAD))
    if kind in ("tagging", "intent_slots"):
        tags = ["O"] * len(words)
        words[1:1] = [sign, "film"]
        tags[1:1] = ["B-Q", "E-Q"]
        row: dict[str, object] = {"tokens": words, "tags": tags}
        return row if kind == "tagging" else {**row, "label": str(label)}
    words.insert(1, sign)
    if kind == "classification":
        return {"text": " ".join(words), "tokens": words, "label": str(label)}
    texts = {"text_a": "good film?", "text_b": " ".join(words)}
    pair = {**texts, "tokens_a": ["good", "film", "?"], "tokens_b": words}
    return {**pair, "label": str(label) if kind == "ranking" else float(label)}


def _make_labelled_row(generator: np.random.Generator) -> dict[str, object]:
    words = [str(w) for w in generator.choice(NEUTRAL, size=int(generator.integers(2, 7)))]
    labels = []
    for label, signs in (("good", GOOD), ("bad", BAD)):
        if generator.integers(2):
            words.insert(1, str(generator.choice(signs)))
            labels.append(label)
    return {"text": " ".join(words), "tokens": words, "labels": labels}
