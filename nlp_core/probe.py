"""A probe of the machine: digests of the operations that training uses, in about a second.

The same digests mean the same bits, so two machines with the same probe train the same weights. The
probe is part of each cell's fingerprint; `reglue doctor` compares it with the committed one.

It uses torch and NumPy directly, not our blocks: it measures the machine, not our code. Inputs come
from integers, so a different generator cannot change the digest of another operation.

Shape letters: B batch, T tokens, D width, H heads, K head width, L labels.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nlp_core import arithmetic

DIGITS = 16
Result = Iterable[Tensor]


class Probe(NamedTuple):
    """The digests of all operations, and one digest of them all."""

    operations: Mapping[str, str]
    digest: str


@cache
def run_probe() -> Probe:
    """Run every operation on one thread and return the digests. The global generator is kept."""
    arithmetic.install()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        operations = {name: digest_tensors(compute()) for name, compute in OPERATIONS.items()}
    torch.set_num_threads(threads)
    whole = hashlib.sha256("".join(f"{n}={d}\n" for n, d in operations.items()).encode())
    return Probe(operations, whole.hexdigest()[:DIGITS])


def digest_tensors(tensors: Iterable[Tensor]) -> str:
    """Return the first digits of the sha256 of the tensors' bytes."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().contiguous().cpu().numpy().tobytes())
    return sha.hexdigest()[:DIGITS]


def _make(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Return float32 numbers between two limits, computed by an integer hash."""
    number = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * np.uint64(2654435761 + seed)
    share = ((number ^ (number >> np.uint64(15))) & np.uint64(0xFFFFFF)).astype(np.float32) / 2**24
    return torch.from_numpy(share.reshape(shape)) * (high - low) + low


def _products() -> Result:
    # rows, inner, columns: LSTM gates, char CNN windows, MiniLM layers, similarity of two texts
    for rows, inner, columns in [(500, 150, 400), (900, 90, 50), (256, 384, 384), (37, 1536, 65)]:
        a, b = _make(rows, inner), _make(columns, inner, seed=2)
        yield a @ b.t()
        yield torch.addmm(_make(columns, seed=3), a, b.t())
        yield a.t() @ _make(rows, columns, seed=3)
        yield torch.mv(a, b[0])
    yield _make(60, 70).double() @ _make(70, 80, seed=2).double()
    yield torch.dot(_make(1000), _make(1000, seed=2))


def _batched_products() -> Result:
    a, b = _make(24, 40, 32), _make(24, 50, 32, seed=2)
    yield torch.bmm(a, b.transpose(1, 2))
    yield torch.baddbmm(_make(24, 1, 50), a, b.transpose(1, 2), alpha=0.5)
    yield torch.einsum("btd,bsd->bts", a, b)
    yield torch.cdist(a, b)


def _factorisation() -> Result:
    matrix = _make(60, 40)
    yield from torch.linalg.qr(matrix)
    yield torch.from_numpy(np.linalg.eigh((matrix.t() @ matrix).numpy()).eigenvalues)


def _function(
    function: Callable[[Tensor], Tensor], low: float, high: float
) -> Callable[[], Result]:
    def compute() -> Result:
        x = _make(4099, low=low, high=high)
        return function(x), function(x[:35]), function(x.double())

    return compute


def _sums() -> Result:
    x = _make(37, 1201)
    yield from (x.sum(), x.sum(0), x.sum(1), x.mean(1), x.std(1), x.norm(), x.cumsum(1))
    yield torch.linalg.vector_norm(x, dim=1)
    yield torch.zeros(50, 37).index_add_(0, torch.arange(1201) % 50, x.t().contiguous())


def _norms() -> Result:
    x = _make(16, 30, 384).requires_grad_()
    norm = functional.layer_norm(x, (384,), _make(384, seed=2), _make(384, seed=3))
    batch = functional.batch_norm(x.flatten(1), None, None, training=True)
    return norm, batch, *torch.autograd.grad(norm.square().sum() + batch.square().sum(), x)


def _recurrence(build: type[nn.LSTM | nn.GRU]) -> Callable[[], Result]:
    def compute() -> Result:
        layer = build(50, 100, batch_first=True, bidirectional=True)
        _fill(layer)
        x = _make(8, 12, 50).requires_grad_()
        out: Tensor = layer(x)[0]
        return out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])

    return compute


def _convolution() -> Result:
    for shape in [(4, 3, 32, 32), (1, 3, 9, 9)]:
        x, weight = _make(*shape).requires_grad_(), _make(8, 3, 3, 3, seed=2).requires_grad_()
        out = functional.conv2d(x, weight, _make(8, seed=3), padding=1)
        yield from (out, *torch.autograd.grad(out.square().sum(), [x, weight]))
    yield functional.conv1d(_make(20, 30, 12), _make(50, 30, 3, seed=2))


def _attention() -> Result:
    query, key, value = (_make(4, 12, 40, 32, seed=seed).requires_grad_() for seed in (1, 2, 3))
    mask = (torch.arange(40) < torch.tensor([40, 31, 22, 7]).unsqueeze(1))[:, None, None]
    out = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return out, *torch.autograd.grad(out.square().sum(), [query, key, value])


def _crf_step() -> Result:
    scores, chain = _make(6, 14, 9, high=4.0), _make(9, 9, seed=2)
    scores.requires_grad_()
    chain.requires_grad_()
    alpha = scores[:, 0]
    for position in range(1, 14):
        alpha = (alpha.unsqueeze(2) + chain).logsumexp(1) + scores[:, position]
    loss = alpha.logsumexp(1).sum()
    return loss, *torch.autograd.grad(loss, [scores, chain])


def _transformer_step() -> Result:
    """Take a step of AdamW on a layer as wide as MiniLM's, with a clipped gradient."""
    names = {"query": 384, "key": 384, "value": 384, "out": 384, "up": 1536}
    layers = nn.ModuleDict({name: nn.Linear(384, width) for name, width in names.items()})
    layers["down"] = nn.Linear(1536, 384)
    _fill(layers)
    x = _make(4, 20, 384)
    heads = [layers[name](x).unflatten(-1, (12, 32)).transpose(1, 2) for name in list(names)[:3]]
    mixed = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
    x = functional.layer_norm(x + layers["out"](mixed), (384,))
    x = functional.layer_norm(x + layers["down"](functional.gelu(layers["up"](x))), (384,))
    loss = functional.cross_entropy(x[:, 0], torch.arange(4))
    torch.autograd.backward(loss)
    norm = nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
    weights = list(layers.parameters())
    _step_adamw(weights)
    return loss, norm, *weights


def _step_adamw(weights: list[nn.Parameter]) -> None:
    """Take the first fused step. The class torch.optim.AdamW would import a compiler for it."""
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    largest: list[Tensor] = []
    with torch.no_grad():
        torch._fused_adamw_(
            [*weights],
            [weight.grad for weight in weights if weight.grad is not None],
            means,
            squares,
            largest,
            [torch.tensor(1.0) for _ in weights],
            lr=1e-3,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def _sgd_step() -> Result:
    weight, momentum = _make(40, 50), _make(40, 50, seed=3)
    torch._fused_sgd_(
        [weight],
        [_make(40, 50, seed=2)],
        [momentum],
        weight_decay=0.01,
        momentum=0.9,
        lr=0.01,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )
    return weight, momentum


def _generators() -> Result:
    torch.manual_seed(1)
    yield from (torch.randn(1000), torch.rand(1000), torch.randperm(1000))
    yield torch.empty(40, 50).uniform_(-0.1, 0.1)
    yield functional.dropout(_make(40, 50), 0.5)
    yield torch.bernoulli(torch.full((1000,), 0.3))
    yield torch.multinomial(torch.ones(50), 20)
    yield torch.from_numpy(np.random.default_rng(1).permutation(1000))
    yield torch.from_numpy(np.random.default_rng(1).standard_normal(1000))


def _numpy() -> Result:
    x = _make(4099, low=0.01, high=9.0).numpy()
    for values in (x, x.astype(np.float64)):
        results = (np.exp(values), np.log(values), np.sqrt(values), np.tanh(values), values.sum())
        yield from (torch.from_numpy(np.asarray(result)) for result in results)


def _fill(module: nn.Module) -> None:
    for idx, parameter in enumerate(module.parameters()):
        parameter.data = _make(*parameter.shape, seed=idx + 5, low=-0.1, high=0.1)


OPERATIONS: dict[str, Callable[[], Result]] = {
    "matrix products": _products,
    "batched products": _batched_products,
    "factorisation": _factorisation,
    "exp": _function(torch.exp, -20.0, 20.0),
    "log": _function(torch.log, 0.0, 9.0),
    "log2": _function(torch.log2, 0.0, 9.0),
    "sqrt": _function(torch.sqrt, 0.0, 9.0),
    "tan": _function(torch.tan, -1.5, 1.5),
    "erf": _function(torch.erf, -3.0, 3.0),
    "erfinv": _function(torch.erfinv, -0.99, 0.99),
    "expm1": _function(torch.expm1, -3.0, 3.0),
    "log1p": _function(torch.log1p, 0.0, 9.0),
    "sin": _function(torch.sin, -9.0, 9.0),
    "cos": _function(torch.cos, -9.0, 9.0),
    "tanh": _function(torch.tanh, -5.0, 5.0),
    "sigmoid": _function(torch.sigmoid, -9.0, 9.0),
    "softplus": _function(functional.softplus, -9.0, 9.0),
    "gelu": _function(functional.gelu, -5.0, 5.0),
    "rsqrt": _function(torch.rsqrt, 0.1, 9.0),
    "pow": _function(lambda x: x.pow(1.5), 0.1, 9.0),
    "softmax": _function(lambda x: x[:35].view(5, 7).softmax(-1), -9.0, 9.0),
    "log_softmax": _function(lambda x: x[:35].view(5, 7).log_softmax(-1), -9.0, 9.0),
    "logsumexp": _function(lambda x: x[:35].view(5, 7).logsumexp(0), -9.0, 9.0),
    "sums": _sums,
    "norms": _norms,
    "LSTM": _recurrence(nn.LSTM),
    "GRU": _recurrence(nn.GRU),
    "convolution": _convolution,
    "attention": _attention,
    "CRF step": _crf_step,
    "Transformer step": _transformer_step,
    "SGD step": _sgd_step,
    "generators": _generators,
    "NumPy": _numpy,
}
