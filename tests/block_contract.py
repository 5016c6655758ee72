"""Tests of blocks: a row of the contract, its block, a batch, a pass forwards and backwards."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

import nlp_core.models  # noqa: F401  # names the block pretrained_encoder
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
    Block,
    Shape,
)
from nlp_core.blocks.masking import cross_masks
from tests.tiny_encoder import TINY_ENCODER
from tests.tiny_encoder_decoder import TINY_T5

LENGTHS = [5, 1, 3]
OTHER_LENGTHS = [2, 4, 6]
NUM_IDS = 9


class Row(NamedTuple):
    block: str
    options: dict[str, Any]
    inputs: list[Shape]
    others: tuple[int, ...] = ()
    """Inputs that belong to another text, of another length."""


MASK_ONLY = {("full_attention", 0), ("sentence_encoder", 0)}
"""Inputs that get no gradient: of the first only the mask is read, the second is rounded."""


def make_block(row: Row) -> Block:
    """Make a row's block from its widths, or from the configuration of an encoder."""
    config = {**TINY_T5, "vocab_size": NUM_IDS} if "decoder" in row.block else TINY_ENCODER
    sizes: list[Any] = [config if shape.rank == PIECES else shape.dim for shape in row.inputs]
    return BLOCKS.get(row.block)(*sizes, **row.options).double()


def build(row: Row) -> Block:
    """Build a row's block with random numbers everywhere, also where they would start at 0."""
    torch.manual_seed(1)
    block = make_block(row)
    with torch.no_grad():
        for parameter in block.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.rand_like(parameter) * 0.1)
    return block


def list_read(block: Block) -> dict[str, torch.nn.Parameter]:
    """Return the parameters by name, without those of a decoder, which only a head reads."""
    return {name: item for name, item in block.named_parameters() if ".decoder." not in name}


def lengths_of(row: Row, idx: int) -> list[int]:
    return OTHER_LENGTHS if idx in row.others else LENGTHS


def make_mask(lengths: list[int], extra: int) -> Tensor:
    return torch.arange(max(lengths) + extra) < torch.tensor(lengths).unsqueeze(1)


def pad(x: Tensor, *, axis: int, extra: int, value: float) -> Tensor:
    shape = list(x.shape)
    shape[axis] = extra
    return torch.cat([x, torch.full(shape, value, dtype=x.dtype)], axis)


def make_fields(row: Row, *, extra: int = 0) -> list[Tensor | None]:
    """Make a batch whose real part is always the same, with so much more padding."""
    generator = torch.Generator().manual_seed(7)
    fields: list[Tensor | None] = []
    for idx, shape in enumerate(row.inputs):
        lengths = lengths_of(row, idx)
        mask = make_mask(lengths, extra)
        size = (len(lengths), max(lengths))
        if shape.rank in (VECTOR, NUMBERS):
            fields += [torch.randn(3, shape.dim, generator=generator).double(), None]
        elif shape.rank in (SEQUENCE, TOKEN_NUMBERS):
            x = torch.randn(*size, shape.dim, generator=generator).double()
            x = pad(x, axis=1, extra=extra, value=50.0)
            fields += [x.masked_fill(~mask.unsqueeze(-1), 50.0), mask]
        elif shape.rank == GRID:
            mask = cross_masks(mask, make_mask(OTHER_LENGTHS, extra))
            x = torch.randn(*size, max(OTHER_LENGTHS), shape.dim, generator=generator).double()
            x = pad(pad(x, axis=1, extra=extra, value=50.0), axis=2, extra=extra, value=50.0)
            fields += [x.masked_fill(~mask.unsqueeze(-1), 50.0), mask]
        elif shape.rank == WORDS:
            ids = torch.randint(2, NUM_IDS, size, generator=generator)
            fields += [pad(ids, axis=1, extra=extra, value=0) * mask, mask]
        elif shape.rank == PIECES:
            fields += [*make_pieces(size, mask, generator), mask]
        else:
            fields += [*make_words(size, extra, generator), mask]
    return fields


def make_words(size: tuple[int, int], extra: int, generator: torch.Generator) -> list[Tensor]:
    ids = torch.randint(1, NUM_IDS, (6, 4), generator=generator)
    ids = ids * make_mask([4, 1, 2, 3, 4, 2], 0)
    index = torch.randint(0, 6, size, generator=generator)
    ids = pad(pad(ids, axis=1, extra=extra, value=0), axis=0, extra=extra, value=3)
    return [ids, pad(index, axis=1, extra=extra, value=0)]


def make_pieces(size: tuple[int, int], mask: Tensor, generator: torch.Generator) -> list[Tensor]:
    ids = torch.randint(1, NUM_IDS, size, generator=generator)
    ids = pad(ids, axis=1, extra=mask.shape[1] - size[1], value=3)
    segments = torch.arange(mask.shape[1]).expand_as(mask) > 1
    places = torch.arange(mask.numel()).view_as(mask)
    return [ids, segments.long() * mask, mask, places * mask]


def find_output_mask(block: Block, row: Row, fields: list[Tensor | None]) -> Tensor:
    masks = fields[1::2] if row.inputs[0].rank > CHARACTERS else fields[-1:]
    mask = block.output_mask(*masks)
    assert mask is not None
    return mask


def cut_padding(x: Tensor, mask: Tensor) -> Tensor:
    """Return the part that any example fills, after a look that all else is zero."""
    assert not x[~mask].any(), "padding is not zero, or gets a gradient"
    for axis in range(1, mask.ndim):
        others = [other for other in range(mask.ndim) if other != axis]
        x = x.narrow(axis, 0, int(mask.any(others).sum()) if others else len(mask))
    return x


class Outcome(NamedTuple):
    output: Tensor
    inputs: list[Tensor]
    parameters: dict[str, Tensor]


def run(block: Block, row: Row, *, extra: int = 0) -> Outcome:
    """Run forwards and backwards; cut the padding off what comes out."""
    fields = make_fields(row, extra=extra)
    leaves = [x.requires_grad_() for x in fields if x is not None and x.is_floating_point()]
    output = block(*fields)
    if output.ndim > VECTOR:
        output = cut_padding(output, find_output_mask(block, row, fields))
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).double()
    (output * weight).sum().backward()
    grads = {name: p.grad for name, p in block.named_parameters() if p.grad is not None}
    inputs = []
    masks = fields[1::2]
    for idx, (leaf, mask) in enumerate(zip(leaves, masks, strict=False)):  # raw inputs have no leaf
        assert (leaf.grad is None) == ((row.block, idx) in MASK_ONLY)
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        inputs.append(grad if mask is None else cut_padding(grad, mask))
    return Outcome(output.detach(), inputs, grads)


def assert_same(first: Outcome, second: Outcome, tolerance: float) -> None:
    options: dict[str, float] = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(first.output, second.output, **options)
    torch.testing.assert_close(first.inputs, second.inputs, **options)
    torch.testing.assert_close(first.parameters, second.parameters, **options)


def assert_close(found: Tensor, expected: list[object] | Tensor) -> None:
    """Compare a block's output with numbers, as exactly as its type allows."""
    wanted = expected if isinstance(expected, Tensor) else torch.tensor(expected)
    torch.testing.assert_close(found, wanted.to(found.dtype))
