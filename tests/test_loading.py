"""Weights of an encoder's folder: whole, damaged, or those of another model."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from nlp_core.encoders.pretrained import build_encoder
from nlp_core.errors import DataError
from tests.tiny_encoder import write_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path)


def load(folder: Path, **options: Any) -> torch.nn.Module:
    module: torch.nn.Module = build_encoder(
        json.loads((folder / "config.json").read_text()), folder, **options
    )
    return module


def test_weights_of_another_model_are_an_error(folder: Path) -> None:
    path = folder / "model.safetensors"
    stored = load_file(path)

    def write(weights: dict[str, torch.Tensor]) -> None:
        save_file(weights, path, metadata={"format": "pt"})

    write({name: item for name, item in stored.items() if "pooler" not in name})
    load(folder)  # which has no pooling layer
    write({name: item for name, item in stored.items() if ".layer.1." not in name})
    with pytest.raises(DataError, match=r"model\.safetensors: found no weights.* and more"):
        load(folder)
    load(folder, num_layers=1)
    write({f"other.{name}": item for name, item in stored.items()})
    with pytest.raises(DataError, match="found no weights"):
        load(folder)
    name = "encoder.layer.0.output.dense.weight"
    write(stored | {name: torch.zeros(8, 3), "pooler.dense.bias": torch.zeros(3)})
    with pytest.raises(DataError, match=f"of another shape, for {name};"):
        load(folder)


def test_damaged_weights_are_an_error_that_leaves_the_log_as_it_was(folder: Path) -> None:
    level = logging.get_verbosity()
    (folder / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"model\.safetensors: found a broken file"):
        load(folder)
    assert logging.get_verbosity() == level
