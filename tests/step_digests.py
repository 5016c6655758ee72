"""Print digests of the probe and of one training step of every block and head, as JSON.

`python -m tests.step_digests` runs it in this process's processor; test_other_processors.py runs it
with others. "torch" is a digest of kernels that `nlp_core.arithmetic` replaces, before it does.
"""

import nlp_core  # isort: skip  # noqa: F401  # pins the instruction set before torch is imported

import json
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from nlp_core.heads import Head
from nlp_core.probe import digest_tensors, run_probe
from tests import block_contract, head_contract, test_blocks, test_heads

LR = 0.1


def digest_torch() -> str:
    """Return a digest of torch's own products and functions, which ask for the vendor."""
    x = torch.linspace(-3, 3, 40_000).view(200, 200)
    return digest_tensors([x @ x.t(), x.exp(), x.erf()])


def step(module: nn.Module, outputs: Iterable[Tensor]) -> str:
    """Take a step of gradient descent with the gradients there are; return its digest."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= LR * parameter.grad
    return digest_tensors([*outputs, *module.parameters()])


def step_block(row: block_contract.Row, dtype: torch.dtype) -> str:
    """Return the digest of a step of a block on the batch of its contract tests."""
    block = block_contract.build(row).to(dtype)
    fields = [
        x.to(dtype).requires_grad_() if x is not None and x.is_floating_point() else x
        for x in block_contract.make_fields(row)
    ]
    output: Tensor = block(*fields)
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(3))
    if output.requires_grad:
        torch.autograd.backward((output * weight.to(dtype)).sum())
    grads = [x.grad for x in fields if x is not None and x.grad is not None]
    return step(block, [output, *grads])


def step_head(row: head_contract.Row, dtype: torch.dtype) -> str:
    """Return the digest of a step of a head on the batch of its contract tests."""
    head: Head = head_contract.build(row).to(dtype)
    batch = head_contract.make_batch(head)
    target = batch.target.to(dtype) if batch.target.is_floating_point() else batch.target
    batch = batch._replace(x=batch.x.detach().to(dtype).requires_grad_(), target=target)
    scores = head_contract.score(head, batch)
    loss = head.loss(scores, batch.target, head.select_where(batch.mask, batch.group))
    torch.autograd.backward(loss)
    return step(head, [scores, loss])


def collect() -> dict[str, str]:
    """Return the digest of each operation, block and head by name."""
    found = {"torch": digest_torch(), **run_probe().operations}
    torch.use_deterministic_algorithms(True)
    for dtype in (torch.float32, torch.float64):
        for block in test_blocks.ROWS:
            found[f"{block.block} {block.options} {dtype}"] = step_block(block, dtype)
        for head in test_heads.ROWS:
            found[f"{head.head} {head.options} {dtype}"] = step_head(head, dtype)
    return found


if __name__ == "__main__":
    print(json.dumps(collect()))
