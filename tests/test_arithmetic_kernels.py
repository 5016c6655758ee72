"""Products and functions on the CPU, in every form, against NumPy, float64 and known values."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from nlp_core import arithmetic

arithmetic.install()

pytestmark = pytest.mark.linux

FLOATS = [torch.float32, torch.float64]
# one unit in the last place: exp, tanh, log and sqrt are rounded once in float32; in float64 they
# and SciPy's functions may be off by a few
FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "exp": (math.exp, -80.0, 80.0),
    "tanh": (math.tanh, -9.0, 9.0),
    "log": (math.log, 1e-30, 1e30),
    "log2": (math.log2, 1e-30, 1e30),
    "log10": (math.log10, 1e-30, 1e30),
    "sqrt": (math.sqrt, 0.0, 1e30),
    "sin": (math.sin, -9.0, 9.0),
    "cos": (math.cos, -9.0, 9.0),
    "tan": (math.tan, -1.5, 1.5),
    "asin": (math.asin, -1.0, 1.0),
    "acos": (math.acos, -1.0, 1.0),
    "atan": (math.atan, -9.0, 9.0),
    "erf": (math.erf, -3.0, 3.0),
    "erfc": (math.erfc, -3.0, 3.0),
}


def make(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def assert_same(found: Tensor, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert found.numpy().tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_those_of_openblas(dtype: torch.dtype) -> None:
    a, b, v = make(7, 5, dtype=dtype), make(5, 9, dtype=dtype, seed=1), make(5, dtype=dtype)
    assert_same(a @ b, np.matmul(a.numpy(), b.numpy()))
    assert_same(a @ v, np.matmul(a.numpy(), v.numpy()))
    assert_same(torch.dot(v, v), np.matmul(v.numpy(), v.numpy()))
    batch = make(4, 7, 5, dtype=dtype)
    assert_same(torch.bmm(batch, b.expand(4, 5, 9)), np.matmul(batch.numpy(), b.numpy()))
    assert_same(torch.mm(a, b, out=torch.empty(7, 9, dtype=dtype)), np.matmul(a.numpy(), b.numpy()))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.5, 2.0), (0.0, 1.0)])
def test_sums_of_products_in_every_form(dtype: torch.dtype, beta: float, alpha: float) -> None:
    a, b, c = make(3, 7, 5, dtype=dtype), make(3, 5, 9, dtype=dtype, seed=1), make(9, dtype=dtype)
    c_or_nan = c if beta else torch.full_like(c, math.nan)  # with a beta of 0 it is not read
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    for name, x, y in [("addmm", a[0], b[0]), ("baddbmm", a, b), ("addmv", a[0], b[0, :, 0])]:
        added = c_or_nan[:7] if name == "addmv" else c_or_nan
        kept = c[:7] if name == "addmv" else c
        expected = torch.from_numpy(np.matmul(x.numpy(), y.numpy())) * alpha
        expected = expected + kept * beta if beta else expected
        compute, options = getattr(torch, name), {"beta": beta, "alpha": alpha}
        np.testing.assert_allclose(compute(added, x, y, **options), expected, **tolerance)
        into = torch.empty(0, dtype=dtype)
        assert torch.equal(
            compute(added, x, y, out=into, **options), compute(added, x, y, **options)
        )
        wide = added.expand_as(expected).clone()
        getattr(wide, f"{name}_")(x, y, **options)
        assert torch.equal(wide, compute(added, x, y, **options))


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded", "offset"])
def test_the_layout_in_memory_changes_only_the_speed(layout: str) -> None:
    b = make(12, 9)
    a = {
        "transposed": make(12, 8).t(),
        "strided": make(8, 24)[:, ::2],
        "expanded": make(1, 12).expand(8, 12),
        "offset": make(97)[1:].view(8, 12),
    }[layout]
    torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-5)
    same = make(97)
    for start in range(5):  # memory that is not aligned
        moved = torch.empty(97 + start)[start:].copy_(same)
        assert torch.equal(moved[1:].view(8, 12) @ b, same[1:].view(8, 12) @ b)


def test_empty_products() -> None:
    assert torch.equal(torch.mm(torch.ones(2, 0), torch.ones(0, 3)), torch.zeros(2, 3))
    assert torch.bmm(torch.ones(0, 2, 3), torch.ones(0, 3, 4)).shape == (0, 2, 4)
    assert torch.mv(torch.ones(0, 3), torch.ones(3)).shape == (0,)
    found = torch.addmm(torch.ones(3), torch.ones(2, 0), torch.ones(0, 3), beta=2)
    assert torch.equal(found, torch.full((2, 3), 2.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.complex64])
def test_other_numbers_keep_the_kernels_of_torch(dtype: torch.dtype) -> None:
    ones = torch.ones(3, 3, dtype=dtype)
    assert torch.equal(ones @ ones, ones * 3)
    if dtype.is_floating_point:
        assert ones.exp().dtype == dtype
        assert ones.tanh_().dtype == dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)), "cannot be multiplied"),
        (lambda: torch.mm(torch.ones(2, 3), torch.ones(3, 2).double()), "same dtype"),
        (lambda: torch.addmm(torch.ones(5), torch.ones(2, 3), torch.ones(3, 2)), "expanded size"),
        (lambda: torch.ones(2, dtype=torch.long).exp_(), "can't be cast"),
        (lambda: torch.mm(torch.ones(1, 1), torch.ones(1, 1), out=torch.ones(1).long()), "dtype"),
    ],
)
def test_errors_are_those_of_torch(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_exact_to_the_last_places(name: str) -> None:
    function, low, high = FUNCTIONS[name]
    share = torch.linspace(0, 1, 2001, dtype=torch.float64)
    x = low + (high - low) * share
    if low > 0:
        x = torch.exp2(math.log2(low) + math.log2(high / low) * share)
    for dtype, units in [(torch.float32, 0.51), (torch.float64, 40.0 if name == "erfc" else 3.0)]:
        taken = x.to(dtype)
        found = getattr(torch, name)(taken)
        expected = torch.tensor([function(v) for v in taken.tolist()], dtype=torch.float64)
        size = expected.abs().clamp(min=torch.finfo(dtype).tiny)
        error = (found.double() - expected).abs() / size / torch.finfo(dtype).eps
        assert error.max() <= units
        assert found.dtype == dtype
        assert torch.equal(getattr(taken.clone(), f"{name}_")(), found)
        assert torch.equal(getattr(torch, name)(taken, out=torch.empty(0, dtype=dtype)), found)


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, width=32))
def test_log_undoes_exp_and_limits_hold(value: float) -> None:
    x = torch.tensor(value)
    assert x.tanh().abs() <= 1
    assert (x.exp() >= 0).item()
    if -80 < value < 80:
        torch.testing.assert_close(x.exp().double().log(), x.double(), rtol=1e-5, atol=1e-6)


def test_limits_of_functions() -> None:
    x = torch.tensor([-math.inf, -1.0, -0.0, 0.0, math.inf, math.nan])
    nan = math.nan
    for dtype in FLOATS:
        y = x.to(dtype)
        powers = torch.tensor([0, math.e**-1, 1, 1, math.inf, nan]).to(dtype)
        torch.testing.assert_close(y.exp(), powers, equal_nan=True)
        expected = torch.tensor([nan, nan, -math.inf, -math.inf, math.inf, nan]).to(dtype)
        torch.testing.assert_close(y.log(), expected, equal_nan=True)
        torch.testing.assert_close(y.log2(), expected, equal_nan=True)
        assert y.tanh()[[0, 2, 3, 4]].tolist() == [-1, 0, 0, 1]
        assert math.copysign(1, y.tanh()[2].item()) == -1
        assert y.sqrt()[1].isnan()
    assert torch.tensor(5e-324, dtype=torch.float64).log().item() == math.log(5e-324)
    assert torch.tensor(709.7, dtype=torch.float64).exp().item() == pytest.approx(math.exp(709.7))
    assert torch.arange(3).exp().tolist() == pytest.approx([1, math.e, math.e**2])


def test_logit_and_square_roots_as_powers() -> None:
    share = torch.tensor([0.1, 0.5, 0.999])
    torch.testing.assert_close(torch.sigmoid(torch.logit(share)), share)
    assert torch.logit(torch.tensor([0.0, 1.0]), eps=0.1).tolist() == pytest.approx(
        [math.log(1 / 9), math.log(9)]
    )
    assert torch.equal(share**0.5, share.sqrt())
    assert torch.equal(share.clone().pow_(0.5), share.sqrt())
    assert torch.equal(torch.pow(share, 2.0), share * share)


def test_gradients_of_gradients_are_right() -> None:
    x = make(3, 4, dtype=torch.float64).requires_grad_()

    def compute(value: Tensor) -> Tensor:
        return (value @ value.t()).exp().logsumexp(0).log().tanh().sqrt()

    assert torch.autograd.gradcheck(compute, x)
    assert torch.autograd.gradgradcheck(compute, x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (0, 0)), ((2, 1), (1, 2))])
def test_convolutions_outside_of_onednn_equal_windows_times_filters(
    dtype: torch.dtype, stride: tuple[int, int], padding: tuple[int, int]
) -> None:
    images, filters = make(1, 3, 6, 5, dtype=dtype), make(4, 3, 3, 2, dtype=dtype, seed=1)
    bias = make(4, dtype=dtype, seed=2)
    leaves = [item.requires_grad_() for item in (images, filters, bias)]
    found = functional.conv2d(images, filters, bias, stride=stride, padding=padding)
    padded = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(2, 3, stride[0]).unfold(3, 2, stride[1])
    expected = torch.einsum("bchwij,fcij->bfhw", windows, filters) + bias.view(-1, 1, 1)
    torch.testing.assert_close(found, expected)
    weight = make(*found.shape, dtype=dtype, seed=3)
    for got, wanted in zip(
        torch.autograd.grad((found * weight).sum(), leaves),
        torch.autograd.grad((expected * weight).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_factors_multiply_to_the_matrix(mode: str) -> None:
    x = make(5, 3)
    q, r = torch.linalg.qr(x, mode=mode)
    if mode == "r":
        torch.testing.assert_close(r.t() @ r, x.t() @ x)
    else:
        torch.testing.assert_close(q @ r, x)
        torch.testing.assert_close(q.t() @ q, torch.eye(q.shape[1]), rtol=0, atol=1e-6)


def test_attention_takes_the_products_of_openblas() -> None:
    assert not torch.backends.cuda.flash_sdp_enabled()
    x = make(2, 3, 8, 4)
    scores = (x @ x.transpose(-1, -2)) * 0.5
    expected = scores.softmax(-1) @ x
    torch.testing.assert_close(functional.scaled_dot_product_attention(x, x, x), expected)


def test_an_exported_program_holds_operations_of_torch() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x).tanh()

    program = torch.export.export(Model(), (torch.ones(3, 3),))
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names == ["aten.matmul.default", "aten.tanh.default"]


def test_openblas_is_pinned_to_one_processor_family() -> None:
    from threadpoolctl import threadpool_info

    libraries = [item for item in threadpool_info() if item["internal_api"] == "openblas"]
    assert libraries
    assert {(item["architecture"], item["num_threads"]) for item in libraries} == {("Haswell", 1)}
