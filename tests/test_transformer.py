"""The transformer block against torch's own layers."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from nlp_core.blocks.transformer import EncoderLayer, Transformer, sinusoidal_positions

MASK = torch.arange(6) < torch.tensor([6, 2, 4]).unsqueeze(1)
PARTS = {
    "attention.output": "self_attn.out_proj",
    "attention_norm": "norm1",
    "hidden": "linear1",
    "output": "linear2",
    "output_norm": "norm2",
}


def copy_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    attention = ours.attention
    weights = {
        "self_attn.in_proj_weight": [attention.query.weight, attention.key.weight],
        "self_attn.in_proj_bias": [attention.query.bias, torch.zeros(8)],
    }
    weights["self_attn.in_proj_weight"].append(attention.value.weight)
    weights["self_attn.in_proj_bias"].append(attention.value.bias)
    state = {name: torch.cat(parts) for name, parts in weights.items()}
    for mine, other in PARTS.items():
        for kind in ("weight", "bias"):
            state[f"{other}.{kind}"] = ours.get_parameter(f"{mine}.{kind}")
    theirs.load_state_dict(state)


def make_random(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_layers_equal_those_of_torch(
    norm: Literal["pre", "post"], activation: Literal["relu", "gelu"]
) -> None:
    torch.manual_seed(0)
    block = Transformer(
        8,
        num_layers=2,
        num_heads=2,
        ff_dim=5,
        activation=activation,
        norm=norm,
        positions="none",
    ).double()
    make_random(block)
    block.eval()
    x = torch.randn(3, 6, 8).double()
    expected: Tensor = x
    for layer in block.layers:
        theirs = nn.TransformerEncoderLayer(
            8, 2, 5, activation=activation, batch_first=True, norm_first=norm == "pre"
        ).double()
        copy_layer(layer, theirs)
        # in training, without dropout, since evaluation takes a fast path of its own
        for part in theirs.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        theirs.self_attn.dropout = 0.0
        expected = theirs(expected, src_key_padding_mask=~MASK)
    if block.norm is not None:
        expected = block.norm(expected)
    torch.testing.assert_close(block(x, MASK), expected.masked_fill(~MASK.unsqueeze(-1), 0.0))


def test_positions_are_sines_and_cosines() -> None:
    found = sinusoidal_positions(3, 5, like=torch.zeros(0).double())
    slow, slower = 10000.0 ** (-2 / 5), 10000.0 ** (-4 / 5)
    for t in range(3):
        expected = [
            math.sin(t),
            math.cos(t),
            math.sin(t * slow),
            math.cos(t * slow),
            math.sin(t * slower),
        ]
        torch.testing.assert_close(found[t], torch.tensor(expected).double(), rtol=0, atol=1e-7)


def test_positions_tell_the_order_of_tokens() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 4, 8)
    mask = torch.ones(1, 4, dtype=torch.bool)
    blind = Transformer(8, num_heads=2, positions="none").eval()
    torch.testing.assert_close(blind(x.flip(1), mask), blind(x, mask).flip(1))
    seeing = Transformer(8, num_heads=2).eval()
    assert (seeing(x.flip(1), mask) - seeing(x, mask).flip(1)).abs().max() > 0.01


def test_dropout_rests_in_evaluation() -> None:
    torch.manual_seed(0)
    block, x = Transformer(8, num_heads=2, dropout=0.5), torch.randn(3, 6, 8)
    assert (block(x, MASK) != block(x, MASK)).any()
    torch.testing.assert_close(block.eval()(x, MASK), block(x, MASK), rtol=0, atol=0)
