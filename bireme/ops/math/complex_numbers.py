"""Complex numbers: their parts, their angles, and pairs of real numbers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, same, sum_to
from bireme.ops.math.arithmetic import cast, multiply
from bireme.ops.math.trigonometry import cos, sin

_PAIRS = frozenset((dtypes.float32, dtypes.float64))  # the dtypes that a complex one is made of


@op(method=True, numpy=np.conj)
def conj(x: Tensor) -> Tensor:
    """Elementwise complex conjugate; real numbers stay as they are.

    Args:
        x: Input tensor.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.conj(bireme.to_tensor([1 + 2j])).tolist()
        [(1-2j)]
    """
    return jnp.conj(x)


conj.infer(same)
conj.grad(lambda g: jnp.conj(g), numpy=True)


@op(method=True, view=True, numpy=lambda x: np.array(x.real))
def real(x: Tensor) -> Tensor:
    """Real part of each element, as a view.

    The result shares storage with ``x``: an in-place change of one is seen in the other.

    Args:
        x: Input tensor; a real one is its own real part.

    Returns:
        Tensor of the shape of ``x``, float32 for complex64 and float64 for complex128.

    Examples:
        >>> bireme.real(bireme.to_tensor([1 + 2j])).tolist()
        [1.0]
    """
    return jnp.real(x)


real.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))
real.grad(lambda g, sigs: g.astype(sigs[0].dtype.np), numpy=True)


@real.put
def _(source, part, bound, numbers):
    return complex(part, imag(source)) if source.dtype.is_complex else part


@real.layout
def _(sig, strides, first, bound, numbers):
    return (tuple([2 * n for n in strides]), 2 * first) if sig.dtype.is_complex else (strides, first)


@op(method=True, view=True, numpy=lambda x: np.array(x.imag))
def imag(x: Tensor) -> Tensor:
    """Imaginary part of each element, as a view.

    The result of a complex tensor shares storage with it: an in-place change of one is seen in the other.

    Args:
        x: Input tensor; the imaginary part of real numbers is 0.

    Returns:
        Tensor of the shape of ``x``, float32 for complex64 and float64 for complex128.

    Examples:
        >>> bireme.imag(bireme.to_tensor([1 + 2j])).tolist()
        [2.0]
    """
    return jnp.imag(x)


imag.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))
imag.grad(lambda g, sigs: (g * 1j).astype(sigs[0].dtype.np), numpy=True)


@imag.put
def _(source, part, bound, numbers):
    return complex(real(source), part)


@imag.layout
def _(sig, strides, first, bound, numbers):
    return tuple([2 * n for n in strides]), 2 * first + 1


def _joined(real, imag):
    """By parts: infinity times the imaginary unit would be NaN in its real part."""
    made = np.empty(
        np.broadcast_shapes(real.shape, imag.shape), np.complex128 if real.dtype == np.float64 else np.complex64
    )
    made.real, made.imag = real, imag
    return made


@op(promote="real imag", mix="same", dtypes=_PAIRS, out=True, numpy=_joined)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from their real and imaginary parts, with broadcasting.

    Args:
        real: Real parts, float32 or float64.
        imag: Imaginary parts, of the same dtype.

    Returns:
        Tensor of the broadcast shape, complex64 or complex128.

    Examples:
        >>> bireme.complex(bireme.to_tensor([1.0]), bireme.to_tensor([2.0])).tolist()
        [(1+2j)]
    """
    return lax.complex(*jnp.broadcast_arrays(real, imag))


complex.infer(
    lambda real, imag: sig_of(broadcast_shape("complex", real.shape, imag.shape), dtypes.complex_of(real.dtype))
)


@complex.grad(numpy=True)
def _(g, sigs):
    return sum_to(jnp.real(g), sigs[0]), sum_to(jnp.imag(g), sigs[1])


@op(method=True, dtypes=FLOAT | COMPLEX, numpy=True)
def angle(x: Tensor) -> Tensor:
    """Angle of each element in the complex plane, in radians.

    Args:
        x: Complex or floating-point tensor.

    Returns:
        Tensor of the shape of ``x`` with real numbers in ``[-pi, pi]``; for real elements 0, or pi where they are
        negative.

    Examples:
        >>> bireme.angle(bireme.to_tensor([1j, -1j])).tolist()
        [1.5707963705062866, -1.5707963705062866]
    """
    if jnp.iscomplexobj(x):
        return jnp.arctan2(x.imag, x.real)
    return jnp.where(
        jnp.isnan(x), x, jnp.where(jnp.signbit(x) & (x != 0), np.asarray(np.pi, x.dtype), jnp.zeros_like(x))
    )


angle.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))


@angle.grad(numpy=True)
def _(g, x):
    if not jnp.iscomplexobj(x):
        return jnp.zeros_like(g)
    square = x.real * x.real + x.imag * x.imag
    return g * 1j * x / jnp.where(square == 0, 1, square)


@composite(method=True, out=True)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from their absolute values and angles: ``abs * (cos(angle) + 1j * sin(angle))``.

    Args:
        abs: Absolute values, real numbers; dtypes other than float32 and float64 become float32.
        angle: Angles in radians, of a shape that broadcasts; dtypes other than float32 and float64 become float32.

    Returns:
        Tensor of the broadcast shape, complex64 or complex128.

    Examples:
        >>> bireme.polar(bireme.to_tensor([2.0]), bireme.to_tensor([0.0])).tolist()
        [(2+0j)]
    """
    for name, t in (("abs", abs), ("angle", angle)):
        if t.dtype.is_complex:
            raise errors.bad(f"polar({name})", "real numbers", t, kind=errors.ArgumentTypeError)
    size, turn = [t if t.dtype in _PAIRS else cast(t, dtypes.float32) for t in (abs, angle)]
    return complex(multiply(size, cos(turn)), multiply(size, sin(turn)))


# ---------------------------------------------------------------- pairs


@op(method=True, view=True, dtypes=_PAIRS, numpy=lambda x: _joined(x[..., 0], x[..., 1]))
def as_complex(x: Tensor) -> Tensor:
    """View pairs of real numbers in the last axis as complex numbers.

    The result shares storage with ``x``.

    Args:
        x: Tensor of float32 or float64 whose last axis has size 2: real and imaginary part.

    Returns:
        Tensor of the shape of ``x`` without its last axis, complex64 or complex128.

    Raises:
        ValueError: If the last axis does not have size 2.

    Examples:
        >>> bireme.as_complex(bireme.to_tensor([[1.0, 2.0]])).tolist()
        [(1+2j)]
    """
    return lax.complex(x[..., 0], x[..., 1])


@as_complex.check
def _(x):
    if not x.ndim or x.shape[-1] != 2:
        raise errors.bad(
            "as_complex(x)", "a last dimension of size 2", described=f"shape {list(x.shape)}", kind=errors.ShapeError
        )


as_complex.infer(lambda x: sig_of(x.shape[:-1], dtypes.complex_of(x.dtype)))
as_complex.grad(lambda g: jnp.stack([jnp.real(g), jnp.imag(g)], axis=-1), numpy=True)


@as_complex.put
def _(source, part, bound, numbers):
    return as_real(part)


@op(method=True, view=True, dtypes=COMPLEX, numpy=True)
def as_real(x: Tensor) -> Tensor:
    """View complex numbers as pairs of real numbers in a new last axis.

    The result shares storage with ``x``.

    Args:
        x: Complex tensor.

    Returns:
        Tensor of shape ``[*x.shape, 2]``, float32 or float64.

    Examples:
        >>> bireme.as_real(bireme.to_tensor([1 + 2j])).tolist()
        [[1.0, 2.0]]
    """
    return jnp.stack([jnp.real(x), jnp.imag(x)], axis=-1)


as_real.infer(lambda x: sig_of((*x.shape, 2), dtypes.real_of(x.dtype)))
as_real.grad(lambda g: g[..., 0] + 1j * g[..., 1], numpy=True)


@as_real.put
def _(source, part, bound, numbers):
    return as_complex(part)


@composite(method=True, name_arg=False, hands={"x": "input"})
def view_as_complex(input: Tensor) -> Tensor:
    """View pairs of real numbers in the last axis as complex numbers; another name of ``as_complex``.

    Args:
        input: Tensor of float32 or float64 whose last axis has size 2: real and imaginary part.

    Returns:
        Tensor of the shape of ``input`` without its last axis, complex64 or complex128, which shares storage with it.

    Examples:
        >>> bireme.view_as_complex(bireme.to_tensor([[1.0, 2.0]])).tolist()
        [(1+2j)]
    """
    return as_complex(input)


@composite(method=True, name_arg=False, hands={"x": "input"})
def view_as_real(input: Tensor) -> Tensor:
    """View complex numbers as pairs of real numbers in a new last axis; another name of ``as_real``.

    Args:
        input: Complex tensor.

    Returns:
        Tensor of shape ``[*input.shape, 2]``, float32 or float64, which shares storage with ``input``.

    Examples:
        >>> bireme.view_as_real(bireme.to_tensor([1 + 2j])).tolist()
        [[1.0, 2.0]]
    """
    return as_real(input)
