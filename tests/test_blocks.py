"""What every registered block promises; each has at least one row in ROWS."""

from typing import Any

import pytest
import torch

from nlp_core.blocks import (
    BLOCKS,
    CHARACTERS,
    GRID,
    NUMBERS,
    PIECES,
    SEQUENCE,
    TOKEN_NUMBERS,
    VECTOR,
    WORDS,
    Shape,
)
from nlp_core.blocks.option import check_options
from nlp_core.errors import ConfigError
from tests.block_contract import (
    LENGTHS,
    MASK_ONLY,
    NUM_IDS,
    Row,
    assert_same,
    build,
    find_output_mask,
    list_read,
    make_block,
    make_fields,
    run,
)

pytestmark = pytest.mark.usefixtures("deterministic")
SEQ = Shape(SEQUENCE, 4)
VEC = Shape(VECTOR, 4)
CHARS = Shape(CHARACTERS, NUM_IDS)
CELLS = Shape(GRID, 4)
PAIR = [SEQ, Shape(SEQUENCE, 4)]
FOUR = [SEQ, Shape(SEQUENCE, 3), Shape(SEQUENCE, 5), Shape(SEQUENCE, 5)]
TRANSFORMER = {"num_layers": 2, "num_heads": 2, "ff_dim": 6, "dropout": 0.0}

ROWS = [
    Row("add", {}, [SEQ, SEQ, SEQ]),
    Row("add", {}, [VEC, Shape(VECTOR, 1)]),
    Row("append_vector", {}, [SEQ, Shape(VECTOR, 3)]),
    Row("bidaf", {}, PAIR, (1,)),
    Row("bigru", {"hidden_dim": 2, "num_layers": 2}, [SEQ]),
    Row("bigru", {"hidden_dim": 3, "bidirectional": False}, [SEQ]),
    Row("bilinear_attention", {}, [SEQ, Shape(VECTOR, 3)]),
    Row("add", {}, [CELLS, CELLS]),
    Row("bilstm", {"hidden_dim": 3}, [SEQ]),
    Row("bilstm", {"hidden_dim": 2, "num_layers": 3}, [SEQ]),
    Row("bilstm_attention", {"hidden_dim": 2, "num_layers": 2}, [SEQ]),
    Row("case_embedding", {"dim": 5}, [Shape(WORDS, NUM_IDS)]),
    Row("category_embedding", {"dim": 5}, [Shape(WORDS, NUM_IDS)]),
    Row("char_cnn", {"dim": 4, "filters": 6, "window": 3}, [CHARS]),
    Row("char_cnn", {"dim": 4, "filters": 6, "window": 2, "activation": "tanh"}, [CHARS]),
    Row("char_lstm", {"dim": 4, "hidden_dim": 3}, [CHARS]),
    Row("combination", {}, [VEC, VEC]),
    Row("combination", {"operations": ["product"]}, [SEQ, SEQ]),
    Row("combination", {"operations": ["origin"]}, [VEC, Shape(VECTOR, 2), VEC]),
    Row("combination", {}, [CELLS, CELLS]),
    Row("concat", {}, [VEC, Shape(VECTOR, 3)]),
    Row("concat", {}, [SEQ, Shape(SEQUENCE, 3), SEQ]),
    Row("concat", {}, [CELLS, Shape(GRID, 3)]),
    Row("conv", {"filters": 6, "window": 3, "batch_norm": True}, [SEQ]),
    Row("conv", {"filters": 6, "window": 4, "activation": "prelu"}, [SEQ]),
    Row("conv2d", {"filters": 5, "batch_norm": True}, [CELLS]),
    Row("conv2d", {"filters": 5, "window": [2, 7], "activation": "tanh"}, [CELLS]),
    Row("conv_pooling", {"filters": 5, "batch_norm": True}, [SEQ]),
    Row("conv_pooling", {"filters": 5, "windows": [7], "activation": "gelu"}, [SEQ]),
    Row("conv_pooling", {"filters": 5, "windows": [2, 3], "pool": "mean"}, [SEQ]),
    Row("cross_attention", {}, PAIR, (1,)),
    Row("cross_attention", {"scaled": True}, PAIR, (1,)),
    Row("dense_features", {"width": 3}, [Shape(NUMBERS, 3)]),
    Row("dense_features", {"width": 3, "hidden_dim": 5}, [Shape(NUMBERS, 3)]),
    Row("dense_features", {"width": 3, "hidden_dim": 5}, [Shape(TOKEN_NUMBERS, 3)]),
    Row("distance", {}, [VEC, VEC]),
    Row("distance", {"operations": ["chebyshev", "cos"]}, [VEC, VEC]),
    Row("distance", {}, [SEQ, SEQ]),
    Row("distance", {}, [CELLS, CELLS]),
    Row("dropout", {"p": 0.0}, [SEQ]),
    Row("dropout", {"p": 0.0}, [VEC]),
    Row("full_attention", {"hidden_dim": 3}, FOUR, (1, 3)),
    Row("gated_cnn", {"filters": 4}, [SEQ]),
    Row("gated_cnn", {"filters": 3, "windows": [2, 3, 2], "dilated": True}, [SEQ]),
    Row("gated_cnn", {"filters": 4, "causal": True, "dilated": True}, [SEQ]),
    # what its words become is weights of types
    Row("gazetteer_embedding", {"dim": 5, "file": "names.tsv"}, [Shape(TOKEN_NUMBERS, 3)]),
    Row("highway", {"num_layers": 2}, [SEQ]),
    Row("highway", {"activation": "tanh"}, [VEC]),
    Row("kmax_pooling", {"k": 2}, [SEQ]),
    Row("kmax_pooling", {"k": 7}, [SEQ]),
    Row("dropout", {"p": 0.0}, [CELLS]),
    Row("dynamic_pooling", {"segments": [2]}, [SEQ]),
    Row("dynamic_pooling", {"segments": [9], "pool": "mean"}, [SEQ]),
    Row("dynamic_pooling", {"segments": [2, 4]}, [CELLS]),
    Row("dynamic_pooling", {"segments": [7, 1], "pool": "mean"}, [CELLS]),
    Row("grid_kmax", {"k": 3}, [CELLS]),
    Row("grid_kmax", {"k": 50}, [CELLS]),
    Row("interaction", {}, [SEQ, Shape(SEQUENCE, 3)], (1,)),
    Row("interaction", {"operations": ["dot", "cosine", "general"]}, PAIR, (1,)),
    Row("interaction", {"operations": ["minus", "plus", "multiply", "concat"]}, PAIR, (1,)),
    Row("highway", {}, [CELLS]),
    Row("layer_norm", {}, [SEQ]),
    Row("layer_norm", {}, [VEC]),
    Row("layer_norm", {}, [CELLS]),
    Row("linear", {"hidden_dim": 3}, [SEQ]),
    Row("linear", {"hidden_dim": 3, "activation": "prelu", "batch_norm": True}, [SEQ]),
    Row("linear", {"hidden_dim": 3, "activation": "sigmoid", "batch_norm": True}, [VEC]),
    Row("linear", {"hidden_dim": 3, "batch_norm": True}, [CELLS]),
    Row("linear_attention", {}, [SEQ]),
    Row("forward_lstm", {"hidden_dim": 3, "num_layers": 2}, [SEQ]),
    Row(
        "history_encoder", {"dim": 5, "hidden_dim": 3, "unknown_prob": 0.0}, [Shape(WORDS, NUM_IDS)]
    ),
    Row("match_attention", {}, PAIR, (1,)),
    Row("matrix_multiply", {"num_tokens": 5}, PAIR, (1,)),
    Row("matrix_multiply", {"num_tokens": 9}, PAIR, (1,)),
    Row("matrix_multiply", {"operation": "common"}, [SEQ, Shape(SEQUENCE, 3)], (1,)),
    Row("matrix_multiply", {"operation": "seq_based"}, [SEQ, Shape(SEQUENCE, 3)]),
    Row("minus", {}, [SEQ, SEQ]),
    Row("minus", {}, [CELLS, CELLS]),
    Row("minus", {"absolute": True}, [Shape(VECTOR, 1), VEC]),
    Row("multiply", {}, [SEQ, Shape(SEQUENCE, 1), SEQ]),
    Row("multiply", {}, [VEC, VEC]),
    Row("multiply", {}, [CELLS, CELLS]),
    Row("pooling", {"pool": "max"}, [SEQ]),
    Row("pooling", {"pool": "mean"}, [SEQ]),
    Row("pooling", {"pool": "last"}, [SEQ]),
    Row("pooling", {"pool": "first"}, [SEQ]),
    Row("pretrained_encoder", {"dim": 8}, [Shape(PIECES, NUM_IDS)]),
    Row("pretrained_encoder", {"dim": 8, "num_layers": 1}, [Shape(PIECES, NUM_IDS)]),
    Row("pretrained_encoder_decoder", {"dim": 32}, [Shape(PIECES, NUM_IDS)]),
    Row("qrnn", {"hidden_dim": 2, "num_layers": 2}, [SEQ]),
    Row("qrnn", {"hidden_dim": 3, "window": 3, "bidirectional": False}, [SEQ]),
    Row("self_attention_pooling", {"attention_dim": 3, "num_hops": 2}, [SEQ]),
    Row("sentence_encoder", {"hidden_dim": 3}, [Shape(TOKEN_NUMBERS, 1), SEQ]),
    Row("sentence_encoder", {"net": "conv", "hidden_dim": 3}, [Shape(TOKEN_NUMBERS, 1), SEQ]),
    Row("seq2seq_attention", {}, PAIR, (1,)),
    Row("slot_attention", {"attention_dim": 3}, [SEQ]),
    Row("slot_attention", {"score": "multiply"}, [SEQ]),
    Row("slot_attention", {"score": "dot"}, [SEQ]),
    Row("subword_embedding", {"dim": 5}, [CHARS]),
    Row("subword_embedding", {"dim": 5, "pool": "sum"}, [CHARS]),
    Row("subword_embedding", {"dim": 5, "pool": "max"}, [CHARS]),
    Row("transformer", TRANSFORMER, [SEQ]),
    Row("transformer", {**TRANSFORMER, "norm": "post", "positions": "none"}, [SEQ]),
    Row("pooling1d", {}, [SEQ]),
    Row("pooling1d", {"window": 3, "stride": 2, "pool": "mean"}, [SEQ]),
    Row("pooling1d", {"window": 1, "stride": 3}, [SEQ]),
    Row("pooling2d", {}, [CELLS]),
    Row("pooling2d", {"window": [3, 2], "stride": [1, 2], "pool": "mean"}, [CELLS]),
    Row("pooling2d", {"window": [5, 9], "stride": [1, 1]}, [CELLS]),
    Row("word_embedding", {"dim": 5, "on_cpu": True}, [Shape(WORDS, NUM_IDS)]),
    Row("word_embedding", {"dim": 5}, [Shape(WORDS, NUM_IDS)]),
]

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.block}-{row.options}")
each_padded_row = pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.inputs[0].rank not in (VECTOR, NUMBERS)],
    ids=lambda row: f"{row.block}-{row.options}",
)


def test_every_block_has_a_row() -> None:
    assert sorted({row.block for row in ROWS}) == BLOCKS.names()


@each_row
def test_options_pass_their_own_schema(row: Row) -> None:
    block = BLOCKS.get(row.block)
    assert check_options(block, row.options, where="here") == row.options
    with pytest.raises(ConfigError, match="unknown key"):
        check_options(block, {**row.options, "nonsense": 1}, where="here")


@each_row
def test_output_has_the_inferred_shape(row: Row) -> None:
    shape = BLOCKS.get(row.block).infer(*row.inputs, **row.options)
    block, fields = build(row), make_fields(row)
    output = block(*fields)
    mask = None if shape.rank == VECTOR else find_output_mask(block, row, fields)
    assert output.shape == (*((3,) if mask is None else mask.shape), shape.dim)


@each_padded_row
@pytest.mark.parametrize("extra", [1, 6])
def test_padding_changes_no_output_and_no_gradient(row: Row, extra: int) -> None:
    plain = run(build(row), row)
    padded = run(build(row), row, extra=extra)
    assert_same(plain, padded, 1e-10)  # sums of another length are rounded differently


@each_padded_row
def test_padding_changes_no_statistics(row: Row) -> None:
    plain, padded = build(row), build(row)
    run(plain, row)
    run(padded, row, extra=6)
    torch.testing.assert_close(dict(plain.named_buffers()), dict(padded.named_buffers()))
    assert_same(run(plain.eval(), row), run(padded.eval(), row), 1e-10)


@each_row
def test_every_parameter_gets_a_gradient(row: Row) -> None:
    block = build(row)
    outcome = run(block, row)
    dead = [
        name
        for name in list_read(block)
        # a bias of the keys moves all scores of a query alike, which a softmax does not see
        if not name.endswith("key.bias")
        and (name not in outcome.parameters or not outcome.parameters[name].abs().max() > 1e-9)
    ]
    assert dead == []


@each_padded_row
def test_causal_blocks_know_nothing_of_later_tokens(row: Row) -> None:
    block = BLOCKS.get(row.block)
    if not block.is_causal(row.options):
        pytest.skip("looks ahead, or may")
    fields = make_fields(row)
    later = [None if field is None else field.clone() for field in fields]
    last = max(LENGTHS) - 1
    for before, after, shape in zip(fields[::2], later[::2], row.inputs, strict=False):
        assert before is not None
        assert after is not None
        if shape.rank == CHARACTERS:
            assert later[1] is not None
            later[1][0, last] = (later[1][0, last] + 1) % len(after)
        else:
            after[0, last] = after[0, last] % 7 + 1
    plain, changed = build(row)(*fields), build(row)(*later)
    assert not torch.equal(plain[0, last], changed[0, last])
    torch.testing.assert_close(plain[0, :last], changed[0, :last], rtol=0, atol=0)


@each_row
def test_same_seed_gives_same_bits(row: Row) -> None:
    first, second = build(row), build(row)
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    assert_same(run(first, row), run(second, row), 0.0)


@each_row
def test_state_dict_restores_the_block(row: Row) -> None:
    block = build(row)
    run(block, row)
    torch.manual_seed(99)
    other = make_block(row)
    other.load_state_dict(block.state_dict())
    block.zero_grad()
    assert_same(run(block.eval(), row), run(other.eval(), row), 0.0)


@each_padded_row
def test_example_without_tokens_is_zero_and_harmless(row: Row) -> None:
    fields = [
        field.index_fill(0, torch.tensor([1]), False)
        if field is not None and field.dtype == torch.bool
        else field
        for field in make_fields(row)
    ]
    block = build(row)
    leaves = [x.requires_grad_() for x in fields if x is not None and x.is_floating_point()]
    output = block(*fields)
    output.square().sum().backward()
    assert output.isfinite().all()
    for idx, leaf in enumerate(leaves):
        if (row.block, idx) not in MASK_ONLY:
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()
    if row.block != "word_embedding":  # its padding is id 0, not the mask
        assert not output[1].any()
    grads = [item.grad for item in list_read(block).values()]
    assert all(grad is not None and grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.block}-{row.options}")
def test_makes_no_tensor_elsewhere_than_where_its_inputs_are(row: Row) -> None:
    """What is made on the default device is of no use on a GPU; here that device holds nothing."""
    block, fields = build(row).eval(), make_fields(row)
    expected = block(*fields)
    with torch.device("meta"):
        assert block(*fields).equal(expected)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.block}-{row.options}")
def test_runs_in_bfloat16_autocast(row: Row) -> None:
    block = build(row).float()
    fields = [
        field.float() if field is not None and field.is_floating_point() else field
        for field in make_fields(row)
    ]
    with torch.autocast("cpu", torch.bfloat16):
        low = block(*fields)
    torch.testing.assert_close(low.float(), block(*fields), rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("cross_attention", [SEQ, Shape(SEQUENCE, 5)], "widths 4 and 5"),
        ("match_attention", [SEQ, Shape(SEQUENCE, 5)], "widths 4 and 5"),
        ("add", [VEC, Shape(VECTOR, 5)], "widths 4 and 5"),
        ("add", [VEC, Shape(VECTOR, 1), Shape(VECTOR, 5)], "widths 4 and 5"),
        ("minus", [VEC, Shape(VECTOR, 5)], "widths 4 and 5"),
        ("minus", [VEC, SEQ], "vectors and sequences together"),
        ("multiply", [Shape(VECTOR, 1), VEC, Shape(VECTOR, 5)], "widths 4 and 5"),
        ("distance", [VEC, Shape(VECTOR, 5)], "widths 4 and 5"),
        ("bidaf", [SEQ, Shape(SEQUENCE, 5)], "widths 4 and 5"),
        ("seq2seq_attention", [SEQ, Shape(SEQUENCE, 5)], "widths 4 and 5"),
        ("full_attention", [SEQ, SEQ, SEQ, Shape(SEQUENCE, 5)], "histories: .* widths 4 and 5"),
        ("matrix_multiply", PAIR, "found null, expected a number"),
        ("transformer", [Shape(SEQUENCE, 6)], "found 4 heads for an input of width 6"),
        ("concat", [VEC, SEQ], "vectors and sequences together"),
        ("add", [SEQ, CELLS, VEC], "found vectors and sequences and grids together"),
        ("combination", [VEC, Shape(VECTOR, 5)], "difference: found widths 4 and 5"),
        ("combination", [VEC, VEC, VEC], "difference: found 3 inputs, expected two"),
    ],
)
def test_misfits_are_refused(name: str, inputs: list[Shape], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BLOCKS.get(name).infer(*inputs)


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("combination", []),
        ("combination", ["origin", "origin"]),
        ("distance", []),
        ("distance", ["cos", "cos"]),
    ],
)
def test_no_operation_and_repeated_ones_are_refused(name: str, operations: list[str]) -> None:
    with pytest.raises(ConfigError, match="each once"):
        BLOCKS.get(name).infer(VEC, VEC, operations=operations)


def test_matrix_multiply_refuses_a_number_of_tokens_that_nothing_reads() -> None:
    with pytest.raises(ConfigError, match="found 5, expected null for the operation common"):
        BLOCKS.get("matrix_multiply").infer(SEQ, SEQ, operation="common", num_tokens=5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dropout", {"p": 1.0}),
        ("bilstm", {"hidden_dim": 0}),
        ("conv", {"filters": 3, "window": 0}),
        ("conv", {"window": 3}),
        ("conv_pooling", {"filters": 3, "windows": []}),
        ("conv2d", {"filters": 3, "window": [3]}),
        ("dynamic_pooling", {"segments": []}),
        ("dynamic_pooling", {"segments": [2, 0]}),
        ("grid_kmax", {}),
        ("interaction", {"operations": ["add"]}),
        ("linear", {"hidden_dim": 3, "activation": "swish"}),
        ("kmax_pooling", {"k": 0}),
        ("distance", {"operations": ["cosine"]}),
        ("matrix_multiply", {"num_tokens": 0}),
        ("transformer", {"norm": "both"}),
        ("qrnn", {"window": 0}),
        ("gated_cnn", {"filters": 3, "windows": []}),
        ("slot_attention", {"score": "none"}),
        ("pooling1d", {"stride": 0}),
        ("pooling2d", {"window": 2}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^here: ") as caught:
        check_options(BLOCKS.get(name), options, where="here")
    assert "unknown key" not in str(caught.value)
