"""A pretrained encoder as a block: where its weights come from, and which of them are trained."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel

from nlp_core.config.optimizer import OptimizerConfig
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import RawText
from nlp_core.encoders.pretrained import (
    LoraConfig,
    PretrainedEncoder,
    _check,
    _set_dropout,
    build_encoder,
)
from nlp_core.errors import ConfigError
from nlp_core.training.optimizer import build_optimizer
from tests.tiny_encoder import TINY_ENCODER, write_encoder

OPTIONS: dict[str, Any] = {"dim": 8, "max_length": 16}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path)


def start(folder: Path, **options: Any) -> PretrainedEncoder:
    options = {**OPTIONS, **options}
    return PretrainedEncoder.start(PieceVocabulary.learn([], options, folder), **options)


def read(folder: Path, texts: list[str]) -> list[torch.Tensor]:
    pieces = PieceVocabulary.learn([], OPTIONS, folder).read(RawText(texts, None))
    rows = torch.arange(len(texts)).numpy()
    fields = [torch.from_numpy(item) for item in pieces.take(rows)]
    return [*fields, torch.from_numpy(pieces.outline().mask(rows))]


def trained(block: PretrainedEncoder) -> set[str]:
    return {name for name, item in block.named_parameters() if item.requires_grad}


def test_the_output_is_that_of_transformers(folder: Path) -> None:
    fields = read(folder, ["good films", "the bad film"])
    expected = AutoModel.from_pretrained(folder).eval()(
        input_ids=fields[0], attention_mask=fields[2].long()
    )
    found = start(folder).eval()(*fields)
    real = fields[-1].unsqueeze(-1)
    torch.testing.assert_close(found, expected.last_hidden_state * real)


def test_the_weights_are_those_of_the_folder(folder: Path) -> None:
    state = start(folder).encoder.state_dict()
    stored = load_file(folder / "model.safetensors")
    assert {name for name in stored if not name.startswith("pooler")} <= set(state)
    name = "encoder.layer.1.attention.self.query.weight"
    assert torch.equal(state[name], stored[name])


def test_the_first_layers_alone_are_kept(folder: Path) -> None:
    block = start(folder, num_layers=1)
    assert not [name for name in trained(block) if ".layer.1." in name]
    with pytest.raises(ConfigError, match=r"num_layers: found 3, expected at most 2"):
        start(folder, num_layers=3)


def test_an_encoder_of_another_width_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"dim: found 9, expected 8"):
        start(folder, dim=9)


def test_what_is_frozen_is_not_trained(folder: Path) -> None:
    assert trained(start(folder, frozen="everything")) == set()
    kept = trained(start(folder, frozen="embeddings"))
    assert kept
    assert not [name for name in kept if "embeddings" in name]


def test_the_first_layers_are_frozen_with_the_embeddings(folder: Path) -> None:
    kept = trained(start(folder, frozen_layers=1))
    assert kept
    assert all(name.startswith("encoder.encoder.layer.1.") for name in kept)
    assert trained(start(folder, frozen_layers=2)) == set()
    with pytest.raises(
        ConfigError, match="frozen_layers: found 2, expected at most 1, the kept layers"
    ):
        start(folder, num_layers=1, frozen_layers=2)


def test_additions_to_frozen_layers_are_frozen_too(folder: Path) -> None:
    kept = trained(start(folder, frozen_layers=1, lora=LoraConfig(rank=2, alpha=4)))
    assert kept
    assert all(".layer.1." in name and "lora_" in name for name in kept)


SIZES = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}
ALBERT = {"model_type": "albert", **SIZES, "embedding_size": 4, "intermediate_size": 8}
XLNET = {"model_type": "xlnet", "vocab_size": 20, "d_model": 8, "n_layer": 2, "n_head": 2}
XLNET["d_inner"] = 8


def test_layers_that_share_their_weights_are_not_told_apart() -> None:
    with pytest.raises(ConfigError, match="of type albert, whose layers share their weights"):
        PretrainedEncoder(ALBERT, dim=8, frozen_layers=1)
    model = nn.ModuleList([PretrainedEncoder(ALBERT, dim=8)])
    config = OptimizerConfig(name="adamw", lr=1.0, encoder_lr_scale=0.5)
    assert {group["scale"] for group in build_optimizer(config, model).param_groups} == {0.5}
    with pytest.raises(ConfigError, match="layer_decay of the recipe"):
        build_optimizer(config.model_copy(update={"layer_decay": 0.5}), model)


def test_word_vectors_lie_below_all_layers_whatever_they_are_called() -> None:
    block = PretrainedEncoder(XLNET, dim=8, frozen_layers=1)
    assert "encoder.word_embedding.weight" not in trained(block)
    kept = trained(PretrainedEncoder(XLNET, dim=8, frozen="embeddings"))
    assert "encoder.word_embedding.weight" not in kept
    assert any(".layer.0." in name for name in kept)


@pytest.mark.parametrize("sort", ["gpt2", "llama", "t5", "bart"])
def test_what_reads_from_left_to_right_is_refused(sort: str) -> None:
    with pytest.raises(ConfigError, match=f"init: found a model of type {sort}, which generates"):
        PretrainedEncoder({"model_type": sort}, dim=8)


def test_an_encoder_that_cannot_recompute_its_states_is_refused() -> None:
    with pytest.raises(ConfigError, match="checkpointing: found true, but an encoder of type"):
        PretrainedEncoder(ALBERT, dim=8, checkpointing=True)


def test_dropout_of_the_encoder_is_overridden(folder: Path) -> None:
    fields = read(folder, ["good film"])
    block = start(folder, dropout=0.5).train()
    assert not torch.equal(block(*fields), block(*fields))
    assert torch.equal(start(folder).train()(*fields), start(folder).train()(*fields))


SORTS = {
    "bert": {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1},
    "distilbert": {"dim": 8, "n_heads": 2, "hidden_dim": 8, "n_layers": 1},
    "modernbert": {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1},
}


@pytest.mark.parametrize("sort", SORTS)
def test_dropout_is_overridden_whatever_an_encoder_calls_it(sort: str) -> None:
    sizes = {"vocab_size": 20, "pad_token_id": 0, "intermediate_size": 8}
    encoder = build_encoder({"model_type": sort, **sizes, **SORTS[sort]}, None, dropout=0.3)
    rates = {item.p for item in encoder.modules() if isinstance(item, nn.Dropout)}
    assert rates == {0.3}


def test_an_encoder_without_a_known_dropout_is_refused() -> None:
    with pytest.raises(ConfigError, match="but an encoder of type odd has none of"):
        _set_dropout(SimpleNamespace(model_type="odd"), 0.1)


def test_checkpointing_changes_no_gradient(folder: Path) -> None:
    fields = read(folder, ["good film"])
    gradients = []
    for checkpointing in (False, True):
        block = start(folder, checkpointing=checkpointing).train()
        block(*fields).square().sum().backward()
        gradients.append({name: item.grad for name, item in block.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0])


def test_low_rank_additions_are_all_that_is_trained(folder: Path) -> None:
    fields = read(folder, ["good film"])
    block = start(folder, lora=LoraConfig(rank=2, alpha=4))
    assert trained(block)
    assert all("lora_" in name for name in trained(block))
    torch.testing.assert_close(block.eval()(*fields), start(folder).eval()(*fields))
    block.train()(*fields).sum().backward()
    moved = [n for n, p in block.named_parameters() if p.grad is not None and p.grad.any()]
    assert moved
    assert all("lora_B" in name for name in moved)  # A has no gradient while B is 0


@pytest.mark.parametrize("scale", [None, 0.01])
def test_layers_have_rates_that_fall_towards_the_embeddings(
    folder: Path, scale: float | None
) -> None:
    model = torch.nn.ModuleList([start(folder), torch.nn.Linear(8, 2)])
    config = OptimizerConfig(
        name="adamw",
        lr=1.0,
        encoder_lr_scale=scale,
        layer_decay=0.5,
        weight_decay=0.1,
        decayed="matrices",
    )
    whole = scale or 1.0
    names = {id(item): name for name, item in model.named_parameters()}
    found = {
        names[id(item)]: (group["scale"], group["weight_decay"])
        for group in build_optimizer(config, model).param_groups
        for item in group["params"]
    }
    assert found["1.weight"] == (1.0, 0.1)
    assert found["1.bias"] == (1.0, 0.0)
    layer = "0.encoder.encoder.layer.{}.attention.self.query.{}"
    assert found[layer.format(1, "weight")] == (0.5 * whole, 0.1)
    assert found[layer.format(0, "weight")] == (0.25 * whole, 0.1)
    assert found[layer.format(0, "bias")] == (0.25 * whole, 0.0)
    assert found["0.encoder.embeddings.word_embeddings.weight"] == (0.125 * whole, 0.1)
    assert found["0.encoder.embeddings.LayerNorm.weight"] == (0.125 * whole, 0.0)
    assert set(found) == set(names.values())


def test_a_block_without_weights_starts_at_random() -> None:
    torch.manual_seed(1)
    first = PretrainedEncoder(TINY_ENCODER, dim=8)
    second = PretrainedEncoder(TINY_ENCODER, dim=8)
    name = "encoder.embeddings.word_embeddings.weight"
    assert not torch.equal(first.state_dict()[name], second.state_dict()[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "abc"}, "expected int, got str"),
        ({"num_attention_heads": 3}, "not a multiple of the number of attention heads"),
        ({"hidden_act": "none_such"}, "none_such"),
        ({"model_type": "none_such"}, "type none_such"),
    ],
)
def test_a_wrong_configuration_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"init: found a config.json .*{message}"):
        PretrainedEncoder(TINY_ENCODER | change, dim=8)


def test_what_is_not_an_encoder_of_texts_is_an_error() -> None:
    with pytest.raises(ConfigError, match="found a model of type bert, which generates text"):
        PretrainedEncoder(TINY_ENCODER | {"is_decoder": True}, dim=8)
    with pytest.raises(ConfigError, match="found a model of type clip, which has no hidden_size"):
        _check(SimpleNamespace(model_type="clip"), 8, None)


def test_additions_to_an_encoder_that_is_all_frozen_are_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="lora: found with frozen: everything"):
        start(folder, frozen="everything", lora=LoraConfig(rank=2, alpha=4))
