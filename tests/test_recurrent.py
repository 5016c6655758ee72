"""Recurrent blocks against torch's packed ones, or against a plain loop over time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nlp_core.blocks import Block
from nlp_core.blocks.recurrent import QRNN, BiGRU, ForwardLSTM, QuasiRecurrent

LENGTHS = [7, 3, 1, 5]
MASK = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)


def copy_weights(block: Block, reference: nn.RNNBase, readers: dict[str, str]) -> None:
    """Copy a block's weights; `readers` maps the name of each reader to torch's suffix."""
    for idx, layer in enumerate(block.get_submodule("layers").children()):
        for name, suffix in readers.items():
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                value = layer.get_parameter(f"{name}.{part}_l0").detach()
                reference.get_parameter(f"{part}_l{idx}{suffix}").data.copy_(value)


def run_packed(reference: nn.RNNBase, x: Tensor) -> Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
    )
    states: Tensor = nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)[0]
    return states


@pytest.mark.parametrize("bidirectional", [True, False])
def test_bigru_equals_a_packed_one(bidirectional: bool) -> None:
    torch.manual_seed(0)
    block = BiGRU(5, hidden_dim=4, num_layers=2, bidirectional=bidirectional).double()
    reference = nn.GRU(5, 4, 2, batch_first=True, bidirectional=bidirectional).double()
    readers = {"forward_gru": "", "backward_gru": "_reverse"}
    copy_weights(block, reference, readers if bidirectional else {"forward_gru": ""})
    x = torch.randn(4, 7, 5).double()
    torch.testing.assert_close(block(x, MASK), run_packed(reference, x))


def test_lstm_equals_a_packed_one() -> None:
    torch.manual_seed(0)
    block = ForwardLSTM(5, hidden_dim=4, num_layers=2).double()
    reference = nn.LSTM(5, 4, 2, batch_first=True).double()
    copy_weights(block, reference, {"forward_lstm": ""})
    x = torch.randn(4, 7, 5).double()
    torch.testing.assert_close(block(x, MASK), run_packed(reference, x))


def read_slowly(reader: QuasiRecurrent, x: Tensor) -> Tensor:
    """Return [T, H] of one sequence [T, D], token by token."""
    weight, bias = reader.linear.weight, reader.linear.bias
    width = weight.shape[1] // reader.window
    memory, outputs = torch.zeros(weight.shape[0] // 3).double(), []
    for time in range(len(x)):
        total = bias
        for back in range(reader.window):
            if time - back >= 0:
                at = (reader.window - 1 - back) * width
                total = total + weight[:, at : at + width] @ x[time - back]
        candidate, forget, output = total.chunk(3)
        keep = torch.sigmoid(forget)
        memory = keep * memory + (1 - keep) * torch.tanh(candidate)
        outputs.append(torch.sigmoid(output) * memory)
    return torch.stack(outputs)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_qrnn_equals_a_loop_over_tokens(window: int) -> None:
    torch.manual_seed(0)
    block = QRNN(5, hidden_dim=4, window=window).double()
    x = torch.randn(4, 7, 5).double()
    found = block(x, MASK)
    layer = block.layers[0]
    for row, length in enumerate(LENGTHS):
        text = x[row, :length]
        forward = read_slowly(layer.forward_qrnn, text)
        backward = read_slowly(layer.backward_qrnn, text.flip(0)).flip(0)
        torch.testing.assert_close(found[row, :length], torch.cat([forward, backward], -1))


@pytest.mark.parametrize(
    "block",
    [
        ForwardLSTM(2, hidden_dim=3),
        QRNN(2, hidden_dim=3, bidirectional=False),
        BiGRU(2, hidden_dim=3, bidirectional=False),
    ],
    ids=["forward_lstm", "qrnn", "gru"],
)
def test_one_direction_sees_no_later_token(block: Block) -> None:
    x, mask = torch.randn(1, 4, 2), torch.ones(1, 4, dtype=torch.bool)
    changed = x.clone()
    changed[0, 2] += 1.0
    same = (block(x, mask) == block(changed, mask)).all(-1)
    assert same.tolist() == [[True, True, False, False]]


def test_zoneout_keeps_the_memory_of_some_numbers() -> None:
    torch.manual_seed(0)
    reader = QuasiRecurrent(1, 2000, window=1, zoneout=0.75)
    with torch.no_grad():
        reader.linear.weight.zero_()
        reader.linear.bias.copy_(torch.tensor([1.0, -50.0, 50.0]).repeat_interleave(2000))
    # f = 0 and o = 1, so the memory is tanh(1) once written, 0 where zoned out in all 2 steps
    x = torch.zeros(2, 1, 1)
    kept = reader(x)[0][:, 0] == 0
    assert 0.71 < kept[0].float().mean() < 0.79  # 0.75 +- 4 standard errors
    assert 0.51 < kept[1].float().mean() < 0.61  # 0.75 ** 2 +- 4 standard errors
    assert not (reader.eval()(x)[0] == 0).any()


@pytest.mark.parametrize("build", [BiGRU, QRNN, ForwardLSTM])
def test_dropout_is_between_layers_only(build: Callable[..., Block]) -> None:
    torch.manual_seed(0)
    x, mask = torch.randn(1, 3, 2), torch.ones(1, 3, dtype=torch.bool)
    one = build(2, hidden_dim=3, dropout=0.5)
    torch.testing.assert_close(one(x, mask), one(x, mask), rtol=0, atol=0)
    two = build(2, hidden_dim=3, num_layers=2, dropout=0.5)
    assert (two(x, mask) != two(x, mask)).any()
    torch.testing.assert_close(two.eval()(x, mask), two(x, mask), rtol=0, atol=0)
