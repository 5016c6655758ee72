"""Arithmetic that gives the same bits on every x86-64 processor with AVX2.

torch computes matrix products and some functions with MKL, and MKL chooses its kernels by the
processor's vendor: AMD and Intel machines get different last bits, and training amplifies them.
`install` replaces torch's CPU kernels for these operations. No replacement depends on the vendor.

- Products go to OpenBLAS through NumPy. `nlp_core` pins OpenBLAS to its Haswell kernels, and the
  lock file pins NumPy, which carries OpenBLAS. `alpha` and `beta` are applied after the product.
- exp, tanh, log and log2 are computed in float64 from exp2, expm1 and log1p, which torch takes from
  Sleef. A float32 result is rounded once.
- sqrt is the processor's instruction, which IEEE 754 defines to the last bit.
- sin, cos, tan, their inverses and log10 come from NumPy, erf and its relatives from SciPy, and qr
  from NumPy.
- A convolution that torch does not give to oneDNN (float64, or one small image) becomes a product.
- Flash attention calls MKL directly, so it is switched off; attention computes softmax(QK)V.

LSTM layers, other convolutions, softmax, norms, gelu, sums and all random generators give the same
bits for every vendor. Products of float16, bfloat16, integers and complex numbers keep torch's
kernels. So do all GPU kernels, but products of float32 are not rounded to TF32, and attention is
computed as on a CPU. `torch.export` traces above this level, so an exported graph holds torch's
operations.

Reglue does not call what still uses MKL: the solvers of torch.linalg (svd, solve, eigh and others)
and convolutions in float64 that are dilated, transposed or three-dimensional.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nlp_core import IMPORTED_TOO_EARLY

KEY = "CPU"
FLOATS = (torch.float32, torch.float64)
LOG2_E = math.log2(math.e)
# ln 2 as a sum. The first part ends in 21 zero bits, so its product with the exponent of a float64
# is exact.
LN_2_HIGH, LN_2_LOW = 0.6931471803691238, 1.9082149292705877e-10

Compute = Callable[..., Any]  # Any: operations differ in what they take and return
"""Computes an operation. None means that torch's own kernel must do it, or report the error."""


@cache
def install() -> None:
    """Replace torch's CPU kernels that use MKL. A second call does nothing.

    Warns if NumPy or torch was imported before `nlp_core`, which is too late to pin their kernels.
    """
    if IMPORTED_TOO_EARLY:
        warnings.warn(
            f"{' and '.join(IMPORTED_TOO_EARLY)} was imported before nlp_core, so it uses the "
            "kernels of this processor, and other processors will compute different numbers. "
            "Import nlp_core first.",
            RuntimeWarning,
            stacklevel=2,
        )
    plain: dict[str, Compute] = {"mm": _mm, "bmm": _bmm, "dot": _dot}
    in_place: dict[str, Compute] = {
        "addmm": _addmm,
        "baddbmm": _baddbmm,
        "addmv": _addmv,
        **_list_functions(),
    }
    with warnings.catch_warnings():
        # torch warns once of a replaced kernel, although `allow_override` asks for it
        warnings.simplefilter("ignore", UserWarning)
        for name, compute in {**plain, **in_place}.items():
            _replace(name, compute, _return)
            _replace(f"{name}.out", compute, _write)
        for name, compute in in_place.items():
            _replace(f"{name}_", compute, _overwrite)
        _replace("pow.Tensor_Scalar", _pow, _return)
        _replace("pow.Tensor_Scalar_out", _pow, _write)
        _replace("pow_.Scalar", _pow, _overwrite)
        _replace("linalg_qr", _qr, _return)
        _replace("_slow_conv2d_forward", _convolve, _return)
        _replace("_slow_conv2d_backward.output_mask", _convolve_backward, _return)
    _set_backends()


def _set_backends() -> None:
    """Compute attention from products, and the GPU's products and convolutions without TF32."""
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    # not by `fp32_precision`, after which torch.export fails, since it reads these
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


# Held here because torch removes the kernels of a library that is garbage-collected.
_LIBRARY = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]


def _replace(name: str, compute: Compute, form: Callable[..., Any]) -> None:
    original = torch.library.get_kernel(f"aten::{name}", KEY)
    kernel = partial(form, compute, original.call_boxed)
    _LIBRARY.impl(  # type: ignore[no-untyped-call]
        name, kernel, KEY, with_keyset=True, allow_override=True
    )


def _return(compute: Compute, original: Compute, keys: Any, /, *args: Any, **options: Any) -> Any:
    result = compute(*args, **options)
    return original(keys, *args, **options) if result is None else result


def _overwrite(
    compute: Compute, original: Compute, keys: Any, /, x: Tensor, *args: Any, **options: Any
) -> Tensor:
    result = compute(x, *args, **options)
    if result is None or result.shape != x.shape or result.dtype != x.dtype:
        found: Tensor = original(keys, x, *args, **options)
        return found
    return x.copy_(result)


def _write(
    compute: Compute, original: Compute, keys: Any, /, *args: Any, out: Tensor, **options: Any
) -> Tensor:
    result = compute(*args, **options)
    if result is None or not torch.can_cast(result.dtype, out.dtype):
        found: Tensor = original(keys, *args, out=out, **options)
        return found
    return out.resize_(result.shape).copy_(result)


def _mm(a: Tensor, b: Tensor) -> Tensor | None:
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]:
        return _multiply(a, b, (a.shape[0], b.shape[1]))
    return None


def _bmm(a: Tensor, b: Tensor) -> Tensor | None:
    if a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]:
        return _multiply(a, b, (a.shape[0], a.shape[1], b.shape[2]))
    return None


def _mv(a: Tensor, b: Tensor) -> Tensor | None:
    if a.ndim == 2 and b.ndim == 1 and a.shape[1] == b.shape[0]:
        return _multiply(a, b, (a.shape[0],))
    return None


def _dot(a: Tensor, b: Tensor) -> Tensor | None:
    return _multiply(a, b, ()) if a.ndim == b.ndim == 1 and a.shape == b.shape else None


def _multiply(a: Tensor, b: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    if a.dtype != b.dtype or a.dtype not in FLOATS:
        return None
    # torch aligns memory to 64 bytes and NumPy does not, so torch allocates
    product = torch.empty(shape, dtype=a.dtype)
    # torch reports neither overflow nor invalid values, so NumPy must not warn of them
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(_view(a), _view(b), out=product.numpy())
    return product


def _view(x: Tensor) -> NDArray[np.floating[Any]]:
    """Return an array in a layout that OpenBLAS reads: NumPy's own product is slow."""
    if x.ndim > 1:
        (rows, columns), (down, across) = x.shape[-2:], x.stride()[-2:]
        if not ((across == 1 and down >= columns) or (down == 1 and across >= rows)):
            x = x.contiguous()
    array: NDArray[np.floating[Any]] = x.detach().numpy()
    return array


def _add(
    multiply: Callable[[Tensor, Tensor], Tensor | None],
    x: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Tensor | None:
    """Return beta x + alpha (a b); if beta is 0, x is not read."""
    product = multiply(a, b) if x.dtype == a.dtype else None
    if product is None or not _can_expand(x.shape, product.shape):
        return None
    if alpha != 1:
        product.mul_(alpha)
    return product.add_(x, alpha=beta) if beta != 0 else product


def _can_expand(shape: Sequence[int], target: Sequence[int]) -> bool:
    if len(shape) > len(target):
        return False
    last = target[len(target) - len(shape) :]
    return all(size in (1, wanted) for size, wanted in zip(shape, last, strict=True))


_addmm, _baddbmm, _addmv = partial(_add, _mm), partial(_add, _bmm), partial(_add, _mv)


def _list_functions() -> dict[str, Compute]:
    """Return by name the functions of one tensor for which torch uses MKL."""
    functions: dict[str, Compute] = {
        "exp": _exp,
        "tanh": _tanh,
        "log": _log,
        "log2": _log2,
        "sqrt": _sqrt,
        "logit": _logit,
        "log10": partial(_call_numpy, np.log10),
        "sin": partial(_call_numpy, np.sin),
        "cos": partial(_call_numpy, np.cos),
        "tan": partial(_call_numpy, np.tan),
        "asin": partial(_call_numpy, np.arcsin),
        "acos": partial(_call_numpy, np.arccos),
        "atan": partial(_call_numpy, np.arctan),
        "erf": partial(_call_scipy, "erf"),
        "erfc": partial(_call_scipy, "erfc"),
        "erfinv": partial(_call_scipy, "erfinv"),
    }
    return {name: partial(_apply, function) for name, function in functions.items()}


def _apply(function: Callable[..., Tensor], x: Tensor, *options: Any) -> Tensor | None:
    """Apply a function to floats, or to integers as floats of torch's default type."""
    if x.dtype in FLOATS:
        return function(x, *options).to(x.dtype)
    if x.is_floating_point() or x.is_complex():
        return None
    dtype = torch.get_default_dtype()
    return function(x.to(dtype), *options).to(dtype)


def _exp(x: Tensor) -> Tensor:
    if x.dtype == torch.float32:
        return x.double().mul_(LOG2_E).exp2_()
    # e^x = 2^n e^r with |r| < 0.35. 2^n is applied in two steps because n may be 1024.
    exponent = x.mul(LOG2_E).round_().clamp_(-1100, 1100)
    rest = x.sub(exponent, alpha=LN_2_HIGH).sub_(exponent, alpha=LN_2_LOW)
    half = exponent.mul(0.5).floor_()
    return rest.expm1_().add_(1).mul_(half.exp2()).mul_(exponent.sub_(half).exp2_())


def _tanh(x: Tensor) -> Tensor:
    # tanh x = (e^2x - 1) / (e^2x + 1), which is 1 in float64 from 19.1 on
    less = x.to(torch.float64, copy=True).clamp_(-20.0, 20.0).mul_(2).expm1_()
    return less.div_(less + 2)


def _log(x: Tensor) -> Tensor:
    rest, exponent = _split(x)
    # in this order the exact product is rounded once, and near 1 the exponent is 0
    return rest.add_(exponent, alpha=LN_2_LOW).add_(exponent, alpha=LN_2_HIGH)


def _log2(x: Tensor) -> Tensor:
    rest, exponent = _split(x)
    return rest.mul_(LOG2_E).add_(exponent)


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return log m and n in float64, where x = 2^n m and m lies between sqrt(1/2) and sqrt(2)."""
    mantissa, exponent = torch.frexp(x.double())
    is_low = (mantissa < math.sqrt(0.5)).double()
    mantissa.mul_(1.0 + is_low)
    return mantissa.sub_(1).log1p_(), exponent.double().sub_(is_low)


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return _log(x.double().div(1 - x.double()))


def _sqrt(x: Tensor) -> Tensor:
    root = torch.empty_like(x)
    with np.errstate(invalid="ignore"):
        np.sqrt(x.detach().numpy(), out=root.numpy())
    return root


def _call_numpy(function: Callable[..., Any], x: Tensor) -> Tensor:
    with np.errstate(invalid="ignore", divide="ignore"):
        return torch.from_numpy(np.asarray(function(x.detach().double().numpy())))


def _call_scipy(name: str, x: Tensor) -> Tensor:
    import scipy.special  # a quarter of a second to load, which few runs need

    return torch.from_numpy(np.asarray(getattr(scipy.special, name)(x.detach().double().numpy())))


def _pow(x: Tensor, exponent: float) -> Tensor | None:
    """Return the square root of x if the exponent is 0.5, the only case that uses MKL."""
    return _apply(_sqrt, x) if exponent == 0.5 else None


def _qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor] | None:
    if x.dtype not in FLOATS or x.ndim < 2 or mode not in ("reduced", "complete", "r"):
        return None
    if mode == "r":
        return x.new_empty(0), torch.from_numpy(np.linalg.qr(x.detach().numpy(), mode="r"))
    q, r = np.linalg.qr(x.detach().numpy(), mode="complete" if mode == "complete" else "reduced")
    return torch.from_numpy(q), torch.from_numpy(r)


def _convolve(
    x: Tensor,
    weight: Tensor,
    kernel_size: tuple[int, int],
    bias: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
) -> Tensor | None:
    """Return the convolution [B, F, H, W] of images [B, C, H, W] with filters [F, C, h, w]."""
    if x.dtype not in FLOATS or x.dtype != weight.dtype:
        return None
    windows = functional.unfold(x, kernel_size, padding=padding, stride=stride)
    product = torch.matmul(weight.flatten(1), windows)
    if bias is not None:
        product += bias.unsqueeze(-1)
    sizes = zip(x.shape[2:], kernel_size, stride, padding, strict=True)
    shape = [(size + 2 * pad - window) // step + 1 for size, window, step, pad in sizes]
    return product.view(*product.shape[:2], *shape)


def _convolve_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None] | None:
    """Return the gradients of images, filters and bias that `output_mask` asks for."""
    if x.dtype not in FLOATS or x.dtype != weight.dtype:
        return None
    grad = grad.flatten(2)
    of_x = of_weight = of_bias = None
    if output_mask[0]:
        windows = torch.matmul(weight.flatten(1).t(), grad)
        of_x = functional.fold(
            windows, (x.shape[2], x.shape[3]), kernel_size, padding=padding, stride=stride
        )
    if output_mask[1]:
        windows = functional.unfold(x, kernel_size, padding=padding, stride=stride)
        of_weight = torch.matmul(grad, windows.transpose(1, 2)).sum(0).view_as(weight)
    if output_mask[2]:
        of_bias = grad.sum((0, 2))
    return of_x, of_weight, of_bias
