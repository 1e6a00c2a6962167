"""Products and convolutions of int8 tensors, added up in int32; see decisions/038 for how they are computed."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Padding, Sizes, Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import convolution
from bireme.ops.nn import conv, conv_lowering

KERNELS = 64  # from so many on, a convolution is a product of windows on CPU
EXACT = 2**24 // 128**2  # so many products of int8 numbers have a sum that float32 holds exactly


def as_floats(x: np.ndarray, y: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """NumPy multiplies floats by BLAS and integers one by one: operands in a type that holds the sums exactly."""
    kind = np.float32 if count <= EXACT else np.float64
    return x.astype(kind), y.astype(kind)


def product(x: Any, y: Any, y_axis: int = 0) -> Any:
    """[..., k] times [k, n], or with `y_axis` 1 [n, k], in int32."""
    return lax.dot_general(x, y, (((x.ndim - 1,), (y_axis,)), ((), ())), preferred_element_type=np.int32)


def product_on_cpu(x: Any, y: Any, y_axis: int = 0) -> Any:
    """The same; one row goes with one of zeros, since XLA has a kernel for matrices and a plain loop for vectors."""
    if x.size != x.shape[-1]:
        return product(x, y, y_axis)
    rows = jnp.concatenate([x.reshape(1, -1), jnp.zeros((1, x.size), x.dtype)])
    return product(rows, y, y_axis)[0].reshape(*x.shape[:-1], -1)


def _less(sums, offset):
    """What is left of sums of products when that of the zero point is taken away."""
    return sums if offset is None else sums - offset


def _matmul_numpy(x, y, offset, zero_point):
    wide, other = as_floats(x, y, x.shape[-1])
    return _less((wide @ other).astype(np.int32), offset)


@op(internal=True, differentiable=False, numpy=_matmul_numpy)
def matmul_integer(x: Tensor, y: Tensor, zero_point: int = 0, offset: Tensor | None = None) -> Tensor:
    """Product of int8 tensors of shapes [..., k] and [k, n] in int32, as ONNX's MatMulInteger.

    `zero_point` is the integer of `x` that means zero; `offset`, int32 of shape [n], is it times the sums of the columns
    of `y`, which is known once and not at every call.
    """
    return _less(product(x, y), offset)


matmul_integer.on("cpu")(lambda x, y, zero_point, offset: _less(product_on_cpu(x, y), offset))
matmul_integer.infer(lambda x, y: sig_of((*x.shape[:-1], y.shape[1]), dtypes.int32))


def _check_offset(name, zero_point, offset, outputs):
    if (offset is None) != (zero_point == 0) or not -128 <= zero_point <= 127:
        raise errors.bad(f"{name}(zero_point)", "an int8 integer, and an offset unless it is 0", zero_point)
    if offset is not None and (offset.dtype.name != "int32" or list(offset.shape) != [outputs]):
        got = f"{offset.dtype.name} of shape {list(offset.shape)}"
        raise errors.bad(f"{name}(offset)", f"int32 of shape [{outputs}]", described=got, kind=errors.ShapeError)


@matmul_integer.check
def _(x, y, zero_point, offset):
    if any(t.dtype.name != "int8" for t in (x, y)) or y.ndim != 2 or not x.ndim or x.shape[-1] != y.shape[0]:
        raise errors.bad(
            "matmul_integer(y)",
            f"int8 tensors, and {x.shape[-1] if x.ndim else 'k'} rows",
            described=f"{x.dtype.name} and {y.dtype.name} of shape {list(y.shape)}",
            kind=errors.ShapeError,
        )
    _check_offset("matmul_integer", zero_point, offset, y.shape[1])


# ---------------------------------------------------------------- convolution


def _windows(x, window, stride, dilation):
    """Images [n, ..., channels] as rows of all that a window sees: [n, out..., window * channels]."""
    dims = x.shape[1:-1]
    out = [max((m - (k - 1) * d - 1) // s + 1, 0) for m, k, s, d in zip(dims, window, stride, dilation)]
    found = []
    for at in np.ndindex(*window):
        starts = [i * d for i, d in zip(at, dilation)]
        ends = [a + max((o - 1) * s + 1, 0) for a, o, s in zip(starts, out, stride)]
        found.append(lax.slice(x, (0, *starts, 0), (x.shape[0], *ends, x.shape[-1]), (1, *stride, 1)))
    return jnp.concatenate(found, -1)


def _padded(x, padding, zero_point, data_format, numbers):
    """Images with what means zero around them, and no padding left."""
    if not zero_point or not any(map(any, padding)):
        return x, padding
    edges = ((0, 0), *padding, (0, 0)) if data_format[-1] == "C" else ((0, 0), (0, 0), *padding)
    return numbers.pad(x, edges, constant_values=zero_point), ((0, 0),) * len(padding)


def _by_channel(offset, data_format):
    return offset if offset is None or data_format[-1] == "C" else offset.reshape(-1, 1, 1)


def _by_windows(x, weight, stride, padding, dilation, data_format):
    last, (outs, _, *window) = data_format[-1] == "C", weight.shape
    x = jnp.pad(x if last else x.transpose(0, 2, 3, 1), ((0, 0), *padding, (0, 0)))
    rows = _windows(x, window, stride, dilation)
    out = product(rows, weight.transpose(2, 3, 1, 0).reshape(-1, outs))
    return out if last else out.transpose(0, 3, 1, 2)


def _by_floats(x, weight, stride, padding, dilation, groups, data_format):
    kind = np.float32 if math.prod(weight.shape[1:]) <= EXACT else np.float64
    last = data_format[-1] == "C"
    out = conv_lowering.forward(x.astype(kind), weight.astype(kind), stride, padding, dilation, groups, last)
    return jnp.round(out).astype(np.int32)


def _conv_numpy(x, weight, offset, stride, padding, dilation, groups, data_format, zero_point):
    x, padding = _padded(x, padding, zero_point, data_format, np)
    wide, kernel = as_floats(x, weight, math.prod(weight.shape[1:]))
    out = convolution.forward(wide, kernel, stride, padding, dilation, groups, data_format[-1] == "C")
    return _less(out.astype(np.int32), _by_channel(offset, data_format))


@op(internal=True, differentiable=False, numpy=_conv_numpy)
def conv2d_integer(x: Tensor, weight: Tensor, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1, groups: int = 1,
                   data_format: str = "NCHW", zero_point: int = 0, offset: Tensor | None = None) -> Tensor:  # fmt: skip
    """Convolution of int8 images with int8 kernels in int32, as ONNX's ConvInteger.

    `zero_point` is the integer of `x` that means zero, which padding has too; `offset`, int32 with an element for each
    kernel, is it times the kernel's sum.
    """
    x, padding = _padded(x, padding, zero_point, data_format, jnp)
    if groups == 1:
        made = _by_windows(x, weight, stride, padding, dilation, data_format)
    else:
        made = _by_floats(x, weight, stride, padding, dilation, groups, data_format)
    return _less(made, _by_channel(offset, data_format))


@conv2d_integer.on("cpu")
def _(x, weight, stride, padding, dilation, groups, data_format, zero_point, offset):
    x, padding = _padded(x, padding, zero_point, data_format, jnp)
    # windows are written out once, and read by each kernel: that pays for many kernels alone
    few = weight.shape[0] < KERNELS and math.prod(weight.shape[1:]) <= EXACT
    if groups == 1 and not few:
        made = _by_windows(x, weight, stride, padding, dilation, data_format)
    else:
        made = _by_floats(x, weight, stride, padding, dilation, groups, data_format)
    return _less(made, _by_channel(offset, data_format))


conv2d_integer.prepare(conv.complete("conv2d_integer", 2))


@conv2d_integer.check
def _(x, weight, stride, padding, dilation, groups, data_format, zero_point, offset):
    if any(t.dtype.name != "int8" for t in (x, weight)):
        raise errors.bad(
            "conv2d_integer(x)",
            "int8 tensors",
            described=f"{x.dtype.name} and {weight.dtype.name}",
            kind=errors.DtypeError,
        )
    conv.check_operands("conv2d_integer")(x, weight, None, stride, padding, dilation, groups, data_format)
    _check_offset("conv2d_integer", zero_point, offset, weight.shape[0])


@conv2d_integer.infer
def _(x, weight, stride, padding, dilation, data_format):
    return sig_of(conv.infer(x, weight, stride, padding, dilation, data_format).shape, dtypes.int32)
