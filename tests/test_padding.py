"""Batches padded to a multiple: their shapes, and that masks hide the padding."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlp_core.cli import main
from nlp_core.config.base import parse_config
from nlp_core.config.recipe import RecipeConfig
from nlp_core.data.batching import Ragged
from nlp_core.errors import ConfigError
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from tests.test_sizes import CASES
from tests.tiny import make_recipe, write_task, write_vectors
from tests.tiny_encoder import write_encoder
from tests.tiny_export import make_trained
from tests.user_files import write_tsv


def test_rows_are_padded_to_a_multiple_or_the_widest_that_is_allowed() -> None:
    rows = Ragged.join([[1, 2, 3], [4], [5, 6, 7, 8, 9]], np.int64)
    assert rows.take(np.array([0, 1]), padding=-1, multiple=4).tolist() == [
        [1, 2, 3, -1],
        [4, -1, -1, -1],
    ]
    assert rows.mask(np.array([2]), multiple=4).shape == (1, 8)
    assert replace(rows, most=6).mask(np.array([2]), multiple=4).shape == (1, 6)
    assert rows.take(np.array([0, 1])).shape == (2, 3)


def measure(model: GraphModel, batch: Batch) -> tuple[float, list[torch.Tensor]]:
    model.zero_grad()
    loss = model.loss(batch)
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [item.grad for item in model.parameters() if item.grad is not None]
    return float(loss.detach()), [grad.clone() for grad in grads]


@pytest.mark.parametrize("name", CASES)
def test_padding_changes_neither_loss_nor_gradient(name: str, tmp_path: Path) -> None:
    kind, graph, _ = CASES[name]
    is_encoder = name in ("windows", "pairs")
    init = write_encoder(tmp_path) if is_encoder else write_vectors(tmp_path)
    trained = make_trained(tmp_path, write_task(tmp_path, kind), init, graph)
    encoded = trained.featurizer.encode(trained.task.read_split("train"))
    rows, model = np.arange(len(encoded.split))[:5], trained.model.eval()
    plain = encoded.batch(rows)
    padded = replace(encoded, multiple=11).batch(rows)
    for key, mask in padded.masks.items():
        assert mask.shape[1] % 11 == 0 or mask.shape[1] == 16  # all that the encoder reads
        assert mask.shape[1] > plain.masks[key].shape[1]
        assert mask.sum() == plain.masks[key].sum()
    loss, grads = measure(model, plain)
    other, others = measure(model, padded)
    assert other == pytest.approx(loss, rel=1e-5)
    for one, two in zip(grads, others, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)  # sums in another order


def test_a_recipe_pads_only_where_it_says_so() -> None:
    values: dict[str, Any] = make_recipe().model_dump()
    assert "pad_to_multiple" not in make_recipe().describe()
    recipe = parse_config(values | {"pad_to_multiple": 8}, RecipeConfig, where="recipe")
    assert recipe.describe()["pad_to_multiple"] == 8
    kl = {"name": "kl", "weight": 0.5, "temperature": 2.0}
    with pytest.raises(ConfigError, match="found pad_to_multiple with a distillation"):
        parse_config(values | {"pad_to_multiple": 8, "distillation": kl}, RecipeConfig, where="r")


@pytest.mark.slow
def test_a_model_trained_with_padding_has_the_scores_of_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path / "a.tsv", rows=60, header="text\tlabel")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    widths: dict[str, set[int]] = {"plain": set(), "padded": set()}
    step = GraphModel.loss

    def note(self: GraphModel, batch: Batch) -> torch.Tensor:
        widths[name].add(next(iter(batch.masks.values())).shape[1])
        return step(self, batch)

    monkeypatch.setattr(GraphModel, "loss", note)
    scores = []
    for name, value in (("plain", "null"), ("padded", "8")):
        changes = ["--set", f"training.pad_to_multiple={value}", "--set", "layers.drop.p=0.0"]
        changes += ["--set", "heads.label.dropout=0.0"]
        main(["train", "m.json", "--train", "a.tsv", "-o", name, "--epochs", "2", *changes])
        history = Path(name, "history.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in history]
        scores.append([e["loss"] for e in events if e["event"] == "train"])
    assert {width % 8 for width in widths["padded"]} == {0} != {w % 8 for w in widths["plain"]}
    # the first steps; sums in another order grow apart later
    assert scores[0] == pytest.approx(scores[1], rel=1e-3)
