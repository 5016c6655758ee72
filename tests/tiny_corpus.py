"""A made-up corpus, running text to measure on, and encoders of a few hundred weights for them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nlp_core.config.base import parse_config
from nlp_core.config.dataset import DatasetConfig
from nlp_core.config.params import Params, read_params
from nlp_core.data.preprocess import preprocess_source
from nlp_core.files import digest_file, write_json
from nlp_core.training.encoder_plan import EncoderPlan, read_encoder
from tests.tiny_source import ABOUT

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kite", "lion"]
ARCHITECTURE: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
ENCODER: dict[str, Any] = {
    "table": "pretrain",
    "source": "a test",
    "data": "tiny_corpus",
    "measured_on": "tiny_text",
    "init": "encoders/tiny.json",
    "tokenizer": {"vocab_size": 120, "lowercase": True},
    "masking": {"share": 0.2, "most": 5},
    "phases": [{"length": 16, "steps": 12, "batch_size": 16}],
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.01, "decayed": "matrices"},
    "schedule": {"name": "warmup_linear", "warmup": 0.1},
    "clip_norm": 1.0,
    "validate_every": 4,
    "seeds": [3],
}


def write_sentences(generator: np.random.Generator, count: int) -> str:
    """Return sentences that are all of one word, so that masked words can be predicted."""
    word = WORDS[int(generator.integers(len(WORDS)))]
    sizes = generator.integers(4, 9, size=count)
    return " ".join(" ".join([word] * int(size)).capitalize() + "." for size in sizes)


def make_documents(count: int, seed: int = 1, sentences: int = 6) -> list[dict[str, Any]]:
    """Return documents of two paragraphs."""
    generator = np.random.default_rng(seed)
    return [
        {
            "id": number,
            "title": f"Document {number}",
            "paragraphs": [write_sentences(generator, sentences) for _ in range(2)],
        }
        for number in range(count)
    ]


def process(root: Path, name: str, files: dict[str, str], content: dict[str, Any]) -> Path:
    """Write checked members and preprocess them as data/processed/<name>."""
    raw = root / "data/raw" / name
    raw.mkdir(parents=True, exist_ok=True)
    members = {}
    for member, text in files.items():
        (raw / member).write_text(text, encoding="utf-8")
        members[member] = {"sha256": digest_file(raw / member), "bytes": 0, "label": "made up"}
    write_json(raw / "manifest.json", {"source": name, "members": members})
    pin = [{"digest": "0" * 64}]
    listed = [{"name": member, "mirror": member, "sha256": pin} for member in files]
    dataset = parse_config(ABOUT | {"files": listed} | content, DatasetConfig, where=name)
    preprocess_source(name, dataset, root / "data")
    return root / "data/processed" / name


def write_corpus(
    root: Path, written: list[dict[str, Any]], *, share: float = 0.2, **changes: object
) -> Path:
    """Write a processed corpus and return its folder."""
    text = "".join(json.dumps(document) + "\n" for document in written)
    corpus: dict[str, Any] = {
        "files": ["documents.jsonl"],
        "documents": len(written),
        "held_out": {"share": share, "seed": 7},
    }
    return process(root, "tiny_corpus", {"documents.jsonl": text}, {"corpus": corpus | changes})


def write_running_text(root: Path) -> Path:
    """Write a processed task of running text and return its folder."""
    generator = np.random.default_rng(9)
    lines = []
    for number in range(4):
        lines += [f" = Title {number} = ", " = = Part = = "]
        lines += [f" {write_sentences(generator, 4)} <unk> ", f" {write_sentences(generator, 2)} "]
    text = "\n".join(lines) + "\n"
    task = {
        "kind": "language_model",
        "reader": {"name": "lines"},
        "tokens": "spaces",
        "labels": [],
        "metrics": ["perplexity"],
        "splits": {"test": {"file": "test.txt", "rows": len(lines)}},
        "select_split": None,
        "report_split": "test",
    }
    return process(root, "tiny_text", {"test.txt": text}, {"task": task})


def write_project(root: Path, documents: int = 40) -> None:
    """Write corpus, text and architecture into an empty project."""
    write_corpus(root, make_documents(documents))
    write_running_text(root)
    write_json(root / "encoders/tiny.json", ARCHITECTURE)


def make_params(root: Path, **encoders: dict[str, Any]) -> Params:
    """Write a params.yaml of encoders and read it."""
    params = {
        "numerics": 1,
        "tasks": ["tiny_corpus", "tiny_text", "tiny_encoder"],
        "tables": ["glue", "pretrain"],
        "encoders": {name: ENCODER | changes for name, changes in encoders.items()},
        "recipes": {},
        "experiments": {},
    }
    (root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    return read_params(root / "params.yaml")


def make_plan(root: Path, *, steps: int | None = None, **changes: Any) -> EncoderPlan:
    """Return the plan of an encoder `tiny`, whose one phase has `steps` steps."""
    if steps is not None:
        changes["phases"] = [ENCODER["phases"][0] | {"steps": steps}]
    return read_encoder("tiny", make_params(root, tiny=changes))
