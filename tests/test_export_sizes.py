"""A trace takes texts of all lengths, or is refused: no size of its sample is fixed in silence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nlp_core.blocks import BLOCKS
from nlp_core.blocks.pooling import DynamicPooling, KMaxPooling, Pooling1D
from nlp_core.data.split_column import TextColumn
from nlp_core.data.task import Split
from nlp_core.errors import ConfigError
from nlp_core.export.graph import trace
from nlp_core.export.inputs import InputPlan, TensorPlan
from reglue_runtime import load
from tests.tiny import write_task, write_vectors
from tests.tiny_export import WORDS, export, make_trained, unchecked_shapes

TIMES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 13, 40)
PLAN = InputPlan(
    tensors={
        "x": TensorPlan(torch.float32, ("B", "T", 3)),
        "lengths": TensorPlan(torch.int64, ("B",)),
    }
)


@pytest.fixture(scope="module", autouse=True)
def _unchecked_shapes() -> Iterator[None]:
    with unchecked_shapes():
        yield


class Alone(nn.Module):
    """A block that reads a sequence, as a module to be traced."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block.eval()

    def forward(self, tensors: dict[str, Tensor]) -> Tensor:
        """Return what the block makes of the sequence."""
        x_BTD, lengths_B = tensors["x"], tensors["lengths"]
        found: Tensor = self.block(x_BTD, torch.arange(x_BTD.shape[1]) < lengths_B.unsqueeze(1))
        return found


@pytest.mark.parametrize(
    "block",
    [
        Pooling1D(3, window=2),
        Pooling1D(3, window=9),
        Pooling1D(3, window=3, stride=5, pool="mean"),
        KMaxPooling(3, k=3),
        DynamicPooling(3, segments=[4]),
    ],
    ids=lambda block: BLOCKS.name_of(type(block)),
)
def test_a_traced_block_says_the_same_of_all_lengths(block: nn.Module) -> None:
    module = Alone(block)
    program = trace(module, PLAN, "model.json").program.module()
    generator = torch.Generator().manual_seed(0)
    for time in TIMES:
        for batch in (1, 3):
            x = torch.randn(batch, time, 3, generator=generator)
            tensors = {"x": x, "lengths": torch.arange(time, time - batch, -1).clamp(min=0)}
            torch.testing.assert_close(program(tensors), module(tensors))


class Fixed(nn.Module):
    """A module that does something else for texts longer than that of the sample."""

    def forward(self, tensors: dict[str, Tensor]) -> Tensor:
        """Return the first and the last token added up, where there is more than the sample's."""
        x_BTD = tensors["x"]
        return x_BTD[:, 0] + x_BTD[:, -1] if x_BTD.shape[1] > 20 else x_BTD[:, 0]


def test_a_size_that_stays_fixed_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model\.json: a block or a head .*Guard failed.*\[1\] >= 21"
    ):
        trace(Fixed(), PLAN, "model.json")


def make_graph(layer: dict[str, Any]) -> dict[str, Any]:
    layers = [WORDS["layers"][0], {"name": "short", "inputs": ["word"], **layer}]
    if layer["block"] == "pooling1d":
        layers.append({"name": "whole", "block": "pooling", "inputs": ["short"], "pool": "mean"})
    heads = {"label": {"head": "classification", "inputs": [layers[-1]["name"]]}}
    return {"inputs": WORDS["inputs"], "layers": layers, "heads": heads}


def make_split(words: list[str]) -> Split:
    text = TextColumn.build(words, np.array([0, len(words)]))
    return Split("one", np.arange(1), {"tokens": text}, {"label": [None]}, None)


def test_a_graph_of_windows_reads_texts_longer_than_its_sample(tmp_path: Path) -> None:
    graph = make_graph({"block": "pooling1d", "window": 9})
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), graph)
    export(trained, tmp_path / "bundle", variant="float32")
    bundle = load(tmp_path / "bundle")
    words = np.random.default_rng(0).choice(["good", "bad", "film", "sad", "nice"], 40).tolist()
    module = trained.model.eval()
    for time in TIMES:
        batch = trained.featurizer.encode(make_split(words[:time])).batch(np.arange(1))
        with torch.no_grad():
            (expected,) = module(batch)["label"][0].softmax(-1).tolist()
        (found,) = bundle.predict([words[:time]])
        assert list(found["scores"].values()) == pytest.approx(expected, abs=1e-5), time


def test_an_operator_that_onnx_has_not_is_refused(tmp_path: Path) -> None:
    graph = make_graph({"block": "kmax_pooling", "k": 3})
    trained = make_trained(tmp_path, write_task(tmp_path), write_vectors(tmp_path), graph)
    with pytest.raises(ConfigError, match=r"has no ONNX operator \(.*sort"):
        export(trained, tmp_path / "bundle", variant="float32")
    assert not (tmp_path / "bundle").exists()
